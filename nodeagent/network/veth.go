package network

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// podLink is the name of a pod's network interface inside of the pod.
const podLink = "eth0"

// plug joins the namespace that the calling thread is in to the bridge. The
// pod's end is created in place, by one message; its sockets are opened on this
// thread and so are in the pod's namespace, those of n.host in the node's.
func (n *Network) plug(l lease, ns netlink.NsFd) error {
	attrs := netlink.NewLinkAttrs()
	attrs.Name = vethName(l.UID)
	attrs.MTU = n.mtu
	attrs.MasterIndex = n.bridge.Attrs().Index
	attrs.HardwareAddr = net.HardwareAddr{0x0e, 0x58, 0, 0, 0, 1}
	copy(attrs.HardwareAddr[2:], l.IP.AsSlice())
	attrs.Flags = net.FlagUp
	veth := &netlink.Veth{LinkAttrs: attrs, PeerName: podLink, PeerNamespace: ns, PeerHardwareAddr: podMAC(l.IP)}
	if err := n.host.LinkAdd(veth); err != nil {
		return fmt.Errorf("create veth %s: %w", attrs.Name, err)
	}
	host, err := n.host.LinkByName(attrs.Name)
	if err != nil {
		return fmt.Errorf("find veth %s: %w", attrs.Name, err)
	}
	if err := n.host.LinkSetUp(host); err != nil {
		return fmt.Errorf("start veth %s: %w", attrs.Name, err)
	}
	// Where br_netfilter is loaded (Docker does that), a pod's packet for its
	// own Service is translated on the bridge and has to leave where it came in.
	if err := n.host.LinkSetHairpin(host, true); err != nil {
		return fmt.Errorf("set hairpin of veth %s: %w", attrs.Name, err)
	}
	if err := n.pin(host, l.IP); err != nil {
		return err
	}
	if err := fillPod(l.IP, gateway(n.cfg.PodCIDR)); err != nil {
		return err
	}
	return pinGateway(gateway(n.cfg.PodCIDR), n.bridge.Attrs().HardwareAddr)
}

// pinGateway tells a pod where the gateway is, from a thread that is in its
// namespace: nobody but the node answers for it.
func pinGateway(gw netip.Addr, mac net.HardwareAddr) error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer h.Close()
	eth0, err := h.LinkByName(podLink)
	if err != nil {
		return fmt.Errorf("find %s: %w", podLink, err)
	}
	if err := h.NeighSet(&netlink.Neigh{LinkIndex: eth0.Attrs().Index, Family: unix.AF_INET, State: netlink.NUD_PERMANENT, IP: gw.AsSlice(), HardwareAddr: mac}); err != nil {
		return fmt.Errorf("pin gateway: %w", err)
	}
	return nil
}

// pin tells the node where a pod's address is, for good: a pod that answers for
// the address of another, or sends from its hardware address, is not believed.
// (Ports are not isolated: where br_netfilter is loaded, what goes to a Service
// passes from port to port.)
func (n *Network) pin(host netlink.Link, ip netip.Addr) error {
	if err := n.host.LinkSetLearning(host, false); err != nil {
		return fmt.Errorf("stop learning at veth %s: %w", host.Attrs().Name, err)
	}
	mac := podMAC(ip)
	for _, e := range []*netlink.Neigh{
		{LinkIndex: host.Attrs().Index, Family: unix.AF_BRIDGE, Flags: netlink.NTF_MASTER, State: netlink.NUD_NOARP, HardwareAddr: mac},
		{LinkIndex: n.bridge.Attrs().Index, Family: unix.AF_INET, State: netlink.NUD_PERMANENT, IP: ip.AsSlice(), HardwareAddr: mac},
	} {
		if err := n.host.NeighSet(e); err != nil {
			return fmt.Errorf("pin address %s to veth %s: %w", ip, host.Attrs().Name, err)
		}
	}
	return nil
}

// fillPod sets up the inside of a pod's namespace, from a thread that is in it.
func fillPod(ip, gw netip.Addr) error {
	h, err := netlink.NewHandle(unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer h.Close()
	lo, err := h.LinkByName("lo")
	if err != nil {
		return fmt.Errorf("find lo: %w", err)
	}
	if err := h.LinkSetUp(lo); err != nil {
		return fmt.Errorf("start lo: %w", err)
	}
	eth0, err := h.LinkByName(podLink)
	if err != nil {
		return fmt.Errorf("find %s: %w", podLink, err)
	}
	addr := &netlink.Addr{IPNet: &net.IPNet{IP: ip.AsSlice(), Mask: net.CIDRMask(32, 32)}}
	if err := h.AddrAdd(eth0, addr); err != nil {
		return fmt.Errorf("add address %s: %w", ip, err)
	}
	if err := h.LinkSetUp(eth0); err != nil {
		return fmt.Errorf("start %s: %w", podLink, err)
	}
	via := &netlink.Route{LinkIndex: eth0.Attrs().Index, Gw: gw.AsSlice(), Flags: int(netlink.FLAG_ONLINK)}
	if err := h.RouteAdd(via); err != nil {
		return fmt.Errorf("add default route: %w", err)
	}
	// The gateway would tell a pod that its neighbour is on the same link.
	return writeSysctls([][2]string{
		{"ipv4/conf/all/accept_redirects", "0"},
		{"ipv4/conf/eth0/accept_redirects", "0"},
	})
}

// removeVeth removes the node's end of a pod's pair, and so both.
func (n *Network) removeVeth(uid string) error {
	link, err := n.host.LinkByName(vethName(uid))
	if errors.As(err, &netlink.LinkNotFoundError{}) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := n.host.LinkDel(link); err != nil && !errors.Is(err, unix.ENODEV) {
		return err
	}
	return nil
}

// vethName names the node's end after the pod, so that it can be found again
// after a crash.
func vethName(uid string) string {
	sum := sha256.Sum256([]byte(uid))
	return "wv" + hex.EncodeToString(sum[:6])
}

// podMAC derives the hardware address from the IP: an address that is used
// again is right in every neighbour table.
func podMAC(ip netip.Addr) net.HardwareAddr {
	b := ip.As4()
	return net.HardwareAddr{0x0a, 0x58, b[0], b[1], b[2], b[3]}
}

// writeSysctls sets kernel parameters below /proc/sys/net, of the namespace
// that the calling thread is in.
func writeSysctls(set [][2]string) error {
	for _, kv := range set {
		if err := os.WriteFile("/proc/sys/net/"+kv[0], []byte(kv[1]), 0o644); err != nil {
			return err
		}
	}
	return nil
}
