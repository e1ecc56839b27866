package registry

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/schema/kind/core"
	"github.com/writ-os/writ/schema/kind/valid"
)

// beginService completes the address fields of a Service and claims what it
// needs, before it is held against any rule. The errors are those of upstream's
// order: of the families first, then of addresses, then of ports.
func (g *Registry) beginService(ctx context.Context, w *write, s, old *corev1.Service) error {
	if err := g.alloc.ready(ctx, g.store, w.o); err != nil {
		return err
	}
	if old != nil {
		keepAllocated(s, old)
	}
	agreeClusterIPs(s, old)
	if errs := completeFamilies(s, old); len(errs) > 0 {
		return invalid(w.r, s.Name, errs)
	}
	if err := w.claimAddress(s, old); err != nil {
		return err
	}
	if err := w.claimPorts(s, old); err != nil {
		return err
	}
	if old != nil {
		dropOfType(s, old)
	}
	keepClaims(w.o, s, old)
	return nil
}

// keepAllocated gives an update that leaves out what was allocated what there
// was, so that the manifest that made the Service can be sent again.
func keepAllocated(s, old *corev1.Service) {
	if core.NeedsClusterIP(old) && core.NeedsClusterIP(s) {
		if s.Spec.ClusterIP == "" {
			s.Spec.ClusterIP = old.Spec.ClusterIP
		}
		if len(s.Spec.ClusterIPs) == 0 {
			s.Spec.ClusterIPs = slices.Clone(old.Spec.ClusterIPs)
		}
	}
	if core.NeedsNodePorts(old) && core.NeedsNodePorts(s) {
		keepNodePorts(s, old)
	}
	if core.NeedsHealthPort(old) && core.NeedsHealthPort(s) && s.Spec.HealthCheckNodePort == 0 {
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

// dropOfType clears what the type of a Service has no use for when the type has
// changed and the client has not touched it.
func dropOfType(s, old *corev1.Service) {
	is, was := &s.Spec, &old.Spec
	if core.NeedsClusterIP(old) && !core.NeedsClusterIP(s) {
		if is.ClusterIP == was.ClusterIP && slices.Equal(is.ClusterIPs, was.ClusterIPs) {
			is.ClusterIP, is.ClusterIPs = "", nil
		}
		if slices.Equal(is.IPFamilies, was.IPFamilies) {
			is.IPFamilies = nil
		}
		if valid.Deref(is.IPFamilyPolicy) == valid.Deref(was.IPFamilyPolicy) {
			is.IPFamilyPolicy = nil
		}
		if valid.Deref(is.InternalTrafficPolicy) == valid.Deref(was.InternalTrafficPolicy) {
			is.InternalTrafficPolicy = nil
		}
	}
	if core.MayHaveNodePorts(old) && !core.MayHaveNodePorts(s) && samePorts(s, old) {
		for i := range is.Ports {
			is.Ports[i].NodePort = 0
		}
	}
	if core.NeedsHealthPort(old) && !core.NeedsHealthPort(s) && is.HealthCheckNodePort == was.HealthCheckNodePort {
		is.HealthCheckNodePort = 0
	}
	balanced := was.Type == corev1.ServiceTypeLoadBalancer && is.Type != corev1.ServiceTypeLoadBalancer
	if a, b := is.AllocateLoadBalancerNodePorts, was.AllocateLoadBalancerNodePorts; balanced && a != nil && b != nil && *a == *b {
		is.AllocateLoadBalancerNodePorts = nil
	}
	if balanced && valid.Deref(is.LoadBalancerClass) == valid.Deref(was.LoadBalancerClass) {
		is.LoadBalancerClass = nil
	}
	if core.TakesTraffic(old) && !core.TakesTraffic(s) && is.ExternalTrafficPolicy == was.ExternalTrafficPolicy {
		is.ExternalTrafficPolicy = ""
	}
}

// samePorts says that a Service names no node port that it has not had.
func samePorts(s, old *corev1.Service) bool {
	had := map[int32]bool{0: true}
	for _, p := range old.Spec.Ports {
		had[p.NodePort] = true
	}
	return !slices.ContainsFunc(s.Spec.Ports, func(p corev1.ServicePort) bool { return !had[p.NodePort] })
}
