package config

import (
	"net"
	"net/netip"
	"strconv"
	"strings"

	"cuelang.org/go/cue/ast"
)

// relate finds what fields say of each other, and what CUE has no word for.
func relate(w *walker, n Node, e ast.Expr) {
	switch n.Role {
	case Server:
		relateServer(w, n, e)
		if n.First() {
			relateFirst(w, n, e)
		} else {
			relateFurther(w, n, e)
		}
	case Agent:
		for name, set := range map[string]bool{"listen": n.Listen != "", "repository": n.Repository != nil, "externalURL": n.ExternalURL != "", "authority": n.Authority != nil} {
			if set {
				w.find("Forbidden", locate(e, name), "", "belongs to a server")
			}
		}
		if n.Server == "" {
			w.find("Required", locate(e, "server"), "", "is required of an agent: where the API server is, such as https://192.0.2.1:6443")
		}
		if n.Token == "" {
			w.find("Required", locate(e, "token"), "", "is required of an agent: 'writ token create' on a server prints one, or it is that in the node.yaml of the first server")
		}
	}
	if n.UnsignedImages && len(n.ImageKeys) > 0 {
		w.find("Forbidden", locate(e, "unsignedImages"), "", "contradicts imageKeys, of which one must sign an image: leave one of them out")
	}
	if n.Network != nil {
		for i, f := range n.Network.Interfaces {
			relateInterface(w, f, i, e)
		}
	}
}

// relateFirst is about a server that begins a cluster.
func relateFirst(w *walker, n Node, e ast.Expr) {
	if len(n.CAHashes) > 0 {
		w.find("Forbidden", locate(e, "caHashes"), "", "vouches for a cluster that is there, and needs server beside it: where that is")
	}
	if n.Authority != nil {
		relateAuthority(w, *n.Authority, e)
	}
}

// relateFurther is about a server that joins others.
func relateFurther(w *walker, n Node, e ast.Expr) {
	for name, set := range map[string]bool{"repository": n.Repository != nil, "authority": n.Authority != nil} {
		if set {
			w.find("Forbidden", locate(e, name), "", "is handed over by the cluster when a server joins it: leave it out beside server")
		}
	}
	if n.Token == "" {
		w.find("Required", locate(e, "token"), "", "is required to join as a server: 'writ token create --role server' prints one")
	}
	if len(n.CAHashes) == 0 {
		w.find("Required", locate(e, "caHashes"), "", "are required to join as a server, which is given the keys of the cluster: 'writ image configure --kubeconfig' and 'writ token create' print the hash")
	}
	if host, _, err := net.SplitHostPort(n.Listen); err == nil && loopback(host) {
		w.find("Invalid", locate(e, "listen"), "", "must be an address that the other servers reach, such as 0.0.0.0:6443")
	}
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && ip.IsLoopback()
}

func relateServer(w *walker, n Node, e ast.Expr) {
	if _, port, err := net.SplitHostPort(n.Listen); n.Listen != "" {
		if p, perr := strconv.Atoi(port); err != nil || perr != nil || p < 1 || p > 65535 {
			w.find("OutOfRange", locate(e, "listen"), "", "must be an address and a port, 1 to 65535, such as 0.0.0.0:6443, is %q", n.Listen)
		}
	}
	r := n.Repository
	if r == nil {
		return
	}
	in := func(name string) place { return locate(e, "repository", name) }
	overHTTP := strings.HasPrefix(r.URL, "https://") || strings.HasPrefix(r.URL, "http://")
	if r.Password != "" && r.Username == "" {
		w.find("Required", in("username"), "", "is required beside password")
	}
	if r.BearerToken != "" && r.Password != "" {
		w.find("Forbidden", in("bearerToken"), "", "cannot stand beside password: only one of them is sent")
	}
	for name, set := range map[string]bool{"password": r.Password != "", "bearerToken": r.BearerToken != ""} {
		if set && !strings.HasPrefix(r.URL, "https://") {
			w.find("Forbidden", in(name), "", "is only sent over https://, and the URL is %q", r.URL)
		}
	}
	if r.CA != "" && !overHTTP {
		w.find("Forbidden", in("ca"), "", "is only used with https://")
	}
	if overHTTP {
		for name, set := range map[string]bool{"sshKey": r.SSHKey != "", "knownHosts": r.KnownHosts != ""} {
			if set {
				w.find("Forbidden", in(name), "", "is only used with ssh://")
			}
		}
		return
	}
	if !strings.HasPrefix(r.URL, "git://") && r.KnownHosts == "" {
		w.find("Required", in("knownHosts"), "", "is required with SSH: the line that 'ssh-keyscan HOST' prints, compared with what the host's owner says")
	}
}

func relateInterface(w *walker, f Interface, i int, e ast.Expr) {
	in := func(name string) place { return locate(e, "network", "interfaces", i, name) }
	if f.Match.Name == "" && f.Match.MAC == "" {
		w.find("Required", in("match"), "", "needs a name or a mac")
	}
	if f.DHCP != nil && !*f.DHCP && len(f.Addresses) == 0 {
		w.find("Required", in("addresses"), "", "are required without DHCP, such as [192.0.2.7/24]")
	}
	if f.Gateway == "" {
		return
	}
	if len(f.Addresses) == 0 {
		w.find("Forbidden", in("gateway"), "", "needs addresses beside it; DHCP brings a gateway of its own")
		return
	}
	gw, err := netip.ParseAddr(f.Gateway)
	for _, a := range f.Addresses {
		if p, perr := netip.ParsePrefix(a); err == nil && perr == nil && p.Contains(gw) {
			return
		}
	}
	w.find("Invalid", in("gateway"), "", "is in none of the networks of addresses, %s", strings.Join(f.Addresses, ", "))
}
