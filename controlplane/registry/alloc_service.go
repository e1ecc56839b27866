package registry

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/writ-os/writ/schema/kind/core"
)

// claimAddress gives a Service that begins to have an address the one that it
// names, or another. One that has one keeps it: a change is refused later.
func (w *write) claimAddress(s, old *corev1.Service) error {
	if !core.NeedsClusterIP(s) || core.Headless(s) || old != nil && core.NeedsClusterIP(old) {
		return nil
	}
	at := field.NewPath("spec", "clusterIPs")
	if len(s.Spec.ClusterIPs) > 0 {
		want := s.Spec.ClusterIPs[0]
		ip := netutils.ParseIPSloppy(want)
		addr, ok := netip.AddrFromSlice(ip)
		if !ok {
			return apierrors.NewInternalError(fmt.Errorf("failed to parse service IP %q", want))
		}
		if err := w.g.alloc.named(w.o, addr.Unmap()); err != nil {
			return invalid(w.r, s.Name, field.ErrorList{field.Invalid(at, s.Spec.ClusterIPs, fmt.Sprintf("failed to allocate IP %v: %v", want, err))})
		}
		return nil
	}
	ip, err := w.g.alloc.next(w.o)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a serviceIP for Service %q: %w", s.Name, err))
	}
	s.Spec.ClusterIP, s.Spec.ClusterIPs = ip.String(), []string{ip.String()}
	return nil
}

// claimPorts gives a Service its node ports: those that it names first, then
// others to the ports that need one.
func (w *write) claimPorts(s, old *corev1.Service) error {
	mine, byPort := map[int32]bool{}, map[int32]int32{}
	for _, p := range portsOf(old) {
		mine[p] = true
	}
	if core.MayHaveNodePorts(s) {
		for i := range s.Spec.Ports {
			if err := w.claimNamed(s, i, mine, byPort); err != nil {
				return err
			}
		}
		for i := range s.Spec.Ports {
			p := &s.Spec.Ports[i]
			if p.NodePort != 0 || !core.NeedsNodePorts(s) {
				continue
			}
			if n := byPort[p.Port]; n != 0 && old == nil { // TCP and UDP share one
				p.NodePort = n
				continue
			}
			n, err := w.g.alloc.nextPort(w.o)
			if err != nil {
				return apierrors.NewInternalError(fmt.Errorf("failed to allocate a nodePort: %w", err))
			}
			p.NodePort, byPort[p.Port] = n, n
		}
	}
	return w.claimHealthPort(s, old, mine)
}

func (w *write) claimNamed(s *corev1.Service, i int, mine map[int32]bool, byPort map[int32]int32) error {
	p := &s.Spec.Ports[i]
	if p.NodePort == 0 {
		return nil
	}
	if byPort[p.Port] == 0 {
		byPort[p.Port] = p.NodePort
	}
	if mine[p.NodePort] {
		return nil
	}
	if err := w.g.alloc.namedPort(w.o, p.NodePort); err != nil {
		return invalid(w.r, s.Name, field.ErrorList{field.Invalid(field.NewPath("spec", "ports").Index(i).Child("nodePort"), p.NodePort, err.Error())})
	}
	mine[p.NodePort] = true
	return nil
}

// claimHealthPort gives a Service the port of its health check, from the range
// of node ports.
func (w *write) claimHealthPort(s, old *corev1.Service, mine map[int32]bool) error {
	if !core.NeedsHealthPort(s) || old != nil && core.NeedsHealthPort(old) {
		return nil
	}
	if p := s.Spec.HealthCheckNodePort; p != 0 {
		err := w.g.alloc.namedPort(w.o, p)
		if err == nil && mine[p] {
			err = errPortTaken
		}
		if err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to allocate requested HealthCheck NodePort %v: %w", p, err))
		}
		return nil
	}
	p, err := w.g.alloc.nextPort(w.o)
	if err != nil {
		return apierrors.NewInternalError(fmt.Errorf("failed to allocate a HealthCheck NodePort %v: %w", 0, err))
	}
	s.Spec.HealthCheckNodePort = p
	return nil
}
