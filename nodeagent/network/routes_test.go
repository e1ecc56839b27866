package network

import (
	"maps"
	"net/netip"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/vishvananda/netlink"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

func node(name, cidr string, addrs ...string) *corev1.Node {
	n := schema.ResourceFor[*corev1.Node]().New().(*corev1.Node)
	n.Name = name
	n.Spec.PodCIDR = cidr
	for _, a := range addrs {
		n.Status.Addresses = append(n.Status.Addresses, corev1.NodeAddress{Type: corev1.NodeInternalIP, Address: a})
	}
	return n
}

func TestDesiredRoutes(t *testing.T) {
	got := desiredRoutes([]*corev1.Node{
		node("self", "10.244.0.0/24", "192.0.2.1"),
		node("b", "10.244.1.0/24", "fd00::2", "192.0.2.2"),
		node("no-range", "", "192.0.2.3"),
		node("no-address", "10.244.4.0/24"),
		node("loopback", "10.244.5.0/24", "127.0.0.1"),
	}, "self")
	want := map[netip.Prefix]netip.Addr{netip.MustParsePrefix("10.244.1.0/24"): netip.MustParseAddr("192.0.2.2")}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Addr) bool { return a == b })); d != "" {
		t.Error(d)
	}
}

func TestPlanRoutes(t *testing.T) {
	p := func(i byte) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, i, 0}), 24) }
	gw := func(i byte) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, i}) }
	desired := map[netip.Prefix]netip.Addr{p(1): gw(1), p(2): gw(2), p(3): gw(3)}
	live := map[netip.Prefix]netip.Addr{p(1): gw(1), p(2): gw(9), p(4): gw(4)}
	set, remove := planRoutes(desired, live)
	got := maps.Clone(live)
	for _, r := range set {
		got[r.dst] = r.gw
	}
	for _, r := range remove {
		delete(got, r.dst)
	}
	if !maps.Equal(got, desired) || len(set) != 2 || len(remove) != 1 {
		t.Errorf("set %v remove %v lead to %v, want %v", set, remove, got, desired)
	}
}

// The kernel takes the routes and gives them back as they were meant.
func TestRoutesInKernel(t *testing.T) {
	n := setup(t, t.TempDir())
	uplink(t, n) // 198.51.100.1/24
	dst, gw := netip.MustParsePrefix("10.244.9.0/24"), netip.MustParseAddr("198.51.100.9")
	api := client.NewFake(node("b", dst.String(), gw.String()))
	r := NewRoutes(RoutesConfig{Cache: api.Cache(), NodeName: "a"})
	for range 2 {
		if err := r.reconcile(n.host); err != nil {
			t.Fatal(err)
		}
	}
	count := func() int {
		rs, err := n.host.RouteListFiltered(netlink.FAMILY_V4, &netlink.Route{Protocol: routeProtocol}, netlink.RT_FILTER_PROTOCOL)
		if err != nil {
			t.Fatal(err)
		}
		return len(rs)
	}
	if count() != 1 {
		t.Fatalf("%d routes, want 1", count())
	}
	if err := client.Delete[*corev1.Node](t.Context(), api, schema.Key{Name: "b"}, client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	if err := r.reconcile(n.host); err != nil || count() != 0 {
		t.Fatalf("%v, %d routes left", err, count())
	}
}
