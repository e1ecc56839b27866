package reach

import (
	"net"
	"net/netip"
	"slices"
)

// Barred is where the servers of the cluster are: what nobody may have them
// call.
type Barred struct {
	// Services is the range of cluster IPs. They lead wherever a Service says,
	// to the API server first of all.
	Services netip.Prefix
	// Servers are the API servers of the cluster and their stores.
	Servers []netip.AddrPort
	// Own are the addresses of this machine, and OwnPorts what this server
	// listens on there. A node of the same machine has the same addresses, and
	// another port.
	Own      []netip.Addr
	OwnPorts []uint16
}

// Refuse says why an address must not be called; "" when it may. IPv4 addresses
// in IPv6 form are the IPv4 addresses.
func (b Barred) Refuse(to netip.AddrPort) string {
	if why := b.RefuseAddr(to.Addr()); why != "" {
		return why
	}
	ip := to.Addr().Unmap()
	at := netip.AddrPortFrom(ip, to.Port())
	if slices.ContainsFunc(b.Servers, func(s netip.AddrPort) bool { return netip.AddrPortFrom(s.Addr().Unmap(), s.Port()) == at }) ||
		slices.Contains(b.Own, ip) && slices.Contains(b.OwnPorts, to.Port()) {
		return "a server of the cluster listens there"
	}
	return ""
}

// RefuseAddr says why no port of an address may be called; "" when some may.
func (b Barred) RefuseAddr(ip netip.Addr) string {
	ip = ip.Unmap()
	switch {
	case ip.IsLoopback():
		return "it is of the loopback range"
	case !ip.IsGlobalUnicast(): // RFC 6890: link-local with metadata services, multicast, unspecified, broadcast
		return "it is no machine's or pod's"
	case b.Services.IsValid() && b.Services.Contains(ip):
		return "it is of the range of Services"
	}
	return ""
}

// Own are the addresses of this machine now.
func Own() []netip.Addr {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return nil
	}
	var out []netip.Addr
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok {
			if ip, ok := netip.AddrFromSlice(n.IP); ok {
				out = append(out, ip.Unmap())
			}
		}
	}
	return out
}
