package machine

import "testing"

func TestResolvConf(t *testing.T) {
	const head = "# What systemd-networkd knows. Written again whenever that changes.\n"
	for _, c := range []struct{ name, state, want string }{
		{"nothing", "", head},
		{"by DHCP", "OPER_STATE=routable\nDNS=10.0.2.3\nDOMAINS=example.com lan\n", head + "nameserver 10.0.2.3\nsearch example.com lan\n"},
		{"with names for TLS", "DNS=192.0.2.1#dns.example.com 2001:db8::1\n", head + "nameserver 192.0.2.1\nnameserver 2001:db8::1\n"},
		{"too many", "DNS=192.0.2.1 192.0.2.2 192.0.2.3 192.0.2.4\n", head + "nameserver 192.0.2.1\nnameserver 192.0.2.2\nnameserver 192.0.2.3\n"},
	} {
		if got := resolvConf(c.state); got != c.want {
			t.Errorf("%s: %q", c.name, got)
		}
	}
	root := t.TempDir()
	put(t, root+"/run/systemd/netif/state", "DNS=192.0.2.1\n")
	for range 2 {
		if err := WriteResolvConf(root); err != nil {
			t.Fatal(err)
		}
	}
	if got := get(t, root+"/run/writ/resolv.conf"); got != head+"nameserver 192.0.2.1\n" {
		t.Errorf("%q", got)
	}
}
