package proxy

import (
	"maps"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"
)

// service is one Service with its slices, as last seen. spec is nil when only
// slices are known.
type service struct {
	spec   *corev1.Service
	slices map[string]*discoveryv1.EndpointSlice
}

// created orders services that claim the same address: the oldest has it.
func (s *service) created() time.Time {
	if s == nil || s.spec == nil {
		return time.Time{}
	}
	return s.spec.CreationTimestamp.Time
}

// VIP is an address that a Service answers on. Addr 0.0.0.0 stands for every
// address of the node: a node port.
type VIP struct {
	Addr  netip.Addr
	Proto uint8
	Port  uint16
}

// Masq says whose traffic gets the node's address as its source.
type Masq uint8

// Who is masqueraded.
const (
	MasqNone    Masq = iota
	MasqOutside      // who is not a pod: replies must come back through here
	MasqAll
	MasqLoopback // who calls 127.0.0.1: a pod cannot reply to that
)

// Entry is where the traffic for a VIP goes.
type Entry struct {
	Endpoints []netip.AddrPort
	// Inside, if Local, is where pods and the node itself are sent: all
	// endpoints, where traffic from outside may only reach those of this node.
	Inside []netip.AddrPort
	// Local says that by policy only endpoints of this node are in Endpoints,
	// and that there are some in the cluster: with none here the traffic is
	// dropped, not refused, since other nodes can take it.
	Local bool
	Masq  Masq
	// Affinity is how long a client stays with its endpoint; 0 for not at all.
	Affinity time.Duration
	// Hairpin are the pods of this node among the endpoints: they may be sent
	// to themselves, and must then see another source than their own.
	Hairpin []netip.Addr
}

// planService says what the kernel must know of a Service.
func planService(s *service, node string) map[VIP]*Entry {
	svc := s.spec
	if svc == nil || svc.Spec.Type == corev1.ServiceTypeExternalName || svc.Labels["service.kubernetes.io/service-proxy-name"] != "" {
		return nil
	}
	clusterIP, err := netip.ParseAddr(svc.Spec.ClusterIP)
	if err != nil || !clusterIP.Is4() {
		return nil // headless, or not allocated yet
	}
	out := map[VIP]*Entry{}
	for _, port := range svc.Spec.Ports {
		proto, ok := protocols[port.Protocol]
		if !ok {
			continue
		}
		eps := endpointsOf(s.slices, port, node)
		base := Entry{Affinity: affinity(svc), Hairpin: eps.hairpin()}
		inner := base
		inner.Masq = MasqOutside
		inner.Endpoints = eps.choose(false)
		if ptr.Deref(svc.Spec.InternalTrafficPolicy, corev1.ServiceInternalTrafficPolicyCluster) == corev1.ServiceInternalTrafficPolicyLocal {
			inner.Local = len(inner.Endpoints) > 0
			inner.Endpoints = eps.choose(true)
		}
		out[VIP{clusterIP, proto, uint16(port.Port)}] = &inner

		outer := base
		outer.Masq = MasqAll
		outer.Endpoints = eps.choose(false)
		if svc.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal {
			outer.Inside, outer.Local, outer.Masq = outer.Endpoints, len(outer.Endpoints) > 0, MasqNone
			outer.Endpoints = eps.choose(true)
		}
		for _, ip := range externalAddrs(svc) {
			out[VIP{ip, proto, uint16(port.Port)}] = &outer
		}
		if port.NodePort != 0 {
			out[VIP{netip.IPv4Unspecified(), proto, uint16(port.NodePort)}] = &outer
		}
	}
	return out
}

var protocols = map[corev1.Protocol]uint8{"": protoTCP, corev1.ProtocolTCP: protoTCP, corev1.ProtocolUDP: protoUDP, corev1.ProtocolSCTP: protoSCTP}

// IP protocol numbers.
const (
	protoTCP  = 6
	protoUDP  = 17
	protoSCTP = 132
)

func affinity(svc *corev1.Service) time.Duration {
	if svc.Spec.SessionAffinity != corev1.ServiceAffinityClientIP {
		return 0
	}
	seconds := corev1.DefaultClientIPServiceAffinitySeconds
	if c := svc.Spec.SessionAffinityConfig; c != nil && c.ClientIP != nil {
		seconds = ptr.Deref(c.ClientIP.TimeoutSeconds, seconds)
	}
	return time.Duration(seconds) * time.Second
}

// externalAddrs are the addresses of a Service besides its ClusterIP.
func externalAddrs(svc *corev1.Service) []netip.Addr {
	var out []netip.Addr
	add := func(s string) {
		if ip, err := netip.ParseAddr(s); err == nil && ip.Is4() {
			out = append(out, ip)
		}
	}
	for _, s := range svc.Spec.ExternalIPs {
		add(s)
	}
	for _, in := range svc.Status.LoadBalancer.Ingress {
		if ptr.Deref(in.IPMode, corev1.LoadBalancerIPModeVIP) == corev1.LoadBalancerIPModeVIP {
			add(in.IP)
		}
	}
	return out
}

// endpoint is one address behind a port, and whether it may be used.
type endpoint struct {
	addr         netip.AddrPort
	ready        bool
	dying        bool // serving while it terminates: better than nobody
	local, found bool
}

type endpoints []endpoint

// endpointsOf collects the endpoints of one port, in the order of their
// addresses, each once.
func endpointsOf(from map[string]*discoveryv1.EndpointSlice, port corev1.ServicePort, node string) endpoints {
	seen := map[netip.AddrPort]endpoint{}
	for _, name := range slices.Sorted(maps.Keys(from)) {
		slice := from[name]
		if slice.AddressType != discoveryv1.AddressTypeIPv4 {
			continue
		}
		for _, p := range slice.Ports {
			if ptr.Deref(p.Name, "") != port.Name || p.Port == nil || protocols[ptr.Deref(p.Protocol, "")] != protocols[port.Protocol] {
				continue
			}
			for _, e := range slice.Endpoints {
				if len(e.Addresses) == 0 {
					continue
				}
				ip, err := netip.ParseAddr(e.Addresses[0])
				if err != nil {
					continue
				}
				ep := endpoint{
					addr:  netip.AddrPortFrom(ip, uint16(*p.Port)),
					ready: ptr.Deref(e.Conditions.Ready, true),
					dying: ptr.Deref(e.Conditions.Serving, false) && ptr.Deref(e.Conditions.Terminating, false),
					local: node != "" && ptr.Deref(e.NodeName, "") == node,
				}
				// While slices are being rewritten an endpoint may be in two.
				if old := seen[ep.addr]; !old.found || !old.ready {
					ep.found = true
					seen[ep.addr] = ep
				}
			}
		}
	}
	return slices.SortedFunc(maps.Values(seen), func(a, b endpoint) int { return a.addr.Compare(b.addr) })
}

// choose returns the endpoints that get traffic: those that are ready, and
// when there is none those that still serve while they end.
func (es endpoints) choose(local bool) []netip.AddrPort {
	var ready, dying []netip.AddrPort
	for _, e := range es {
		switch {
		case local && !e.local:
		case e.ready:
			ready = append(ready, e.addr)
		case e.dying:
			dying = append(dying, e.addr)
		}
	}
	if len(ready) > 0 {
		return ready
	}
	return dying
}

func (es endpoints) hairpin() []netip.Addr {
	var out []netip.Addr
	for _, e := range es {
		if e.local && (e.ready || e.dying) && !slices.Contains(out, e.addr.Addr()) {
			out = append(out, e.addr.Addr())
		}
	}
	return out
}
