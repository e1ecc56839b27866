package table

import (
	"net"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
)

// Columns of kinds that route traffic.
var _ = register(map[string]func(*Row) any{
	"serviceExternalIP":      func(r *Row) any { return externalIP(r.Object.(*corev1.Service)) },
	"servicePorts":           func(r *Row) any { return servicePorts(r.Object.(*corev1.Service)) },
	"endpointsAddresses":     func(r *Row) any { return endpoints(r.Object.(*corev1.Endpoints)) },
	"endpointSlicePorts":     func(r *Row) any { return slicePorts(r.Object.(*discoveryv1.EndpointSlice)) },
	"endpointSliceAddresses": func(r *Row) any { return sliceAddresses(r.Object.(*discoveryv1.EndpointSlice)) },
	"ingressHosts":           func(r *Row) any { return ingressHosts(r.Object.(*networkingv1.Ingress)) },
	"ingressAddress":         func(r *Row) any { return ingressAddress(r.Object.(*networkingv1.Ingress)) },
	"ingressPorts": func(r *Row) any {
		if len(r.Object.(*networkingv1.Ingress).Spec.TLS) > 0 {
			return "80, 443"
		}
		return "80"
	},
	"ingressClassParameters": func(r *Row) any { return classParameters(r.Object.(*networkingv1.IngressClass)) },
})

func externalIP(s *corev1.Service) string {
	switch s.Spec.Type {
	case corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort:
		return orNone(strings.Join(s.Spec.ExternalIPs, ","))
	case corev1.ServiceTypeExternalName:
		return s.Spec.ExternalName
	case corev1.ServiceTypeLoadBalancer:
		var lb []string
		for _, in := range s.Status.LoadBalancer.Ingress {
			lb = append(lb, firstOf(in.IP, in.Hostname))
		}
		lb = distinct(lb)
		if all := append(lb, s.Spec.ExternalIPs...); len(all) > 0 {
			return strings.Join(all, ",")
		}
		return "<pending>"
	}
	return unknown
}

func servicePorts(s *corev1.Service) string {
	texts := make([]string, len(s.Spec.Ports))
	for i, p := range s.Spec.Ports {
		texts[i] = strconv.Itoa(int(p.Port))
		if p.NodePort > 0 {
			texts[i] += ":" + strconv.Itoa(int(p.NodePort))
		}
		texts[i] += "/" + string(p.Protocol)
	}
	return orNone(strings.Join(texts, ","))
}

func endpoints(e *corev1.Endpoints) string {
	var all []string
	for _, set := range e.Subsets {
		if len(set.Ports) == 0 { // a headless service may have none
			for _, a := range set.Addresses {
				all = append(all, a.IP)
			}
		}
		for _, p := range set.Ports {
			for _, a := range set.Addresses {
				all = append(all, net.JoinHostPort(a.IP, strconv.Itoa(int(p.Port))))
			}
		}
	}
	if len(e.Subsets) == 0 {
		return none
	}
	return limited(all, 3, ",")
}

func slicePorts(s *discoveryv1.EndpointSlice) string {
	var all []string
	for _, p := range s.Ports {
		switch {
		case p.Port != nil:
			all = append(all, strconv.Itoa(int(*p.Port)))
		case p.Name != nil:
			all = append(all, *p.Name)
		default:
			all = append(all, "*")
		}
	}
	if len(all) == 0 {
		return unset
	}
	return limited(all, 3, ",")
}

func sliceAddresses(s *discoveryv1.EndpointSlice) string {
	var all []string
	for _, e := range s.Endpoints {
		all = append(all, e.Addresses...)
	}
	if len(all) == 0 {
		return unset
	}
	return limited(all, 3, ",")
}

func ingressHosts(in *networkingv1.Ingress) string {
	const max = 3
	var hosts []string
	more := false
	for _, rule := range in.Spec.Rules {
		if len(hosts) == max {
			more = true
			break
		}
		if rule.Host != "" {
			hosts = append(hosts, rule.Host)
		}
	}
	if len(hosts) == 0 {
		return "*"
	}
	text := strings.Join(hosts, ",")
	if more {
		text += " + " + strconv.Itoa(len(in.Spec.Rules)-max) + " more..."
	}
	return text
}

func ingressAddress(in *networkingv1.Ingress) string {
	var all []string
	for _, a := range in.Status.LoadBalancer.Ingress {
		all = append(all, firstOf(a.IP, a.Hostname))
	}
	return strings.Join(distinct(all), ",")
}

func classParameters(c *networkingv1.IngressClass) string {
	p := c.Spec.Parameters
	if p == nil {
		return none
	}
	kind := p.Kind
	if p.APIGroup != nil {
		kind += "." + *p.APIGroup
	}
	return kind + "/" + p.Name
}

// distinct sorts and drops what is empty or twice there.
func distinct(in []string) []string {
	in = slices.DeleteFunc(in, func(s string) bool { return s == "" })
	slices.Sort(in)
	return slices.Compact(in)
}

func firstOf(a, b string) string {
	if a != "" {
		return a
	}
	return b
}
