package proxy

import (
	"fmt"
	"net/netip"
	"sync"
)

// Fake is a Kernel in memory for tests. It holds real state, and refuses what
// the kernel would refuse: an element that exists already with other data, the
// removal of one that does not exist, a verdict to a chain that does not.
type Fake struct {
	mu        sync.Mutex
	Shapes    map[Shape]bool
	VIPs      map[Map]map[VIP]Op
	Endpoints map[Slot]netip.AddrPort
	Hairpin   map[netip.Addr]bool
	Forgotten map[VIP][]netip.AddrPort // of the last ForgetUDP
	Dropped   []Op                     // DropAffinity, all
	// Err, when set, is the answer to the next transaction.
	Err error
	// Transactions counts those that were taken.
	Transactions int
}

var _ Kernel = (*Fake)(nil)

func (f *Fake) clear() {
	f.Shapes, f.Endpoints, f.Hairpin = map[Shape]bool{}, map[Slot]netip.AddrPort{}, map[netip.Addr]bool{}
	f.VIPs = map[Map]map[VIP]Op{Services: {}, Inside: {}, Closed: {}}
}

// Replace implements Kernel.
func (f *Fake) Replace(ops []Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.Err; err != nil {
		f.Err = nil
		return err
	}
	f.clear()
	return f.apply(ops)
}

// Apply implements Kernel.
func (f *Fake) Apply(ops []Op) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.Err; err != nil {
		f.Err = nil
		return err
	}
	if f.Shapes == nil {
		return fmt.Errorf("no table")
	}
	return f.apply(ops)
}

func (f *Fake) apply(ops []Op) error {
	for i, op := range ops {
		if err := f.one(op); err != nil {
			return fmt.Errorf("op %d %+v: %w", i, op, err)
		}
	}
	f.Transactions++
	return nil
}

func (f *Fake) one(op Op) error {
	switch op.Verb {
	case AddShape:
		if f.Shapes[op.Shape] {
			return fmt.Errorf("chain exists: its rules would be doubled")
		}
		f.Shapes[op.Shape] = true
	case AddEndpoint:
		if have, ok := f.Endpoints[op.Slot]; ok {
			return fmt.Errorf("element exists: %s", have)
		}
		f.Endpoints[op.Slot] = op.Endpoint
	case DelEndpoint:
		if f.Endpoints[op.Slot] != op.Endpoint {
			return fmt.Errorf("no such element, there is %s", f.Endpoints[op.Slot])
		}
		delete(f.Endpoints, op.Slot)
	case AddVIP:
		if _, ok := f.VIPs[op.Map][op.VIP]; ok {
			return fmt.Errorf("element exists")
		}
		if op.Map != Closed && !op.Drop && !f.Shapes[op.Shape] {
			return fmt.Errorf("no chain %s", op.Shape)
		}
		f.VIPs[op.Map][op.VIP] = op
	case DelVIP:
		if have, ok := f.VIPs[op.Map][op.VIP]; !ok || have.Shape != op.Shape || have.Drop != op.Drop {
			return fmt.Errorf("no such element, there is %+v", have)
		}
		delete(f.VIPs[op.Map], op.VIP)
	case AddHairpin:
		if f.Hairpin[op.Addr] {
			return fmt.Errorf("element exists")
		}
		f.Hairpin[op.Addr] = true
	case DelHairpin:
		if !f.Hairpin[op.Addr] {
			return fmt.Errorf("no such element")
		}
		delete(f.Hairpin, op.Addr)
	case DropAffinity:
		f.Dropped = append(f.Dropped, op)
	}
	return nil
}

// ForgetUDP implements Kernel.
func (f *Fake) ForgetUDP(flows map[VIP][]netip.AddrPort) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.Forgotten = flows
	return nil
}

// Intact implements Kernel.
func (f *Fake) Intact() (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.Shapes != nil, nil
}

// Targets returns the endpoints that a VIP leads to in one of the maps, in no
// particular order, and whether the VIP is there.
func (f *Fake) Targets(m Map, v VIP) ([]netip.AddrPort, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	op, ok := f.VIPs[m][v]
	if !ok || m == Closed || op.Drop {
		return nil, ok
	}
	var base uint32
	if op.Shape.Inside {
		base = InsideSlot
	}
	var out []netip.AddrPort
	for i := range op.Shape.Endpoints {
		out = append(out, f.Endpoints[Slot{v, base + uint32(i)}])
	}
	return out, true
}
