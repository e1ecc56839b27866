package apiendpoint

import (
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/writ-os/writ/schema"
)

// desired are the three objects for servers that listen at the addresses, all
// on one port, as upstream's kubernetes-service controller makes them.
func desired(ip netip.Addr, servers []netip.AddrPort) []schema.Object {
	labels := map[string]string{"component": "apiserver", "provider": "kubernetes"}
	port := int32(6443)
	if len(servers) > 0 {
		port = int32(servers[0].Port())
	}
	meta := metav1.ObjectMeta{Namespace: key.Namespace, Name: key.Name}

	svc := &corev1.Service{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Service"},
		ObjectMeta: meta,
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: ip.String(), SessionAffinity: corev1.ServiceAffinityNone,
			Ports: []corev1.ServicePort{{Name: "https", Port: 443, Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(port)}},
		},
	}
	svc.Labels = labels

	var addresses []corev1.EndpointAddress
	var endpoints []discoveryv1.Endpoint
	ready := true
	for _, s := range servers {
		addresses = append(addresses, corev1.EndpointAddress{IP: s.Addr().String()})
		endpoints = append(endpoints, discoveryv1.Endpoint{Addresses: []string{s.Addr().String()}, Conditions: discoveryv1.EndpointConditions{Ready: &ready}})
	}
	ep := &corev1.Endpoints{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Endpoints"},
		ObjectMeta: meta,
	}
	ep.Labels = map[string]string{discoveryv1.LabelSkipMirror: "true"}
	slice := &discoveryv1.EndpointSlice{
		TypeMeta:    metav1.TypeMeta{APIVersion: "discovery.k8s.io/v1", Kind: "EndpointSlice"},
		ObjectMeta:  meta,
		AddressType: discoveryv1.AddressTypeIPv4,
		Endpoints:   endpoints,
	}
	slice.Labels = map[string]string{discoveryv1.LabelServiceName: key.Name}
	if len(servers) > 0 {
		name, protocol := "https", corev1.ProtocolTCP
		ep.Subsets = []corev1.EndpointSubset{{Addresses: addresses, Ports: []corev1.EndpointPort{{Name: name, Port: port, Protocol: protocol}}}}
		slice.Ports = []discoveryv1.EndpointPort{{Name: &name, Port: &port, Protocol: &protocol}}
	}
	return []schema.Object{svc, ep, slice}
}
