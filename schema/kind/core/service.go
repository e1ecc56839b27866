package core

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
)

// Service is the judge of its kind.
var Service = &kind.Kind{
	Resource:       schema.ResourceFor[*corev1.Service](),
	Name:           validation.NameIsDNSLabel,
	OwnImmutable:   true,
	OwnSchema:      true,
	CreateOnUpdate: true,
	Complete: func(o, old schema.Object) field.ErrorList {
		was, _ := old.(*corev1.Service)
		return completeService(o.(*corev1.Service), was)
	},
	PrepareUpdate: func(o, _ schema.Object) {
		if s := o.(*corev1.Service); s.Spec.Type != corev1.ServiceTypeLoadBalancer {
			s.Status.LoadBalancer = corev1.LoadBalancerStatus{}
		}
	},
	ValidateCreate: func(o schema.Object) field.ErrorList { return serviceErrors(o.(*corev1.Service), nil) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		is, was := o.(*corev1.Service), old.(*corev1.Service)
		return append(serviceUpdateErrors(is, was), serviceErrors(is, was)...)
	},
	ValidateDoor: func(_ string, o, old schema.Object) field.ErrorList {
		is, was := o.(*corev1.Service), old.(*corev1.Service)
		return loadBalancerErrors(&is.Status.LoadBalancer, &was.Status.LoadBalancer, is.Spec.Type, field.NewPath("status", "loadBalancer"))
	},
}

// NeedsClusterIP says whether a Service has addresses of its own.
func NeedsClusterIP(s *corev1.Service) bool { return s.Spec.Type != corev1.ServiceTypeExternalName }

// Headless says whether a Service asks for no address.
func Headless(s *corev1.Service) bool {
	return len(s.Spec.ClusterIPs) == 1 && s.Spec.ClusterIPs[0] == corev1.ClusterIPNone
}

// NeedsHealthPort says whether load balancers ask the nodes which of them have a
// pod of the Service.
func NeedsHealthPort(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeLoadBalancer && s.Spec.ExternalTrafficPolicy == corev1.ServiceExternalTrafficPolicyLocal
}

// TakesTraffic says whether a Service has addresses outside of the cluster.
func TakesTraffic(s *corev1.Service) bool {
	switch s.Spec.Type {
	case corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer:
		return true
	case corev1.ServiceTypeClusterIP:
		return len(s.Spec.ExternalIPs) > 0
	}
	return false
}

// MayHaveNodePorts says whether the type is one that nodes answer for.
func MayHaveNodePorts(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort || s.Spec.Type == corev1.ServiceTypeLoadBalancer
}

// NeedsNodePorts says whether ports without a node port are to get one.
func NeedsNodePorts(s *corev1.Service) bool {
	return s.Spec.Type == corev1.ServiceTypeNodePort ||
		s.Spec.Type == corev1.ServiceTypeLoadBalancer && (s.Spec.AllocateLoadBalancerNodePorts == nil || *s.Spec.AllocateLoadBalancerNodePorts)
}
