package network

import (
	"net/netip"

	"github.com/vishvananda/netlink"
)

// HostAddress returns the IPv4 address under which others reach this machine:
// the first global one of the interface with the default route. false when
// there is no such route.
func HostAddress() (netip.Addr, bool) {
	routes, err := netlink.RouteList(nil, netlink.FAMILY_V4)
	if err != nil {
		return netip.Addr{}, false
	}
	for _, r := range routes {
		if r.Dst != nil && !r.Dst.IP.IsUnspecified() {
			continue
		}
		link, err := netlink.LinkByIndex(r.LinkIndex)
		if err != nil {
			continue
		}
		addrs, err := netlink.AddrList(link, netlink.FAMILY_V4)
		if err != nil {
			continue
		}
		for _, a := range addrs {
			if ip, ok := netip.AddrFromSlice(a.IP.To4()); ok && ip.IsGlobalUnicast() {
				return ip, true
			}
		}
	}
	return netip.Addr{}, false
}
