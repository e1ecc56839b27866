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
