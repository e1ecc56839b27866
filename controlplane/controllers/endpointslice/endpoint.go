package endpointslice

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/writ-os/writ/controlplane/controller/podset"
)

// endpoint is what a pod is to a Service; false for a pod that has ended or
// has no address of the family yet.
func endpoint(svc *corev1.Service, p *corev1.Pod, family discoveryv1.AddressType, zone func(string) string) (discoveryv1.Endpoint, bool) {
	addr := address(p, family)
	if addr == "" || podset.Done(p) {
		return discoveryv1.Endpoint{}, false
	}
	serving := podset.Ready(p)
	terminating := p.DeletionTimestamp != nil
	ready := svc.Spec.PublishNotReadyAddresses || serving && !terminating
	e := discoveryv1.Endpoint{
		Addresses:  []string{addr},
		Conditions: discoveryv1.EndpointConditions{Ready: &ready, Serving: &serving, Terminating: &terminating},
		TargetRef:  reference(p),
	}
	if node := p.Spec.NodeName; node != "" {
		e.NodeName = &node
		if z := zone(node); z != "" {
			e.Zone = &z
		}
	}
	if p.Spec.Hostname != "" && p.Spec.Subdomain == svc.Name {
		e.Hostname = &p.Spec.Hostname
	}
	return e, true
}

// address returns the pod's address of a family; "" for none.
func address(p *corev1.Pod, family discoveryv1.AddressType) string {
	ips := p.Status.PodIPs
	if len(ips) == 0 && p.Status.PodIP != "" {
		ips = []corev1.PodIP{{IP: p.Status.PodIP}}
	}
	for _, ip := range ips {
		a, err := netip.ParseAddr(ip.IP)
		if err == nil && a.Is6() == (family == discoveryv1.AddressTypeIPv6) {
			return ip.IP
		}
	}
	return ""
}

func reference(p *corev1.Pod) *corev1.ObjectReference {
	return &corev1.ObjectReference{Kind: "Pod", Namespace: p.Namespace, Name: p.Name, UID: p.UID}
}

// endpointPorts are the Service's ports as one pod has them: a port by name is
// another number in each pod, and missing in one that does not name it.
func endpointPorts(svc *corev1.Service, p *corev1.Pod) []discoveryv1.EndpointPort {
	var out []discoveryv1.EndpointPort
	for _, sp := range svc.Spec.Ports {
		n, ok := podset.TargetPort(p, &sp)
		if !ok {
			continue
		}
		name, protocol := sp.Name, sp.Protocol
		out = append(out, discoveryv1.EndpointPort{Name: &name, Port: &n, Protocol: &protocol, AppProtocol: sp.AppProtocol})
	}
	return out
}
