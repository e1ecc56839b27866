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
		if n.Server != "" {
			w.find("Forbidden", locate(e, "server"), "", "belongs to an agent: a server is where agents join")
		}
		if n.Token != "" {
			w.find("Forbidden", locate(e, "token"), "", "belongs to an agent: a server makes the tokens")
		}
		if len(n.CAHashes) > 0 {
			w.find("Forbidden", locate(e, "caHashes"), "", "belongs to an agent")
		}
		relateServer(w, n, e)
	case Agent:
		for name, set := range map[string]bool{"listen": n.Listen != "", "repository": n.Repository != nil, "externalURL": n.ExternalURL != ""} {
			if set {
				w.find("Forbidden", locate(e, name), "", "belongs to a server")
			}
		}
		if n.Server == "" {
			w.find("Required", locate(e, "server"), "", "is required of an agent: where the API server is, such as https://192.0.2.1:6443")
		}
		if n.Token == "" {
			w.find("Required", locate(e, "token"), "", "is required of an agent: 'writ token create' on a server prints one")
		}
	}
	if n.Network != nil {
		for i, f := range n.Network.Interfaces {
			relateInterface(w, f, i, e)
		}
	}
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
