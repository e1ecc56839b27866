package proxy

import (
	"net/netip"
	"slices"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// ForgetUDP implements Kernel.
func (k *nft) ForgetUDP(flows map[VIP][]netip.AddrPort) error {
	_, err := netlink.ConntrackDeleteFilters(netlink.ConntrackTable, unix.AF_INET, staleFlows(flows))
	return err
}

// staleFlows matches the UDP flows to VIPs that lead elsewhere than to one of
// the endpoints listed.
type staleFlows map[VIP][]netip.AddrPort

// MatchConntrackFlow implements netlink.CustomConntrackFilter.
func (f staleFlows) MatchConntrackFlow(flow *netlink.ConntrackFlow) bool {
	if flow.Forward.Protocol != protoUDP {
		return false
	}
	dst, ok1 := netip.AddrFromSlice(flow.Forward.DstIP)
	src, ok2 := netip.AddrFromSlice(flow.Reverse.SrcIP)
	if !ok1 || !ok2 {
		return false
	}
	dst, src = dst.Unmap(), src.Unmap()
	eps, ok := f[VIP{dst, protoUDP, flow.Forward.DstPort}]
	if !ok {
		// A node port: any address, if it was translated.
		if eps, ok = f[VIP{netip.IPv4Unspecified(), protoUDP, flow.Forward.DstPort}]; !ok || src == dst {
			return false
		}
	}
	return !slices.Contains(eps, netip.AddrPortFrom(src, flow.Reverse.SrcPort))
}
