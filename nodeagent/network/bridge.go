package network

import (
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// setupBridge makes the bridge with its addresses, or brings an existing one
// to what it should be.
func (n *Network) setupBridge() error {
	mtu := n.cfg.MTU
	if mtu == 0 {
		mtu = uplinkMTU(n.host)
	}
	n.mtu = mtu
	link, err := n.host.LinkByName(n.cfg.Bridge)
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		attrs := netlink.NewLinkAttrs()
		attrs.Name = n.cfg.Bridge
		attrs.MTU = mtu
		// A fixed address: a bridge without one takes over that of its lowest
		// port, and changes it as pods come and go.
		attrs.HardwareAddr = podMAC(gateway(n.cfg.PodCIDR))
		if err := n.host.LinkAdd(&netlink.Bridge{LinkAttrs: attrs}); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("create: %w", err)
		}
		link, err = n.host.LinkByName(n.cfg.Bridge)
	}
	if err != nil {
		return err
	}
	if link.Type() != "bridge" {
		return fmt.Errorf("there is an interface of that name which is a %s", link.Type())
	}
	n.bridge = link
	if link.Attrs().MTU != mtu {
		if err := n.host.LinkSetMTU(link, mtu); err != nil {
			return fmt.Errorf("set MTU %d: %w", mtu, err)
		}
	}
	if err := n.setupAddrs(link); err != nil {
		return err
	}
	if err := n.setupCarrier(link); err != nil {
		return fmt.Errorf("give it a permanent port: %w", err)
	}
	if err := n.host.LinkSetUp(link); err != nil {
		return fmt.Errorf("start: %w", err)
	}
	return n.setupServiceRoute(link)
}

// setupServiceRoute sends what the node itself addresses to Services over the
// bridge. No packet goes there: the proxy changes its destination first. But a
// node without a default route would refuse to send before the proxy is asked.
func (n *Network) setupServiceRoute(link netlink.Link) error {
	c := n.cfg.ServiceCIDR
	if !c.IsValid() {
		return nil
	}
	r := &netlink.Route{LinkIndex: link.Attrs().Index, Scope: netlink.SCOPE_LINK, Src: gateway(n.cfg.PodCIDR).AsSlice(),
		Dst: &net.IPNet{IP: c.Addr().AsSlice(), Mask: net.CIDRMask(c.Bits(), c.Addr().BitLen())}}
	if err := n.host.RouteReplace(r); err != nil {
		return fmt.Errorf("add route to services %s: %w", c, err)
	}
	return nil
}

// setupCarrier gives the bridge a port that is always up: one end of a veth
// pair whose other end leads nowhere. Without it the bridge loses its carrier
// with the last pod, and when the next pod comes the kernel takes up to a
// second to let packets through again.
func (n *Network) setupCarrier(bridge netlink.Link) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = n.cfg.Bridge + "-on"
	attrs.MTU = n.mtu
	attrs.MasterIndex = bridge.Attrs().Index
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: n.cfg.Bridge + "-off"}
	if err := n.host.LinkAdd(veth); err != nil && !errors.Is(err, unix.EEXIST) {
		return err
	}
	for _, name := range []string{veth.PeerName, attrs.Name} { // the port last: it finds its carrier there
		link, err := n.host.LinkByName(name)
		if err != nil {
			return fmt.Errorf("find %s: %w", name, err)
		}
		if err := n.host.LinkSetMTU(link, n.mtu); err != nil {
			return fmt.Errorf("set MTU of %s: %w", name, err)
		}
		// Both ends are the node's: it must not answer ARP on the dead one, or
		// pods would send to the gateway there.
		if err := n.host.LinkSetARPOff(link); err != nil {
			return fmt.Errorf("turn off ARP of %s: %w", name, err)
		}
		if err := n.host.LinkSetUp(link); err != nil {
			return fmt.Errorf("start %s: %w", name, err)
		}
	}
	return nil
}

// setupAddrs gives the bridge the gateway and the DNS address and takes away
// others, as those of a pod range the node had before.
func (n *Network) setupAddrs(link netlink.Link) error {
	want := []netip.Prefix{netip.PrefixFrom(gateway(n.cfg.PodCIDR), n.cfg.PodCIDR.Bits())}
	if n.cfg.DNSAddr.IsValid() {
		want = append(want, netip.PrefixFrom(n.cfg.DNSAddr, n.cfg.DNSAddr.BitLen()))
	}
	wanted := map[netip.Prefix]bool{}
	for _, p := range want {
		wanted[p] = true
		a := &netlink.Addr{IPNet: &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}}
		if err := n.host.AddrReplace(link, a); err != nil {
			return fmt.Errorf("add address %s: %w", p, err)
		}
	}
	addrs, err := n.host.AddrList(link, netlink.FAMILY_V4)
	if err != nil {
		return fmt.Errorf("list addresses: %w", err)
	}
	for _, a := range addrs {
		ip, _ := netip.AddrFromSlice(a.IP.To4())
		bits, _ := a.Mask.Size()
		if wanted[netip.PrefixFrom(ip, bits)] {
			continue
		}
		if err := n.host.AddrDel(link, &a); err != nil && !errors.Is(err, unix.EADDRNOTAVAIL) {
			return fmt.Errorf("remove address %s: %w", a.IPNet, err)
		}
	}
	return nil
}

// uplinkMTU is the MTU of the interface that leads out of the node.
func uplinkMTU(h *netlink.Handle) int {
	const ethernet = 1500
	routes, err := h.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return ethernet
	}
	for _, r := range routes {
		if r.Gw == nil || (r.Dst != nil && !r.Dst.IP.IsUnspecified()) {
			continue
		}
		if link, err := h.LinkByIndex(r.LinkIndex); err == nil {
			return link.Attrs().MTU
		}
	}
	return ethernet
}

// setupSysctls makes the node a router.
func setupSysctls(bridge string) error {
	return writeSysctls([][2]string{
		{"ipv4/ip_forward", "1"},
		// Node ports answer on 127.0.0.1: replies of pods then arrive from the
		// bridge for a loopback address. The packet rules keep all else out.
		{"ipv4/conf/" + bridge + "/route_localnet", "1"},
		// All traffic between pods takes the detour over the gateway.
		{"ipv4/conf/all/send_redirects", "0"},
		{"ipv4/conf/" + bridge + "/send_redirects", "0"},
	})
}
