package cluster

import (
	"fmt"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/apiserver"
	"github.com/writ-os/writ/controlplane/apiserver/reach"
	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// nodeHosts are the addresses of a node, the best first.
func (p *ControlPlane) nodeHosts(node string) ([]string, error) {
	n, ok := client.Cached[*corev1.Node](p.registry.Cache(), schema.Key{Name: node})
	if !ok {
		return nil, fmt.Errorf("node %s not found", node)
	}
	return apiserver.NodeHosts(n), nil
}

// barred is where the servers of the cluster listen now, this one and others.
func (p *ControlPlane) barred() reach.Barred {
	b := reach.Barred{Services: ServiceCIDR, Own: reach.Own(), OwnPorts: p.ownPorts()}
	for _, at := range p.serverAddresses() {
		b.Servers = append(b.Servers, at)
		for _, port := range b.OwnPorts[1:] {
			b.Servers = append(b.Servers, netip.AddrPortFrom(at.Addr(), port))
		}
	}
	return b
}

// ownPorts are those of this server: the API first, then the store.
func (p *ControlPlane) ownPorts() []uint16 {
	ports := []uint16{p.cfg.port()}
	for _, text := range []string{peerPort, portOf(p.cfg.PeerAddress)} {
		if n, err := strconv.ParseUint(text, 10, 16); err == nil {
			ports = append(ports, uint16(n))
		}
	}
	return ports
}

// serverAddresses is where API servers are: this one by every address that it
// tells, and the others, whether or not they live.
func (p *ControlPlane) serverAddresses() []netip.AddrPort {
	all := []netip.AddrPort{p.advertised(), netip.AddrPortFrom(APIService, 443)}
	for _, at := range p.roll.Presences() {
		all = append(all, at.Address)
	}
	return all
}

// barredHost says why no node may have a certificate to serve as a host; "" one
// may.
func (p *ControlPlane) barredHost(host string) string {
	ip, err := netip.ParseAddr(host)
	if err != nil {
		if why := identity.ReservedNode(host); why != "" {
			return why
		}
		if u, err := url.Parse(p.cfg.ExternalURL); err == nil && strings.EqualFold(u.Hostname(), host) {
			return "it is the name of the API server"
		}
		return ""
	}
	ip = ip.Unmap()
	if why := (reach.Barred{Services: ServiceCIDR}).RefuseAddr(ip); why != "" {
		return why
	}
	servers := p.serverAddresses()
	for _, h := range p.hosts() {
		if a, err := netip.ParseAddr(h); err == nil {
			servers = append(servers, netip.AddrPortFrom(a.Unmap(), 0))
		}
	}
	if slices.ContainsFunc(servers, func(s netip.AddrPort) bool { return s.Addr().Unmap() == ip }) {
		return "it is the address of a server"
	}
	return ""
}

// isServer says whether a name is that of a server's machine.
func (p *ControlPlane) isServer(node string) bool {
	if node == p.cfg.NodeName {
		return true
	}
	_, ok := p.roll.Presences()[node]
	return ok
}
