package proxy

import (
	"fmt"
	"net/netip"
	"time"
)

// Kernel holds the rules. Every call is one transaction: all of it or nothing.
type Kernel interface {
	// Replace makes ops the whole state, over whatever was there.
	Replace(ops []Op) error
	// Apply changes the state.
	Apply(ops []Op) error
	// ForgetUDP ends the UDP flows to a VIP whose endpoint is not listed.
	ForgetUDP(flows map[VIP][]netip.AddrPort) error
	// Intact says whether the state is still there.
	Intact() (bool, error)
}

// Shape is a chain: how to choose among Endpoints, whatever the Service. All
// VIPs with the same shape share it, and it is never deleted: there are as many
// as different endpoint counts.
type Shape struct {
	Endpoints int
	Masq      Masq
	NodePort  bool // the key of the endpoints has 0.0.0.0 in place of the address
	Inside    bool // choose among the second list of the VIP
	Affinity  time.Duration
}

// String is the name of the chain.
func (s Shape) String() string {
	name := fmt.Sprintf("to-%d", s.Endpoints)
	switch s.Masq {
	case MasqOutside:
		name += "-masq-outside"
	case MasqAll:
		name += "-masq"
	case MasqLoopback:
		name += "-masq-loopback"
	}
	if s.NodePort {
		name += "-nodeport"
	}
	if s.Inside {
		name += "-inside"
	}
	if s.Affinity > 0 {
		name += fmt.Sprintf("-affinity-%ds", int(s.Affinity.Seconds()))
	}
	return name
}

// Map is one of the kernel's maps from VIPs to what happens.
type Map string

// The maps.
const (
	Services Map = "services" // traffic from anywhere
	Inside   Map = "inside"   // traffic of pods and the node, asked before Services
	Closed   Map = "closed"   // refused: nobody is there
)

// Slot is the place of an endpoint: the Index-th of a VIP. The second list of a
// VIP, for traffic from inside, begins at InsideSlot.
type Slot struct {
	VIP
	Index uint32
}

// InsideSlot is the first Index of the list for traffic from inside.
const InsideSlot = 1 << 31

// Verb is what an Op does.
type Verb uint8

// The verbs of an Op, in the order in which those about one VIP must come: a
// chain before what leads to it, an element out before its successor is in.
const (
	AddShape Verb = iota
	DelEndpoint
	AddEndpoint
	DelVIP
	AddVIP
	DelHairpin
	AddHairpin
	// DropAffinity makes clients forget an endpoint they were bound to.
	DropAffinity
)

// Op is one operation on the kernel's state.
type Op struct {
	Verb     Verb
	Shape    Shape          // AddShape; of a VIP in Services and Inside
	Map      Map            // AddVIP, DelVIP
	VIP      VIP            // AddVIP, DelVIP, DropAffinity
	Drop     bool           // AddVIP: drop instead of a shape
	Slot     Slot           // AddEndpoint, DelEndpoint
	Endpoint netip.AddrPort // AddEndpoint, DelEndpoint, DropAffinity
	Addr     netip.Addr     // AddHairpin, DelHairpin
}
