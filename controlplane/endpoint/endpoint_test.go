package endpoint

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

func TestResolve(t *testing.T) {
	meta := func(name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: "ns", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}}
	}
	service := func(name string) *corev1.Service {
		return &corev1.Service{TypeMeta: metav1.TypeMeta{Kind: "Service", APIVersion: "v1"}, ObjectMeta: meta(name),
			Spec: corev1.ServiceSpec{ClusterIP: "10.96.0.7", Ports: []corev1.ServicePort{{Name: "https", Port: 443}, {Name: "metrics", Port: 9090}}}}
	}
	slice := func(name string, ready ...bool) *discoveryv1.EndpointSlice {
		s := &discoveryv1.EndpointSlice{TypeMeta: metav1.TypeMeta{Kind: "EndpointSlice", APIVersion: "discovery.k8s.io/v1"}, ObjectMeta: meta(name), AddressType: discoveryv1.AddressTypeIPv4,
			Ports: []discoveryv1.EndpointPort{{Name: ptr.To("https"), Port: ptr.To[int32](8443)}}}
		for i, r := range ready {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{"10.244.0." + string(rune('1'+i))}, Conditions: discoveryv1.EndpointConditions{Ready: ptr.To(r)}})
		}
		return s
	}
	external := service("external")
	external.Spec = corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "api.example.com"}
	c := client.NewFake(service("web"), slice("web", false, true), service("down"), slice("down", false), external)
	for _, tt := range []struct {
		name string
		port int32
		want string
	}{
		{"web", 443, "10.244.0.2:8443"},
		{"web", 9090, `no endpoints available for service "web"`},
		{"web", 80, `no service port 80 found for service "web"`},
		{"down", 443, `no endpoints available for service "down"`},
		{"none", 443, `service "none" not found`},
		{"external", 443, "api.example.com:443"},
	} {
		got, err := Resolve(c.Cache(), "ns", tt.name, tt.port)
		if err != nil {
			got = err.Error()
		}
		if !strings.Contains(got, tt.want) {
			t.Errorf("%s:%d: %q, want %q", tt.name, tt.port, got, tt.want)
		}
	}
	_ = schema.Key{}
}
