package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// The overlay is one VXLAN (RFC 7348) between all nodes that need it. Its
// tables are written, never learnt: no multicast, no flooding.
const (
	overlayName = "writ-vxlan"
	overlayVNI  = 119
	overlayPort = 4789
	// overlayCost is what a VXLAN over IPv4 takes from each packet: 20 bytes of
	// IP, 8 of UDP, 8 of VXLAN and 14 of Ethernet.
	overlayCost = 50
)

// overlay is the VXLAN device in the kernel.
type overlay struct {
	h    *netlink.Handle
	link netlink.Link // nil: there is none
}

func openOverlay(h *netlink.Handle) (overlay, error) {
	link, err := h.LinkByName(overlayName)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return overlay{h: h}, nil
	}
	if err != nil {
		return overlay{}, fmt.Errorf("find %s: %w", overlayName, err)
	}
	return overlay{h, link}, nil
}

func (o *overlay) index() int {
	if o.link == nil {
		return -1
	}
	return o.link.Attrs().Index
}

// setup makes the device of this node, or brings it to what it should be. One
// that is of another make goes first, and its routes with it.
func (o *overlay) setup(self peer) error {
	if v, ok := o.link.(*netlink.Vxlan); o.link != nil && (!ok || v.VxlanId != overlayVNI || v.Port != overlayPort || v.Learning || !v.SrcAddr.Equal(self.addr.AsSlice())) {
		if err := o.remove(); err != nil {
			return err
		}
	}
	mtu := uplinkMTU(o.h) - overlayCost
	if o.link == nil {
		attrs := netlink.NewLinkAttrs()
		attrs.Name, attrs.MTU = overlayName, mtu
		attrs.HardwareAddr = podMAC(vtep(self.pods))
		v := &netlink.Vxlan{LinkAttrs: attrs, VxlanId: overlayVNI, Port: overlayPort, SrcAddr: self.addr.AsSlice()}
		if err := o.h.LinkAdd(v); err != nil {
			return fmt.Errorf("create %s: %w", overlayName, err)
		}
		o.link = v
	}
	if o.link.Attrs().MTU != mtu {
		if err := o.h.LinkSetMTU(o.link, mtu); err != nil {
			return fmt.Errorf("set MTU of %s: %w", overlayName, err)
		}
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: vtep(self.pods).AsSlice(), Mask: net.CIDRMask(32, 32)}}
	if err := o.h.AddrReplace(o.link, addr); err != nil {
		return fmt.Errorf("give %s its address: %w", overlayName, err)
	}
	if err := o.h.LinkSetUp(o.link); err != nil {
		return fmt.Errorf("start %s: %w", overlayName, err)
	}
	return nil
}

func (o *overlay) remove() error {
	if o.link == nil {
		return nil
	}
	if err := o.h.LinkDel(o.link); err != nil && !errors.Is(err, unix.ENODEV) {
		return fmt.Errorf("remove %s: %w", overlayName, err)
	}
	o.link = nil
	return nil
}

// tunnels reads the table of neighbours: which tunnel end is at which node.
func (o *overlay) tunnels() (map[netip.Addr]tunnel, error) {
	out := map[netip.Addr]tunnel{}
	if o.link == nil {
		return out, nil
	}
	fdb, err := o.h.NeighList(o.index(), unix.AF_BRIDGE)
	if err != nil {
		return nil, fmt.Errorf("list forwarding of %s: %w", overlayName, err)
	}
	node := map[string]netip.Addr{}
	for _, n := range fdb {
		if ip, ok := netip.AddrFromSlice(n.IP.To4()); ok {
			node[n.HardwareAddr.String()] = ip
		}
	}
	arp, err := o.h.NeighList(o.index(), unix.AF_INET)
	if err != nil {
		return nil, fmt.Errorf("list neighbours of %s: %w", overlayName, err)
	}
	for _, n := range arp {
		end, ok := netip.AddrFromSlice(n.IP.To4())
		if ok && n.State&unix.NUD_PERMANENT != 0 {
			out[end] = tunnel{end, node[n.HardwareAddr.String()]}
		}
	}
	return out, nil
}

// forwarding and neighbour are the two entries of a tunnel.
func (o *overlay) forwarding(t tunnel) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: o.index(), Family: unix.AF_BRIDGE, State: unix.NUD_PERMANENT, Flags: unix.NTF_SELF,
		IP: t.node.AsSlice(), HardwareAddr: podMAC(t.vtep)}
}

func (o *overlay) neighbour(t tunnel) *netlink.Neigh {
	return &netlink.Neigh{LinkIndex: o.index(), Family: unix.AF_INET, State: unix.NUD_PERMANENT, Type: unix.RTN_UNICAST,
		IP: t.vtep.AsSlice(), HardwareAddr: podMAC(t.vtep)}
}

// set writes where a tunnel leads. The forwarding goes first: a neighbour
// without one would lose packets.
func (o *overlay) set(t tunnel) error {
	if err := o.h.NeighSet(o.forwarding(t)); err != nil {
		return fmt.Errorf("set forwarding to %s at %s: %w", t.vtep, t.node, err)
	}
	if err := o.h.NeighSet(o.neighbour(t)); err != nil {
		return fmt.Errorf("set neighbour %s: %w", t.vtep, err)
	}
	return nil
}

func (o *overlay) unset(t tunnel) error {
	for _, n := range []*netlink.Neigh{o.neighbour(t), o.forwarding(t)} {
		if err := o.h.NeighDel(n); err != nil && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("remove tunnel to %s: %w", t.vtep, err)
		}
	}
	return nil
}
