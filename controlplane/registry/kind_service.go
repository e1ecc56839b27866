package registry

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
)

func (g *Registry) serviceRules(rules map[*schema.Resource]*rule) {
	rules[schema.ResourceFor[*corev1.Service]()] = &rule{
		name:         validation.NameIsDNS1035Label,
		ownImmutable: true,
		create:       func(o schema.Object) { prepareService(o.(*corev1.Service), nil) },
		update:       func(o, old schema.Object) { prepareService(o.(*corev1.Service), old.(*corev1.Service)) },
		validate:     func(o schema.Object) field.ErrorList { return serviceErrors(o.(*corev1.Service)) },
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return serviceUpdateErrors(o.(*corev1.Service), old.(*corev1.Service))
		},
		allocate: func(w *write, o, old schema.Object) field.ErrorList {
			svc, _ := o.(*corev1.Service)
			was, _ := old.(*corev1.Service)
			return g.alloc.service(g.store, &w.o.claims, svc, was)
		},
	}
}

func needsClusterIP(s *corev1.Service) bool {
	return s.Spec.Type != corev1.ServiceTypeExternalName && s.Spec.ClusterIP != corev1.ClusterIPNone
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

func needsNodePorts(s *corev1.Service) bool {
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort:
		return true
	case corev1.ServiceTypeLoadBalancer:
		return s.Spec.AllocateLoadBalancerNodePorts == nil || *s.Spec.AllocateLoadBalancerNodePorts
	}
	return false
}

// prepareService brings the address fields of a Service into agreement: an
// update that leaves out what was allocated keeps it, and one that changes the
// type drops what the new type does not have.
func prepareService(s, old *corev1.Service) {
	if old != nil {
		keepAllocated(s, old)
	}
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		dropAddresses(s, old)
		return
	}
	switch {
	case s.Spec.ClusterIP == "" && len(s.Spec.ClusterIPs) > 0:
		s.Spec.ClusterIP = s.Spec.ClusterIPs[0]
	case s.Spec.ClusterIP != "" && len(s.Spec.ClusterIPs) == 0:
		s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
	}
	// One stack, IPv4.
	if s.Spec.IPFamilyPolicy == nil {
		single := corev1.IPFamilyPolicySingleStack
		s.Spec.IPFamilyPolicy = &single
	}
	if len(s.Spec.IPFamilies) == 0 {
		s.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv4Protocol}
	}
	if s.Spec.InternalTrafficPolicy == nil {
		cluster := corev1.ServiceInternalTrafficPolicyCluster
		s.Spec.InternalTrafficPolicy = &cluster
	}
}

func keepAllocated(s, old *corev1.Service) {
	if needsClusterIP(old) && s.Spec.Type != corev1.ServiceTypeExternalName {
		if s.Spec.ClusterIP == "" && len(s.Spec.ClusterIPs) == 0 {
			s.Spec.ClusterIP, s.Spec.ClusterIPs = old.Spec.ClusterIP, old.Spec.ClusterIPs
		}
		// Who changes one of the two means both.
		if s.Spec.ClusterIP != old.Spec.ClusterIP && len(s.Spec.ClusterIPs) > 0 && len(old.Spec.ClusterIPs) > 0 && s.Spec.ClusterIPs[0] == old.Spec.ClusterIPs[0] {
			s.Spec.ClusterIPs = []string{s.Spec.ClusterIP}
		}
	}
	if needsNodePorts(s) && needsNodePorts(old) {
		keepNodePorts(s, old)
	}
	switch {
	case needsHealthPort(s) && needsHealthPort(old) && s.Spec.HealthCheckNodePort == 0:
		s.Spec.HealthCheckNodePort = old.Spec.HealthCheckNodePort
	case !needsHealthPort(s) && s.Spec.HealthCheckNodePort == old.Spec.HealthCheckNodePort:
		s.Spec.HealthCheckNodePort = 0
	}
	if takesTraffic(old) && !takesTraffic(s) && s.Spec.ExternalTrafficPolicy == old.Spec.ExternalTrafficPolicy {
		s.Spec.ExternalTrafficPolicy = ""
	}
	if needsNodePorts(old) && !needsNodePorts(s) {
		for i := range s.Spec.Ports {
			for _, p := range old.Spec.Ports {
				if s.Spec.Ports[i].NodePort == p.NodePort {
					s.Spec.Ports[i].NodePort = 0
				}
			}
		}
	}
}

// keepNodePorts gives ports that name no node port the one they had.
func keepNodePorts(s, old *corev1.Service) {
	type id struct {
		protocol corev1.Protocol
		port     int32
	}
	had, taken := map[id]int32{}, map[int32]bool{}
	for _, p := range old.Spec.Ports {
		had[id{p.Protocol, p.Port}] = p.NodePort
	}
	for _, p := range s.Spec.Ports {
		taken[p.NodePort] = true
	}
	for i := range s.Spec.Ports {
		p := &s.Spec.Ports[i]
		if n := had[id{p.Protocol, p.Port}]; p.NodePort == 0 && n != 0 && !taken[n] {
			p.NodePort = n
		}
	}
}

func dropAddresses(s, old *corev1.Service) {
	if old == nil || s.Spec.ClusterIP == old.Spec.ClusterIP {
		s.Spec.ClusterIP, s.Spec.ClusterIPs = "", nil
	}
	s.Spec.IPFamilies, s.Spec.IPFamilyPolicy, s.Spec.InternalTrafficPolicy = nil, nil, nil
	for i := range s.Spec.Ports {
		s.Spec.Ports[i].NodePort = 0
	}
}

func serviceErrors(s *corev1.Service) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	if s.Spec.Type == corev1.ServiceTypeExternalName {
		if s.Spec.ExternalName == "" {
			errs = append(errs, field.Required(at.Child("externalName"), ""))
		}
		if s.Spec.ClusterIP != "" {
			errs = append(errs, field.Forbidden(at.Child("clusterIPs"), "may not be set for ExternalName services"))
		}
		return errs
	}
	headless := s.Spec.ClusterIP == corev1.ClusterIPNone
	if len(s.Spec.Ports) == 0 && !headless {
		errs = append(errs, field.Required(at.Child("ports"), ""))
	}
	if headless && (s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer) {
		errs = append(errs, field.Invalid(at.Child("clusterIPs").Index(0), s.Spec.ClusterIPs, "may not be set to 'None' for "+string(s.Spec.Type)+" services"))
	}
	errs = append(errs, clusterIPErrors(s, at)...)
	return append(errs, portErrors(s, at.Child("ports"))...)
}

func clusterIPErrors(s *corev1.Service, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(s.Spec.ClusterIPs) > 0 && s.Spec.ClusterIPs[0] != s.Spec.ClusterIP {
		errs = append(errs, field.Invalid(at.Child("clusterIPs"), s.Spec.ClusterIPs, "first value must match `clusterIP`"))
	}
	if len(s.Spec.ClusterIPs) > 1 {
		errs = append(errs, field.Invalid(at.Child("clusterIPs"), s.Spec.ClusterIPs, "may only hold one value: the cluster has one address family"))
	}
	if ip := s.Spec.ClusterIP; ip != "" && ip != corev1.ClusterIPNone {
		if _, err := netip.ParseAddr(ip); err != nil {
			errs = append(errs, field.Invalid(at.Child("clusterIPs").Index(0), ip, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"))
		}
	}
	if len(s.Spec.IPFamilies) > 1 || len(s.Spec.IPFamilies) == 1 && s.Spec.IPFamilies[0] != corev1.IPv4Protocol {
		errs = append(errs, field.Invalid(at.Child("ipFamilies").Index(0), s.Spec.IPFamilies, "not configured on this cluster"))
	}
	if p := s.Spec.IPFamilyPolicy; p != nil && *p == corev1.IPFamilyPolicyRequireDualStack {
		errs = append(errs, field.Invalid(at.Child("ipFamilyPolicy"), *p, "this cluster is not configured for dual-stack services"))
	}
	return errs
}

func portErrors(s *corev1.Service, at *field.Path) field.ErrorList {
	type id struct {
		protocol corev1.Protocol
		port     int32
	}
	var errs field.ErrorList
	names, ports, nodePorts := map[string]bool{}, map[id]bool{}, map[id]bool{}
	for i, p := range s.Spec.Ports {
		at := at.Index(i)
		if len(s.Spec.Ports) > 1 && p.Name == "" {
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		if p.Name != "" && names[p.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
		}
		if ports[id{p.Protocol, p.Port}] {
			errs = append(errs, field.Duplicate(at, corev1.ServicePort{Protocol: p.Protocol, Port: p.Port}))
		}
		if n := (id{p.Protocol, p.NodePort}); p.NodePort != 0 {
			if s.Spec.Type == corev1.ServiceTypeClusterIP {
				errs = append(errs, field.Forbidden(at.Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
			} else if nodePorts[n] {
				errs = append(errs, field.Duplicate(at.Child("nodePort"), p.NodePort))
			}
			nodePorts[n] = true
		}
		names[p.Name], ports[id{p.Protocol, p.Port}] = true, true
	}
	return errs
}

// serviceUpdateErrors: the address of a Service is what others hold on to.
func serviceUpdateErrors(s, old *corev1.Service) field.ErrorList {
	if s.Spec.Type == corev1.ServiceTypeExternalName || old.Spec.Type == corev1.ServiceTypeExternalName {
		return nil
	}
	at := field.NewPath("spec", "clusterIPs").Index(0)
	switch {
	case old.Spec.ClusterIP == "" || s.Spec.ClusterIP == old.Spec.ClusterIP:
		return nil
	case s.Spec.ClusterIP == "":
		return field.ErrorList{field.Invalid(at, s.Spec.ClusterIPs, "primary clusterIP can not be unset")}
	}
	return field.ErrorList{field.Invalid(at, s.Spec.ClusterIPs, "may not change once set")}
}
