package core

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/writ-os/writ/schema/kind/valid"
)

// completeService writes into a Service what follows from what it says, and
// from what it was: its addresses in both forms, and their families.
func completeService(s, old *corev1.Service) field.ErrorList {
	if old != nil {
		keepAllocated(s, old)
	}
	agreeClusterIPs(s, old)
	return completeFamilies(s, old)
}

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
	if errs := ClusterIPErrors(s, old); len(errs) > 0 {
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

// keepAllocated gives an update that leaves out what was allocated what there
// was, so that the manifest that made the Service can be sent again.
func keepAllocated(s, old *corev1.Service) {
	if NeedsClusterIP(old) && NeedsClusterIP(s) {
		if s.Spec.ClusterIP == "" {
			s.Spec.ClusterIP = old.Spec.ClusterIP
		}
		if len(s.Spec.ClusterIPs) == 0 {
			s.Spec.ClusterIPs = slices.Clone(old.Spec.ClusterIPs)
		}
	}
	if NeedsNodePorts(old) && NeedsNodePorts(s) {
		keepNodePorts(s, old)
	}
	if NeedsHealthPort(old) && NeedsHealthPort(s) && s.Spec.HealthCheckNodePort == 0 {
		s.Spec.HealthCheckNodePort = old.Spec.HealthCheckNodePort
	}
}

// keepNodePorts gives ports that name no node port the one that they had, by
// their names.
func keepNodePorts(s, old *corev1.Service) {
	had, named := map[string]int32{}, map[int32]bool{}
	for _, p := range old.Spec.Ports {
		had[p.Name] = p.NodePort
	}
	for _, p := range s.Spec.Ports {
		named[p.NodePort] = true
	}
	for i := range s.Spec.Ports {
		if p := &s.Spec.Ports[i]; p.NodePort == 0 && !named[had[p.Name]] {
			p.NodePort = had[p.Name]
		}
	}
}

// agreeClusterIPs brings the two forms of the address field into agreement:
// older clients know only the first.
func agreeClusterIPs(s, old *corev1.Service) {
	if old == nil {
		if s.Spec.ClusterIP != "" && len(s.Spec.ClusterIPs) == 0 {
			s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
		}
		return
	}
	if len(s.Spec.ClusterIPs) == 0 && s.Spec.ClusterIP == old.Spec.ClusterIP {
		s.Spec.ClusterIPs = slices.Clone(old.Spec.ClusterIPs)
	}
	if s.Spec.ClusterIP == old.Spec.ClusterIP || !slices.Equal(s.Spec.ClusterIPs, old.Spec.ClusterIPs) {
		return
	}
	// Who changes one of the two means both.
	if s.Spec.ClusterIP == "" {
		s.Spec.ClusterIPs = nil
	} else {
		s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
	}
}
