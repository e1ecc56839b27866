package cluster

import (
	"net/netip"
	"testing"
)

// TestReach: where others reach a server, and where its page is for them.
func TestReach(t *testing.T) {
	for _, c := range []struct{ listen, machine, external, told, page string }{
		{"127.0.0.1:6443", "192.0.2.9", "", "https://10.244.0.1:6443", ""},
		{"localhost:6443", "192.0.2.9", "", "https://10.244.0.1:6443", ""},
		{"192.0.2.7:6443", "192.0.2.9", "", "https://192.0.2.7:6443", "https://192.0.2.7:6443/ui/"},
		{"0.0.0.0:6443", "", "", "https://10.244.0.1:6443", ""},
		{"0.0.0.0:6443", "127.0.0.1", "", "https://10.244.0.1:6443", ""},
		{":6443", "192.0.2.9", "", "https://192.0.2.9:6443", "https://192.0.2.9:6443/ui/"},
		{"[::]:7443", "2001:db8::1", "", "https://[2001:db8::1]:7443", "https://[2001:db8::1]:7443/ui/"},
		{"127.0.0.1:6443", "", "https://writ.example.com", "https://10.244.0.1:6443", "https://writ.example.com/ui/"},
		{"127.0.0.1:6443", "", "https://example.com/writ/", "https://10.244.0.1:6443", "https://example.com/writ/ui/"},
	} {
		cfg := Config{Listen: c.listen, ExternalURL: c.external}
		var machine netip.Addr
		if c.machine != "" {
			machine = netip.MustParseAddr(c.machine)
		}
		if got := NewControlPlane(cfg).toldTo(machine); got != c.told {
			t.Errorf("%+v: machines are told %s", c, got)
		}
		if got := cfg.pageURL(machine); got != c.page {
			t.Errorf("%+v: the page is at %q", c, got)
		}
	}
	for _, s := range []string{"writ.example.com", "ftp://x", "https://", ":"} {
		if CheckExternalURL(s) == nil {
			t.Errorf("%q was taken", s)
		}
	}
}
