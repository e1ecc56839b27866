package proxy

import (
	"net/netip"
	"slices"
	"time"

	"github.com/writ-os/writ/schema"
)

// model is what the kernel holds, and who asked for it. It is changed one
// Service at a time and says which operations that takes.
type model struct {
	claims  map[VIP][]claim      // best claim first
	byOwner map[schema.Key][]VIP // what a service claims
	live    map[VIP]*Entry       // what the kernel holds, lists in the kernel's order
	shapes  map[Shape]bool
	hairpin map[netip.Addr]int // how many entries want it
}

// claim is the wish of one Service, or one pod, for a VIP. Two Services may have
// the same external address or, while one replaces the other, the same node
// port; and a pod's host port may be a Service's node port. The oldest has it.
type claim struct {
	owner   schema.Key
	created time.Time
	entry   *Entry
}

// changes are operations in order, and the VIPs whose UDP flows may be stale.
type changes struct {
	ops []Op
	udp map[VIP]bool
}

func (c *changes) add(d changes) {
	c.ops = append(c.ops, d.ops...)
	for vip := range d.udp {
		c.flows(vip)
	}
}

func (c *changes) op(o Op) { c.ops = append(c.ops, o) }

func (c *changes) flows(vip VIP) {
	if vip.Proto != protoUDP {
		return
	}
	if c.udp == nil {
		c.udp = map[VIP]bool{}
	}
	c.udp[vip] = true
}

func newModel() *model {
	return &model{claims: map[VIP][]claim{}, byOwner: map[schema.Key][]VIP{}, live: map[VIP]*Entry{},
		shapes: map[Shape]bool{}, hairpin: map[netip.Addr]int{}}
}

// set replaces everything that one Service claims.
func (m *model) set(owner schema.Key, created time.Time, desired map[VIP]*Entry) changes {
	touched := m.byOwner[owner]
	for _, vip := range touched {
		m.claims[vip] = slices.DeleteFunc(m.claims[vip], func(c claim) bool { return c.owner == owner })
	}
	var mine []VIP
	for vip, e := range desired {
		m.claims[vip] = append(m.claims[vip], claim{owner, created, e})
		slices.SortFunc(m.claims[vip], compareClaims)
		mine = append(mine, vip)
		if !slices.Contains(touched, vip) {
			touched = append(touched, vip)
		}
	}
	slices.SortFunc(touched, compareVIPs) // the same change gives the same ops
	if m.byOwner[owner] = mine; len(mine) == 0 {
		delete(m.byOwner, owner)
	}
	var c changes
	for _, vip := range touched {
		var want *Entry
		if cs := m.claims[vip]; len(cs) > 0 {
			want = cs[0].entry
		} else {
			delete(m.claims, vip)
		}
		m.become(&c, vip, want)
	}
	return c
}

// become turns the live entry of a VIP into want; nil stands for none.
func (m *model) become(c *changes, vip VIP, want *Entry) {
	have := m.live[vip]
	if have == nil && want == nil {
		return
	}
	next := &Entry{}
	if want != nil {
		*next = *want
	}
	was := &Entry{}
	if have != nil {
		was = have
	}
	next.Endpoints = keepPlaces(was.Endpoints, next.Endpoints)
	next.Inside = keepPlaces(was.Inside, next.Inside)

	before, after := verdicts(vip, have), verdicts(vip, nil)
	if want != nil {
		after = verdicts(vip, next)
	}
	for _, v := range after {
		if !v.drop && v.table != Closed && !m.shapes[v.shape] {
			m.shapes[v.shape] = true
			c.op(Op{Verb: AddShape, Shape: v.shape})
		}
	}
	replaceList(c, vip, 0, was.Endpoints, next.Endpoints)
	replaceList(c, vip, InsideSlot, was.Inside, next.Inside)
	for _, v := range before {
		if !slices.Contains(after, v) {
			c.op(Op{Verb: DelVIP, Map: v.table, VIP: vip, Shape: v.shape, Drop: v.drop})
		}
	}
	for _, v := range after {
		if !slices.Contains(before, v) {
			c.op(Op{Verb: AddVIP, Map: v.table, VIP: vip, Shape: v.shape, Drop: v.drop})
		}
	}
	m.wantHairpin(c, next.Hairpin, was.Hairpin)
	m.forget(c, vip, was, next, have == nil)
	if want == nil {
		delete(m.live, vip)
		return
	}
	m.live[vip] = next
}

// forget finds what of the past must not live on: clients bound to an endpoint
// that is gone, and UDP flows, which have no end of their own.
func (m *model) forget(c *changes, vip VIP, was, next *Entry, isNew bool) {
	gone := func(eps, in, in2 []netip.AddrPort) {
		for _, ep := range eps {
			if slices.Contains(in, ep) || slices.Contains(in2, ep) {
				continue
			}
			c.flows(vip)
			if was.Affinity > 0 {
				c.op(Op{Verb: DropAffinity, VIP: vip, Endpoint: ep})
			}
		}
	}
	gone(was.Endpoints, next.Endpoints, next.Inside)
	gone(was.Inside, next.Endpoints, next.Inside)
	if isNew || (len(was.Endpoints) == 0 && len(next.Endpoints) > 0) {
		c.flows(vip) // what was sent there before went nowhere
	}
}

// wantHairpin counts the entries that need a hairpin address.
func (m *model) wantHairpin(c *changes, want, had []netip.Addr) {
	for _, a := range want {
		if m.hairpin[a]++; m.hairpin[a] == 1 {
			c.op(Op{Verb: AddHairpin, Addr: a})
		}
	}
	for _, a := range had {
		if m.hairpin[a]--; m.hairpin[a] == 0 {
			delete(m.hairpin, a)
			c.op(Op{Verb: DelHairpin, Addr: a})
		}
	}
}

// everything returns the operations that build the whole model from nothing,
// with the stale flows of the last change.
func (m *model) everything(last changes) changes {
	fresh := newModel()
	all := changes{udp: last.udp}
	for vip, e := range m.live {
		fresh.become(&all, vip, e)
	}
	m.shapes = fresh.shapes
	// One map after the other, so that elements travel by the hundred. This is
	// allowed here, where nothing is added and removed again.
	slices.SortStableFunc(all.ops, func(a, b Op) int { return int(a.Verb) - int(b.Verb) })
	return all
}

// endpoints are all endpoints that a VIP leads to.
func (m *model) endpoints(vip VIP) []netip.AddrPort {
	if e := m.live[vip]; e != nil {
		return append(slices.Clone(e.Endpoints), e.Inside...)
	}
	return nil
}

// verdict is what one map says of a VIP.
type verdict struct {
	table Map
	shape Shape
	drop  bool
}

// verdicts says where the traffic for a VIP goes.
func verdicts(vip VIP, e *Entry) []verdict {
	if e == nil {
		return nil
	}
	nodePort := vip.Addr.IsUnspecified()
	var out []verdict
	switch {
	case len(e.Endpoints) > 0:
		out = append(out, verdict{table: Services, shape: Shape{Endpoints: len(e.Endpoints), Masq: e.Masq, NodePort: nodePort, Affinity: e.Affinity}})
	case e.Local:
		out = append(out, verdict{table: Services, drop: true})
	default:
		return []verdict{{table: Closed}}
	}
	if len(e.Inside) > 0 {
		out = append(out, verdict{table: Inside, shape: Shape{Endpoints: len(e.Inside), Masq: MasqOutside, NodePort: nodePort, Inside: true, Affinity: e.Affinity}})
	}
	return out
}

// keepPlaces orders next so that endpoints which stay keep their place as far
// as possible: the last ones fill the holes.
func keepPlaces(have, next []netip.AddrPort) []netip.AddrPort {
	if len(have) == 0 || len(next) == 0 {
		return slices.Clone(next)
	}
	fresh := make(map[netip.AddrPort]bool, len(next))
	for _, ep := range next {
		fresh[ep] = true
	}
	out := make([]netip.AddrPort, len(next))
	var holes []int
	for i := range out {
		if i < len(have) && fresh[have[i]] {
			out[i] = have[i]
			delete(fresh, have[i])
		} else {
			holes = append(holes, i)
		}
	}
	for _, ep := range next {
		if fresh[ep] {
			out[holes[0]] = ep
			holes = holes[1:]
		}
	}
	return out
}

// replaceList turns one list of endpoints into another, place by place.
func replaceList(c *changes, vip VIP, base uint32, have, next []netip.AddrPort) {
	for i := range max(len(have), len(next)) {
		slot := Slot{vip, base + uint32(i)}
		if i < len(have) && i < len(next) && have[i] == next[i] {
			continue
		}
		if i < len(have) {
			c.op(Op{Verb: DelEndpoint, Slot: slot, Endpoint: have[i]})
		}
		if i < len(next) {
			c.op(Op{Verb: AddEndpoint, Slot: slot, Endpoint: next[i]})
		}
	}
}

func compareClaims(a, b claim) int {
	if c := a.created.Compare(b.created); c != 0 {
		return c
	}
	if a.owner.String() < b.owner.String() {
		return -1
	}
	return 1
}

func compareVIPs(a, b VIP) int {
	if c := a.Addr.Compare(b.Addr); c != 0 {
		return c
	}
	return (int(a.Proto)-int(b.Proto))<<16 + int(a.Port) - int(b.Port)
}
