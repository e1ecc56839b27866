package reach

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/writ-os/writ/controlplane/auth/pki"
)

func TestRefuse(t *testing.T) {
	b := Barred{
		Services: netip.MustParsePrefix("10.96.0.0/16"),
		Servers:  []netip.AddrPort{netip.MustParseAddrPort("192.0.2.2:6443"), netip.MustParseAddrPort("192.0.2.2:2380")},
		Own:      []netip.Addr{netip.MustParseAddr("192.0.2.1")}, OwnPorts: []uint16{6443, 2380},
	}
	for to, allowed := range map[string]bool{
		"192.0.2.1:10250": true, "192.0.2.1:6443": false, "192.0.2.1:2380": false,
		"192.0.2.2:10250": true, "192.0.2.2:6443": false, "192.0.2.2:2380": false, "[::ffff:192.0.2.2]:6443": false,
		"192.0.2.3:6443": true, "10.244.1.5:80": true, "[2001:db8::1]:80": true,
		"127.0.0.1:10250": false, "127.8.9.1:80": false, "[::1]:10250": false, "[::ffff:127.0.0.1]:10250": false, "[::ffff:7f00:1]:1": false,
		"169.254.169.254:80": false, "[fe80::1%eth0]:80": false, "[::ffff:169.254.169.254]:80": false,
		"0.0.0.0:10250": false, "[::]:10250": false, "224.0.0.1:80": false, "[ff02::1]:80": false, "255.255.255.255:80": false,
		"10.96.0.1:443": false, "10.96.200.1:80": false, "[::ffff:10.96.0.1]:443": false,
	} {
		if why := b.Refuse(netip.MustParseAddrPort(to)); (why == "") != allowed {
			t.Errorf("%s: %q, want allowed %v", to, why, allowed)
		}
	}
}

// agent serves by a certificate of a node, or whatever it is given.
func agent(t *testing.T, a *pki.Authority, s pki.Serving) string {
	t.Helper()
	pair, err := a.IssueServing(s)
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = w.Write([]byte(r.Host))
	}))
	srv.TLS = &tls.Config{Certificates: []tls.Certificate{pair.TLS()}}
	srv.StartTLS()
	t.Cleanup(srv.Close)
	_, port, err := net.SplitHostPort(srv.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// TestNodeIsItself: who answers for a node is that node, and no other holder of
// a certificate.
func TestNodeIsItself(t *testing.T) {
	a, err := pki.Open(pki.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	k, err := a.Kubelet()
	if err != nil {
		t.Fatal(err)
	}
	pool, err := a.NodePool()
	if err != nil {
		t.Fatal(err)
	}
	local := netip.MustParseAddr("127.0.0.1")
	way := New(Config{TLS: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, Also: []netip.Addr{local},
		Hosts: func(string) ([]string, error) { return []string{local.String()}, nil }})
	t.Cleanup(way.Close)
	stranger, err := pki.Make(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name   string
		by     *pki.Authority
		s      pki.Serving
		refuse string
	}{
		{"itself", k, pki.Serving{Name: "system:node:a", Hosts: []string{"a"}}, ""},
		{"itself, by the CA of before", a, pki.Serving{Name: "system:node:a", Hosts: []string{"a", "192.0.2.1"}}, ""},
		{"another node", k, pki.Serving{Name: "system:node:b", Hosts: []string{"b"}}, "not a"},
		{"another node with its name", k, pki.Serving{Name: "system:node:b", Hosts: []string{"a", "b"}}, `node a answers as "system:node:b"`},
		{"an API server", a, pki.Serving{Name: "kube-apiserver", Hosts: []string{"a", "kubernetes", "127.0.0.1"}}, `node a answers as "kube-apiserver"`},
		{"by its address alone", k, pki.Serving{Name: "system:node:a", Hosts: []string{"127.0.0.1"}}, "not valid for any names"},
		{"of another CA", stranger, pki.Serving{Name: "system:node:a", Hosts: []string{"a"}}, "unknown authority"},
	} {
		port := agent(t, c.by, c.s)
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://a:"+port+"/", nil)
		if err != nil {
			t.Fatal(err)
		}
		resp, err := way.Nodes.RoundTrip(req)
		if err == nil {
			resp.Body.Close()
		}
		if (err == nil) != (c.refuse == "") || err != nil && !strings.Contains(err.Error(), strings.TrimPrefix(c.refuse, "not a")) {
			t.Errorf("%s: %v, want %q", c.name, err, c.refuse)
		}
	}
}

// TestDialled: an address is judged when it is dialled, whatever name it had.
func TestDialled(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	_, port, _ := net.SplitHostPort(l.Addr().String())
	way := New(Config{Hosts: func(string) ([]string, error) { return []string{"localhost"}, nil }})
	for name, dial := range map[string]func() (net.Conn, error){
		"a node": func() (net.Conn, error) { return way.Nodes.DialContext(t.Context(), "tcp", "a:"+port) },
		"a pod":  func() (net.Conn, error) { return way.Pods.DialContext(t.Context(), "tcp", "127.0.0.1:"+port) },
		"a name": func() (net.Conn, error) { return way.Pods.DialContext(t.Context(), "tcp", "localhost:"+port) },
		"in IPv6 form": func() (net.Conn, error) {
			return way.Pods.DialContext(context.Background(), "tcp", "[::ffff:127.0.0.1]:"+port)
		},
	} {
		conn, err := dial()
		var refused *RefusedError
		if !errors.As(err, &refused) {
			t.Errorf("%s: %v", name, err)
		}
		if conn != nil {
			conn.Close()
		}
	}
}
