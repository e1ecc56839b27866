package nodeipam

import (
	"net/netip"
	"testing"
)

func TestFree(t *testing.T) {
	used := func(cidrs ...string) map[netip.Prefix]bool {
		m := map[netip.Prefix]bool{}
		for _, c := range cidrs {
			m[netip.MustParsePrefix(c)] = true
		}
		return m
	}
	for _, c := range []struct {
		all  string
		bits int
		used map[netip.Prefix]bool
		want string
	}{
		{"10.244.0.0/16", 24, nil, "10.244.0.0/24"},
		{"10.244.0.0/16", 24, used("10.244.0.0/24", "10.244.2.0/24"), "10.244.1.0/24"},
		{"10.244.0.0/16", 24, used("10.244.0.0/23"), "10.244.2.0/24"},
		{"10.244.0.0/16", 24, used("10.244.0.128/25"), "10.244.1.0/24"},
		{"10.244.0.0/23", 24, used("10.244.0.0/24", "10.244.1.0/24"), ""},
		{"10.244.0.0/24", 24, nil, "10.244.0.0/24"},
		{"10.244.0.0/25", 24, nil, ""},
	} {
		got, ok := free(netip.MustParsePrefix(c.all), c.bits, c.used)
		if ok != (c.want != "") || ok && got.String() != c.want {
			t.Errorf("a /%d of %s beside %v: %v %v, want %q", c.bits, c.all, c.used, got, ok, c.want)
		}
	}
}

func TestEveryNodeGetsItsOwn(t *testing.T) {
	used := map[netip.Prefix]bool{}
	for range 256 {
		p, ok := free(netip.MustParsePrefix("10.244.0.0/16"), 24, used)
		if !ok || used[p] {
			t.Fatalf("after %d: %v %v", len(used), p, ok)
		}
		used[p] = true
	}
	if _, ok := free(netip.MustParsePrefix("10.244.0.0/16"), 24, used); ok {
		t.Error("a 257th of 256")
	}
}
