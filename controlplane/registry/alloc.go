package registry

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// The texts of a refused allocation.
var (
	errIPTaken   = errors.New("provided IP is already allocated")
	errPortTaken = errors.New("provided port is already allocated")
	errIPsFull   = errors.New("range is full")
	errPortsFull = errors.New("range is full")
)

// Addresses of the range that are given on demand only: the kubernetes Service
// has the first, cluster DNS the tenth.
var reservedOffsets = []uint32{1, 10}

// allocator gives out ClusterIPs and node ports. What is taken is what the
// Services in the store have: it is read from there at the first use, and kept
// up with every write, which all go through one registry. What a write under
// way has claimed counts as taken until the write is settled.
type allocator struct {
	cidr  netip.Prefix
	ports [2]int

	mu    sync.Mutex
	ready bool
	ips   map[netip.Addr]int
	used  map[int32]int
}

// claims are what one transaction has taken and given back.
type claims struct {
	ips, freedIPs     []netip.Addr
	ports, freedPorts []int32
}

func newAllocator(cidr netip.Prefix, ports [2]int) *allocator {
	return &allocator{cidr: cidr.Masked(), ports: ports, ips: map[netip.Addr]int{}, used: map[int32]int{}}
}

// load counts what the Services in the store have.
func (a *allocator) load(s *store.Store) {
	if a.ready {
		return
	}
	a.ready = true
	for it := range s.Snapshot(schema.ResourceFor[*corev1.Service]()).All() {
		ip, ports := allocated(it.Object.(*corev1.Service))
		if ip.IsValid() {
			a.ips[ip]++
		}
		for _, p := range ports {
			a.used[p]++
		}
	}
}

// allocated are the address and the node ports of a Service.
func allocated(s *corev1.Service) (netip.Addr, []int32) {
	if s == nil {
		return netip.Addr{}, nil
	}
	var ports []int32
	seen := map[int32]bool{}
	for _, p := range s.Spec.Ports {
		if p.NodePort != 0 && !seen[p.NodePort] { // TCP and UDP may share one
			seen[p.NodePort] = true
			ports = append(ports, p.NodePort)
		}
	}
	if p := s.Spec.HealthCheckNodePort; p != 0 && !seen[p] {
		ports = append(ports, p)
	}
	ip, err := netip.ParseAddr(s.Spec.ClusterIP)
	if err != nil {
		return netip.Addr{}, ports // "" or None
	}
	return ip, ports
}

// service claims what a Service needs, writes it into svc, and gives back what
// old had and svc has no longer. svc is nil for a Service that goes.
func (a *allocator) service(s *store.Store, c *claims, svc, old *corev1.Service) field.ErrorList {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.load(s)
	oldIP, oldPorts := allocated(old)
	var errs field.ErrorList
	if svc != nil && needsClusterIP(svc) {
		errs = append(errs, a.claimIP(c, svc, oldIP)...)
	}
	if svc != nil && needsNodePorts(svc) {
		errs = append(errs, a.claimPorts(c, svc, oldPorts)...)
	}
	if svc != nil && needsHealthPort(svc) {
		errs = append(errs, a.claimHealthPort(c, svc, oldPorts)...)
	}
	if len(errs) > 0 {
		return errs
	}
	ip, ports := allocated(svc)
	if oldIP.IsValid() && oldIP != ip {
		c.freedIPs = append(c.freedIPs, oldIP)
	}
	kept := map[int32]bool{}
	for _, p := range ports {
		kept[p] = true
	}
	for _, p := range oldPorts {
		if !kept[p] {
			c.freedPorts = append(c.freedPorts, p)
		}
	}
	return nil
}

func (a *allocator) claimIP(c *claims, svc *corev1.Service, had netip.Addr) field.ErrorList {
	at := field.NewPath("spec", "clusterIPs")
	if want := svc.Spec.ClusterIP; want != "" {
		ip, err := netip.ParseAddr(want)
		switch {
		case err != nil:
			return nil // validation has said so
		case ip == had:
			return nil
		case !a.cidr.Contains(ip):
			err = fmt.Errorf("the provided IP (%v) is not in the valid range. The range of valid IPs is %v", ip, a.cidr)
		case a.ips[ip] > 0:
			err = errIPTaken
		default:
			a.takeIP(c, ip)
			return nil
		}
		return field.ErrorList{field.Invalid(at, svc.Spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %v: %v", ip, err))}
	}
	ip, err := a.freeIP()
	if err != nil {
		return field.ErrorList{field.InternalError(at, fmt.Errorf("failed to allocate a serviceIP: %w", err))}
	}
	a.takeIP(c, ip)
	svc.Spec.ClusterIP, svc.Spec.ClusterIPs = ip.String(), []string{ip.String()}
	return nil
}

func (a *allocator) takeIP(c *claims, ip netip.Addr) {
	a.ips[ip]++
	c.ips = append(c.ips, ip)
}

// freeIP finds an address that nobody has. It takes from the upper part of the
// range first: the lower is for Services that name their address, so that these
// seldom collide.
func (a *allocator) freeIP() (netip.Addr, error) {
	size := uint32(1) << (32 - a.cidr.Bits())
	last := size - 1 // the broadcast address is not given out
	band := staticBand(size)
	if ip, ok := a.freeBetween(band, last); ok {
		return ip, nil
	}
	if ip, ok := a.freeBetween(1, band); ok {
		return ip, nil
	}
	return netip.Addr{}, errIPsFull
}

// staticBand is how many addresses at the beginning of a range are given out
// last: a sixteenth, at least 16 and at most 256.
func staticBand(size uint32) uint32 {
	if size < 32 {
		return 1
	}
	return min(max(16, size/16), 256)
}

func (a *allocator) freeBetween(from, to uint32) (netip.Addr, bool) {
	if from >= to {
		return netip.Addr{}, false
	}
	n := to - from
	for i, start := uint32(0), rand.Uint32N(n); i < n; i++ {
		off := from + (start+i)%n
		if ip := a.at(off); a.ips[ip] == 0 && !reserved(off) {
			return ip, true
		}
	}
	return netip.Addr{}, false
}

func reserved(off uint32) bool {
	for _, r := range reservedOffsets {
		if off == r {
			return true
		}
	}
	return false
}

// at is the address at an offset into the range.
func (a *allocator) at(off uint32) netip.Addr {
	b := a.cidr.Addr().As4()
	v := uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
	v += off
	return netip.AddrFrom4([4]byte{byte(v >> 24), byte(v >> 16), byte(v >> 8), byte(v)})
}

func (a *allocator) claimPorts(c *claims, svc *corev1.Service, had []int32) field.ErrorList {
	var errs field.ErrorList
	mine := map[int32]bool{}
	for _, p := range had {
		mine[p] = true
	}
	for i := range svc.Spec.Ports { // those that are named first: no other may get them
		p := &svc.Spec.Ports[i]
		if p.NodePort == 0 || mine[p.NodePort] {
			continue
		}
		if err := a.portFree(p.NodePort); err != nil {
			errs = append(errs, field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), p.NodePort, err.Error()))
			continue
		}
		a.takePort(c, p.NodePort)
		mine[p.NodePort] = true
	}
	for i := range svc.Spec.Ports {
		p := &svc.Spec.Ports[i]
		if p.NodePort != 0 {
			continue
		}
		n, ok := a.freePort()
		if !ok {
			return append(errs, field.InternalError(field.NewPath("spec", "ports").Index(i).Child("nodePort"), fmt.Errorf("failed to allocate a nodePort: %w", errPortsFull)))
		}
		a.takePort(c, n)
		p.NodePort = n
	}
	return errs
}

// claimHealthPort gives a Service the port of its health check, from the range
// of node ports.
func (a *allocator) claimHealthPort(c *claims, svc *corev1.Service, had []int32) field.ErrorList {
	at, p := field.NewPath("spec", "healthCheckNodePort"), svc.Spec.HealthCheckNodePort
	switch {
	case p == 0:
		n, ok := a.freePort()
		if !ok {
			return field.ErrorList{field.InternalError(at, fmt.Errorf("failed to allocate a nodePort: %w", errPortsFull))}
		}
		svc.Spec.HealthCheckNodePort, p = n, n
	case slices.Contains(had, p):
		return nil
	default:
		if err := a.portFree(p); err != nil {
			return field.ErrorList{field.Invalid(at, p, err.Error())}
		}
	}
	a.takePort(c, p)
	return nil
}

func (a *allocator) portFree(p int32) error {
	if int(p) < a.ports[0] || int(p) > a.ports[1] {
		return fmt.Errorf("provided port is not in the valid range. The range of valid ports is %d-%d", a.ports[0], a.ports[1])
	}
	if a.used[p] > 0 {
		return errPortTaken
	}
	return nil
}

func (a *allocator) takePort(c *claims, p int32) {
	a.used[p]++
	c.ports = append(c.ports, p)
}

func (a *allocator) freePort() (int32, bool) {
	n := int32(a.ports[1] - a.ports[0] + 1)
	for i, start := int32(0), rand.Int32N(n); i < n; i++ {
		if p := int32(a.ports[0]) + (start+i)%n; a.used[p] == 0 {
			return p, true
		}
	}
	return 0, false
}

// fate is what became of a transaction.
type fate int

const (
	refused fate = iota
	stored
	// unknown: etcd did not answer. What was claimed and what was freed both
	// count as taken until the next start: an address that nobody has is better
	// than one that two have.
	unknown
)

// settle ends a transaction: one that was stored gives back what it freed, one
// that was not gives back what it claimed.
func (a *allocator) settle(c *claims, f fate) {
	var ips []netip.Addr
	var ports []int32
	switch f {
	case refused:
		ips, ports = c.ips, c.ports
	case stored:
		ips, ports = c.freedIPs, c.freedPorts
	}
	if len(ips) == 0 && len(ports) == 0 {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, ip := range ips {
		if a.ips[ip]--; a.ips[ip] <= 0 {
			delete(a.ips, ip)
		}
	}
	for _, p := range ports {
		if a.used[p]--; a.used[p] <= 0 {
			delete(a.used, p)
		}
	}
}
