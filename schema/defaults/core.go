package defaults

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// setNamespace labels a namespace with its name, once it has one.
func setNamespace(o *corev1.Namespace) {
	if o.Status.Phase == "" {
		o.Status.Phase = corev1.NamespaceActive
	}
	if o.Name == "" {
		return
	}
	if o.Labels == nil {
		o.Labels = map[string]string{}
	}
	o.Labels[corev1.LabelMetadataName] = o.Name
}

func setConfigMap(o *corev1.ConfigMap) {
	if o.Data == nil {
		o.Data = map[string]string{}
	}
}

func setService(o *corev1.Service) {
	if o.Spec.SessionAffinity == "" {
		o.Spec.SessionAffinity = corev1.ServiceAffinityNone
	}
	sessionAffinity(&o.Spec)
	if o.Spec.Type == "" {
		o.Spec.Type = corev1.ServiceTypeClusterIP
	}
	trafficPolicies(&o.Spec)
	if o.Spec.Type != corev1.ServiceTypeLoadBalancer {
		return
	}
	if o.Spec.AllocateLoadBalancerNodePorts == nil {
		o.Spec.AllocateLoadBalancerNodePorts = new(true)
	}
	for i := range o.Status.LoadBalancer.Ingress {
		if in := &o.Status.LoadBalancer.Ingress[i]; in.IP != "" && in.IPMode == nil {
			in.IPMode = new(corev1.LoadBalancerIPModeVIP)
		}
	}
}

func sessionAffinity(o *corev1.ServiceSpec) {
	switch o.SessionAffinity {
	case corev1.ServiceAffinityNone:
		o.SessionAffinityConfig = nil
	case corev1.ServiceAffinityClientIP:
		if c := o.SessionAffinityConfig; c == nil || c.ClientIP == nil || c.ClientIP.TimeoutSeconds == nil {
			o.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{
				TimeoutSeconds: new(corev1.DefaultClientIPServiceAffinitySeconds),
			}}
		}
	}
}

func trafficPolicies(o *corev1.ServiceSpec) {
	external := o.Type == corev1.ServiceTypeNodePort || o.Type == corev1.ServiceTypeLoadBalancer
	reachable := external || o.Type == corev1.ServiceTypeClusterIP && len(o.ExternalIPs) > 0
	if reachable && o.ExternalTrafficPolicy == "" {
		o.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyCluster
	}
	if o.InternalTrafficPolicy == nil && (external || o.Type == corev1.ServiceTypeClusterIP) {
		o.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyCluster)
	}
}

func setServicePort(o *corev1.ServicePort) {
	if o.TargetPort == intstr.FromInt32(0) || o.TargetPort == intstr.FromString("") {
		o.TargetPort = intstr.FromInt32(o.Port)
	}
}

// setReplicationController takes selector and labels from the template.
func setReplicationController(o *corev1.ReplicationController) {
	if o.Spec.Template == nil || o.Spec.Template.Labels == nil {
		return
	}
	if len(o.Spec.Selector) == 0 {
		o.Spec.Selector = maps.Clone(o.Spec.Template.Labels)
	}
	if len(o.Labels) == 0 {
		o.Labels = maps.Clone(o.Spec.Template.Labels)
	}
}

func setPersistentVolume(o *corev1.PersistentVolume) {
	if o.Status.Phase == "" {
		o.Status.Phase = corev1.VolumePending
	}
}

func setPersistentVolumeClaim(o *corev1.PersistentVolumeClaim) {
	if o.Status.Phase == "" {
		o.Status.Phase = corev1.ClaimPending
	}
}

// setLimitRangeItem derives the defaults of containers from each other: the
// limit from the maximum, the request from the limit or the minimum.
func setLimitRangeItem(o *corev1.LimitRangeItem) {
	if o.Type != corev1.LimitTypeContainer {
		return
	}
	if o.Default == nil {
		o.Default = corev1.ResourceList{}
	}
	if o.DefaultRequest == nil {
		o.DefaultRequest = corev1.ResourceList{}
	}
	fill(o.Default, o.Max)
	fill(o.DefaultRequest, o.Default)
	fill(o.DefaultRequest, o.Min)
}
