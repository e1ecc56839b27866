package v1alpha1

import (
	"path"
	"testing"
)

func TestSysctlPath(t *testing.T) {
	for name, want := range map[string]string{
		"net.core.somaxconn":                 "net/core/somaxconn",
		"net/core/somaxconn":                 "net/core/somaxconn",
		"net/ipv4/conf/eth0.100/rp_filter":   "net/ipv4/conf/eth0.100/rp_filter",
		"net.ipv4.conf.eth0/100.rp_filter":   "net/ipv4/conf/eth0.100/rp_filter",
		"somaxconn":                          "somaxconn",
		"":                                   "",
		"..":                                 "",
		"net/../../etc/passwd":               "",
		"/etc/passwd":                        "",
		"net.core.":                          "",
		"net.core.somaxconn\n":               "",
		"net.core.somaxconn net.ipv4.tcp_ao": "",
	} {
		if got := SysctlPath(name); got != want {
			t.Errorf("SysctlPath(%q) = %q, want %q", name, got, want)
		}
	}
}

func TestSysctlRefusal(t *testing.T) {
	for _, s := range nodeSysctls {
		if _, err := path.Match(s.pattern, ""); err != nil {
			t.Errorf("%s: %v", s.pattern, err)
		}
	}
	for _, c := range []struct{ name, value, want string }{
		{"net.ipv4.ip_forward", "0", ownedByRouter},
		{"net.ipv6.conf.all.forwarding", "0", ownedByRouter},
		{"net/ipv4/conf/eth0.100/forwarding", "1", ownedByRouter},
		{"net.ipv4.conf.writ0.route_localnet", "0", ownedByPods},
		{"net.ipv4.neigh.wv0123456789ab.gc_stale_time", "0", ownedByPods},
		{"net.bridge.bridge-nf-call-iptables", "1", ownedByPods},
		{"kernel.hostname", "x", ownedByConfig},
		{"kernel.panic", "0", ownedByUpdate},
		{"kernel.modprobe", "/bin/x", startsPrograms},
		{"kernel.core_pattern", " |/bin/x", startsPrograms},
		{"kernel.core_pattern", "/var/crash/core.%p", ""},
		{"kernel.panic_on_warn", "1", ""},
		{"net.core.somaxconn", "4096", ""},
		{"net.ipv4.conf.all.rp_filter", "2", ""},
		{"vm.max_map_count", "1", ""},
	} {
		if got := SysctlRefusal(SysctlPath(c.name), c.value); got != c.want {
			t.Errorf("%s = %q: %q, want %q", c.name, c.value, got, c.want)
		}
	}
}
