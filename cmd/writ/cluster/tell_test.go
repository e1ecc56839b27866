package cluster

import (
	"net/netip"
	"testing"
)

func TestPageURL(t *testing.T) {
	for _, c := range []struct {
		cfg  Config
		want string
	}{
		{Config{Listen: "127.0.0.1:6443"}, ""},
		{Config{Listen: "localhost:6443"}, ""},
		{Config{Listen: "192.0.2.7:6443"}, "https://192.0.2.7:6443/ui/"},
		{Config{Listen: "0.0.0.0:6443"}, ""},
		{Config{Listen: ":6443", NodeIP: netip.MustParseAddr("192.0.2.9")}, "https://192.0.2.9:6443/ui/"},
		{Config{Listen: "[::]:6443", NodeIP: netip.MustParseAddr("2001:db8::1")}, "https://[2001:db8::1]:6443/ui/"},
		{Config{Listen: "127.0.0.1:6443", ExternalURL: "https://writ.example.com"}, "https://writ.example.com/ui/"},
		{Config{Listen: "127.0.0.1:6443", ExternalURL: "https://example.com/writ/"}, "https://example.com/writ/ui/"},
	} {
		if got := c.cfg.pageURL(); got != c.want {
			t.Errorf("%s %s: %q, want %q", c.cfg.Listen, c.cfg.ExternalURL, got, c.want)
		}
	}
	for _, s := range []string{"writ.example.com", "ftp://x", "https://", ":"} {
		if CheckExternalURL(s) == nil {
			t.Errorf("%q was taken", s)
		}
	}
}
