package registry

import (
	"fmt"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/writ-os/writ/schema/kind/core"
	"github.com/writ-os/writ/schema/kind/valid"
)

// completeFamilies fills in the families of a Service's addresses and their
// policy. The cluster has one family, IPv4: a Service that demands both is
// refused, one that would like both gets the one, and only a headless Service
// without a selector may have both, since its endpoints are none of ours.
func completeFamilies(s, old *corev1.Service) field.ErrorList {
	if s.Spec.Type == corev1.ServiceTypeExternalName || stillPrefersBoth(s, old) {
		return nil
	}
	at := field.NewPath("spec")
	free := s.Spec.ClusterIP == corev1.ClusterIPNone && len(s.Spec.Selector) == 0
	if s.Spec.IPFamilyPolicy == nil {
		switch {
		case old != nil && old.Spec.IPFamilyPolicy != nil:
			s.Spec.IPFamilyPolicy = new(*old.Spec.IPFamilyPolicy)
		case free:
			s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicyRequireDualStack)
		default:
			s.Spec.IPFamilyPolicy = new(corev1.IPFamilyPolicySingleStack)
		}
	}
	if errs := core.ClusterIPErrors(s, old); len(errs) > 0 {
		return errs
	}
	policy := *s.Spec.IPFamilyPolicy
	errs := reducedErrors(s, old, policy, at)
	if policy == corev1.IPFamilyPolicySingleStack {
		const need = "must be 'RequireDualStack' or 'PreferDualStack' when multiple "
		if len(s.Spec.ClusterIPs) == 2 {
			errs = append(errs, field.Invalid(at.Child("ipFamilyPolicy"), s.Spec.IPFamilyPolicy, need+"cluster IPs are specified"))
		}
		if len(s.Spec.IPFamilies) == 2 {
			errs = append(errs, field.Invalid(at.Child("ipFamilyPolicy"), s.Spec.IPFamilyPolicy, need+"IP families are specified"))
		}
	}
	errs = append(errs, inferFamilies(s, at)...)
	if len(errs) > 0 {
		return errs
	}
	if free {
		freeFamilies(s, policy)
		return nil
	}
	if policy == corev1.IPFamilyPolicyRequireDualStack {
		errs = append(errs, field.Invalid(at.Child("ipFamilyPolicy"), s.Spec.IPFamilyPolicy, "this cluster is not configured for dual-stack services"))
	}
	for i, family := range s.Spec.IPFamilies {
		if family != corev1.IPv4Protocol {
			errs = append(errs, field.Invalid(at.Child("ipFamilies").Index(i), family, "not configured on this cluster"))
		}
	}
	if len(errs) == 0 && len(s.Spec.IPFamilies) == 0 {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	return errs
}

// stillPrefersBoth says that an update leaves everything about the addresses of
// a Service that would like both families as it was.
func stillPrefersBoth(s, old *corev1.Service) bool {
	const prefer = corev1.IPFamilyPolicyPreferDualStack
	return old != nil && old.Spec.Type == s.Spec.Type && valid.Deref(s.Spec.IPFamilyPolicy) == prefer &&
		(old.Spec.IPFamilyPolicy == nil || *old.Spec.IPFamilyPolicy == prefer) &&
		sameList(s.Spec.ClusterIPs, old.Spec.ClusterIPs) && sameList(s.Spec.IPFamilies, old.Spec.IPFamilies)
}

// reducedErrors: who gives the second address back must say so in the policy.
func reducedErrors(s, old *corev1.Service, policy corev1.IPFamilyPolicy, at *field.Path) field.ErrorList {
	if old == nil {
		return nil
	}
	if policy == corev1.IPFamilyPolicySingleStack {
		if sameList(s.Spec.ClusterIPs, old.Spec.ClusterIPs) && len(s.Spec.ClusterIPs) > 1 {
			s.Spec.ClusterIPs = s.Spec.ClusterIPs[:1:1]
		}
		if sameList(s.Spec.IPFamilies, old.Spec.IPFamilies) && len(s.Spec.IPFamilies) > 1 {
			s.Spec.IPFamilies = s.Spec.IPFamilies[:1:1]
		}
		return nil
	}
	var errs field.ErrorList
	if n := len(s.Spec.ClusterIPs); n > 0 && n < len(old.Spec.ClusterIPs) {
		errs = append(errs, field.Invalid(at.Child("ipFamilyPolicy"), s.Spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary cluster IP"))
	}
	if n := len(s.Spec.IPFamilies); n > 0 && n < len(old.Spec.IPFamilies) {
		errs = append(errs, field.Invalid(at.Child("ipFamilyPolicy"), s.Spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary IP family"))
	}
	return errs
}

// inferFamilies names the families of the addresses that a Service names.
func inferFamilies(s *corev1.Service, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i, ip := range s.Spec.ClusterIPs {
		if ip == corev1.ClusterIPNone {
			break
		}
		if i < len(s.Spec.IPFamilies) {
			continue
		}
		if netutils.IsIPv6String(ip) {
			errs = append(errs, field.Invalid(at.Child("clusterIPs").Index(i), s.Spec.ClusterIPs, "IPv6 is not configured on this cluster"))
			continue
		}
		s.Spec.IPFamilies = append(s.Spec.IPFamilies, corev1.IPv4Protocol)
	}
	return errs
}

// freeFamilies completes a headless Service without a selector.
func freeFamilies(s *corev1.Service, policy corev1.IPFamilyPolicy) {
	if len(s.Spec.IPFamilies) == 0 {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	if len(s.Spec.IPFamilies) > 1 || policy == corev1.IPFamilyPolicySingleStack {
		return
	}
	other := corev1.IPv6Protocol
	if s.Spec.IPFamilies[0] == other {
		other = corev1.IPv4Protocol
	}
	s.Spec.IPFamilies = append(s.Spec.IPFamilies, other)
}

func sameList[T comparable](a, b []T) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

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
