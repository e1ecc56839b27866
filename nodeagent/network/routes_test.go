package network

import (
	"maps"
	"net/netip"
	"slices"
	"testing"

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

func TestPeers(t *testing.T) {
	peers, self := peersOf([]*corev1.Node{
		node("self", "10.244.0.0/24", "192.0.2.1"),
		node("b", "10.244.1.0/24", "fd00::2", "192.0.2.2"),
		node("no-range", "", "192.0.2.3"),
		node("no-address", "10.244.4.0/24"),
		node("loopback", "10.244.5.0/24", "127.0.0.1"),
	}, "self")
	want := peer{netip.MustParsePrefix("10.244.0.0/24"), netip.MustParseAddr("192.0.2.1")}
	if b := (peer{netip.MustParsePrefix("10.244.1.0/24"), netip.MustParseAddr("192.0.2.2")}); self != want || len(peers) != 1 || peers[0] != b {
		t.Errorf("%v, %v", self, peers)
	}
}

func TestDesired(t *testing.T) {
	p := func(i byte) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, i, 0}), 24) }
	at := func(i byte) netip.Addr { return netip.AddrFrom4([4]byte{192, 0, 2, i}) }
	self := peer{p(0), at(100)}
	direct := func(i byte) route { return route{dst: p(i), gw: at(i)} }
	over := func(i byte) route { return route{dst: p(i), gw: p(i).Addr(), overlay: true} }
	for _, c := range []struct {
		name string
		self peer
		how  reach
		live []route
		want []route
	}{
		{"on a link", self, onLink, nil, []route{direct(1)}},
		{"behind a router", self, routed, nil, []route{over(1)}},
		{"moved onto a link", self, onLink, []route{over(1)}, []route{direct(1)}},
		{"moved away", self, routed, []route{direct(1)}, []route{over(1)}},
		{"the link is down", self, unknown, []route{direct(1)}, []route{direct(1)}},
		{"the router is down", self, unknown, []route{over(1)}, []route{over(1)}},
		{"never reached", self, unknown, nil, nil},
		{"this node has no range yet", peer{}, routed, nil, nil},
		{"this node has no range yet, on a link", peer{}, onLink, nil, []route{direct(1)}},
	} {
		live := map[netip.Prefix]route{}
		for _, r := range c.live {
			live[r.dst] = r
		}
		routes, tunnels := desired([]peer{{p(1), at(1)}}, c.self, map[netip.Addr]reach{at(1): c.how}, live)
		if got := slices.Collect(maps.Values(routes)); !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", c.name, got, c.want)
		}
		for _, r := range routes {
			if want := (tunnel{r.gw, at(1)}); r.overlay != (tunnels[r.gw] == want) {
				t.Errorf("%s: tunnels %v", c.name, tunnels)
			}
		}
	}
}

func TestPlanRoutes(t *testing.T) {
	p := func(i byte) netip.Prefix { return netip.PrefixFrom(netip.AddrFrom4([4]byte{10, 244, i, 0}), 24) }
	rs := func(overlay bool, gw ...byte) map[netip.Prefix]route {
		out := map[netip.Prefix]route{}
		for i, g := range gw {
			if g != 0 {
				out[p(byte(i))] = route{p(byte(i)), netip.AddrFrom4([4]byte{192, 0, 2, g}), overlay && i == 2}
			}
		}
		return out
	}
	desired, live := rs(true, 0, 1, 2, 3), rs(false, 0, 1, 2, 0, 4)
	set, remove := planRoutes(desired, live)
	got := maps.Clone(live)
	for _, r := range set {
		got[r.dst] = r
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
