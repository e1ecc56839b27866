package network

import (
	"cmp"
	"maps"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// peer is another node: its address, and the range of its pods.
type peer struct {
	pods netip.Prefix
	addr netip.Addr
}

// reach says how this node's packets come to an address.
type reach int

const (
	unknown reach = iota // no route: the link is not up yet
	onLink               // on a link of this node
	routed               // behind a router, which knows nothing of pods
)

// route leads to the pods of one node.
type route struct {
	dst netip.Prefix
	// gw is the node's address; over the overlay, that of its tunnel end.
	gw      netip.Addr
	overlay bool
}

// tunnel is what the overlay must know of a node: whoever looks for the tunnel
// end vtep finds the hardware address, and packets for that go to the node.
// All three follow from the Node object: nothing is asked over the network.
type tunnel struct{ vtep, node netip.Addr }

// vtep is a node's end of the tunnel: the address of its pods' network itself,
// which no pod has.
func vtep(pods netip.Prefix) netip.Addr { return pods.Masked().Addr() }

// peersOf reads the other nodes, and this one.
func peersOf(nodes []*corev1.Node, name string) (peers []peer, self peer) {
	for _, n := range nodes {
		addr, ok := internalIP(n)
		if !ok {
			continue
		}
		seen := map[netip.Prefix]bool{}
		for _, s := range append([]string{n.Spec.PodCIDR}, n.Spec.PodCIDRs...) {
			p, err := netip.ParsePrefix(s)
			if err != nil || !p.Addr().Is4() || seen[p.Masked()] {
				continue
			}
			seen[p.Masked()] = true
			switch {
			case n.Name != name:
				peers = append(peers, peer{p.Masked(), addr})
			case !self.pods.IsValid():
				self = peer{p.Masked(), addr}
			}
		}
	}
	slices.SortFunc(peers, func(a, b peer) int {
		return cmp.Or(a.pods.Addr().Compare(b.pods.Addr()), a.addr.Compare(b.addr))
	})
	return peers, self
}

func internalIP(n *corev1.Node) (netip.Addr, bool) {
	for _, a := range n.Status.Addresses {
		if a.Type != corev1.NodeInternalIP {
			continue
		}
		if ip, err := netip.ParseAddr(a.Address); err == nil && ip.Is4() && !ip.IsLoopback() {
			return ip, true
		}
	}
	return netip.Addr{}, false
}

// desired says which routes and tunnels there are to be: directly over the
// node's address where that is on a link, through the overlay where a router
// is between. A node that cannot be reached at all keeps what it has.
func desired(peers []peer, self peer, reaches map[netip.Addr]reach, live map[netip.Prefix]route) (routes map[netip.Prefix]route, tunnels map[netip.Addr]tunnel) {
	routes, tunnels = map[netip.Prefix]route{}, map[netip.Addr]tunnel{}
	for _, p := range peers {
		had, was := live[p.pods]
		how := reaches[p.addr]
		switch {
		case how == unknown && was && !had.overlay:
			routes[p.pods] = had
		case how == onLink:
			routes[p.pods] = route{dst: p.pods, gw: p.addr}
		case self.pods.IsValid() && (how == routed || was):
			end := vtep(p.pods)
			routes[p.pods] = route{dst: p.pods, gw: end, overlay: true}
			tunnels[end] = tunnel{vtep: end, node: p.addr}
		}
	}
	return routes, tunnels
}

// planRoutes says what to change for live to become desired.
func planRoutes(desired, live map[netip.Prefix]route) (set, remove []route) {
	for dst, r := range desired {
		if live[dst] != r {
			set = append(set, r)
		}
	}
	for dst, r := range live {
		if _, ok := desired[dst]; !ok {
			remove = append(remove, r)
		}
	}
	byDst := func(a, b route) int { return a.dst.Addr().Compare(b.dst.Addr()) }
	slices.SortFunc(set, byDst)
	slices.SortFunc(remove, byDst)
	return set, remove
}

// sorted is m's values in the order of their keys.
func sorted(m map[netip.Addr]tunnel) []tunnel {
	return slices.SortedFunc(maps.Values(m), func(a, b tunnel) int { return a.vtep.Compare(b.vtep) })
}
