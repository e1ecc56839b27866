package registry

import (
	"context"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
)

func (g *Registry) serviceRules(rules map[*schema.Resource]*rule) {
	rules[schema.ResourceFor[*corev1.Service]()] = &rule{
		name:           validation.NameIsDNSLabel,
		ownImmutable:   true,
		ownSchema:      true,
		createOnUpdate: true,
		begin: func(ctx context.Context, w *write, o, old schema.Object) error {
			was, _ := old.(*corev1.Service)
			return g.beginService(ctx, w, o.(*corev1.Service), was)
		},
		update: func(o, _ schema.Object) {
			if s := o.(*corev1.Service); s.Spec.Type != corev1.ServiceTypeLoadBalancer {
				s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
			}
		},
		validateNew: func(o schema.Object) field.ErrorList { return serviceErrors(o.(*corev1.Service), nil) },
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			is, was := o.(*corev1.Service), old.(*corev1.Service)
			return append(serviceUpdateErrors(is, was), serviceErrors(is, was)...)
		},
		validateDoor: func(_ string, o, old schema.Object) field.ErrorList {
			is, was := o.(*corev1.Service), old.(*corev1.Service)
			return loadBalancerErrors(&is.Status.LoadBalancer, &was.Status.LoadBalancer, is.Spec.Type, field.NewPath("status", "loadBalancer"))
		},
		allocate: func(w *write, o, old schema.Object) field.ErrorList {
			if was, ok := old.(*corev1.Service); o == nil && ok {
				keepClaims(w.o, nil, was)
			}
			return nil
		},
	}
	rules[schema.ResourceFor[*corev1.Endpoints]()] = endpointsRule()
}

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

func needsClusterIP(s *corev1.Service) bool { return s.Spec.Type != corev1.ServiceTypeExternalName }

func headless(s *corev1.Service) bool {
	return len(s.Spec.ClusterIPs) == 1 && s.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// needsHealthPort says whether load balancers ask the nodes which of them have a
// pod of the Service.
func needsHealthPort(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// takesTraffic says whether a Service has addresses outside of the cluster.
func takesTraffic(s *corev1.Service) bool {
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
		return true
	case corev1.ServiceTypeClusterIP:
		return len(s.Spec.ExternalIPs) > 0
	}
	return false
}

// mayHaveNodePorts says whether the type is one that nodes answer for.
func mayHaveNodePorts(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// needsNodePorts says whether ports without a node port are to get one.
func needsNodePorts(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort ||
		s.Spec.Type == corev1.ServiceTypeLoadBalancer && (s.Spec.AllocateLoadBalancerNodePorts == nil || *s.Spec.AllocateLoadBalancerNodePorts)
}

// keepAllocated gives an update that leaves out what was allocated what there
// was, so that the manifest that made the Service can be sent again.
func keepAllocated(s, old *corev1.Service) {
	if needsClusterIP(old) && needsClusterIP(s) {
		if s.Spec.ClusterIP == "" {
			s.Spec.ClusterIP = old.Spec.ClusterIP
		}
		if len(s.Spec.ClusterIPs) == 0 {
			s.Spec.ClusterIPs = slices.Clone(old.Spec.ClusterIPs)
		}
	}
	if needsNodePorts(old) && needsNodePorts(s) {
		keepNodePorts(s, old)
	}
	if needsHealthPort(old) && needsHealthPort(s) && s.Spec.HealthCheckNodePort == 0 {
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
	if needsClusterIP(old) && !needsClusterIP(s) {
		if is.ClusterIP == was.ClusterIP && slices.Equal(is.ClusterIPs, was.ClusterIPs) {
			is.ClusterIP, is.ClusterIPs = "", nil
		}
		if slices.Equal(is.IPFamilies, was.IPFamilies) {
			is.IPFamilies = nil
		}
		if deref(is.IPFamilyPolicy) == deref(was.IPFamilyPolicy) {
			is.IPFamilyPolicy = nil
		}
		if deref(is.InternalTrafficPolicy) == deref(was.InternalTrafficPolicy) {
			is.InternalTrafficPolicy = nil
		}
	}
	if mayHaveNodePorts(old) && !mayHaveNodePorts(s) && samePorts(s, old) {
		for i := range is.Ports {
			is.Ports[i].NodePort = 0
		}
	}
	if needsHealthPort(old) && !needsHealthPort(s) && is.HealthCheckNodePort == was.HealthCheckNodePort {
		is.HealthCheckNodePort = 0
	}
	balanced := was.Type == corev1.ServiceTypeLoadBalancer && is.Type != corev1.ServiceTypeLoadBalancer
	if a, b := is.AllocateLoadBalancerNodePorts, was.AllocateLoadBalancerNodePorts; balanced && a != nil && b != nil && *a == *b {
		is.AllocateLoadBalancerNodePorts = nil
	}
	if balanced && deref(is.LoadBalancerClass) == deref(was.LoadBalancerClass) {
		is.LoadBalancerClass = nil
	}
	if takesTraffic(old) && !takesTraffic(s) && is.ExternalTrafficPolicy == was.ExternalTrafficPolicy {
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

func deref[T any](p *T) (v T) {
	if p != nil {
		v = *p
	}
	return v
}
