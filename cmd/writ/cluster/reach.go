package cluster

import (
	"net"
	"net/netip"

	"github.com/writ-os/writ/controlplane/controllers/nodeipam"
	"github.com/writ-os/writ/nodeagent/network"
)

// hostAddress is where others reach this machine: the address that the flags
// give, or that of the interface with the default route; invalid: nowhere.
func (c Config) hostAddress() netip.Addr {
	if c.NodeIP.IsValid() {
		return c.NodeIP
	}
	ip, _ := network.HostAddress() // invalid when there is none
	return ip
}

// Inside says whether an address is one of the pods' network, which other
// machines do not reach before they have joined. It knows the default range.
func Inside(host string) bool {
	ip, err := netip.ParseAddr(host)
	return err == nil && nodeipam.DefaultPodCIDR.Contains(ip)
}

// reachable is where other machines reach a server that listens on listen, on a
// machine that has an address; "" when they do not: it listens on loopback.
func reachable(listen string, machine netip.Addr) (hostPort string) {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return "" // refused with the flags
	}
	ip, err := netip.ParseAddr(host)
	switch {
	case host == "localhost", err == nil && ip.IsLoopback():
		return ""
	case host == "", err == nil && ip.IsUnspecified():
		if !machine.IsValid() || machine.IsLoopback() {
			return ""
		}
		host = machine.String()
	}
	return net.JoinHostPort(host, port)
}
