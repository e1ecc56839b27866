package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/writ-os/writ/schema/kind/valid"
)

// serviceErrors is what upstream has against a Service, in its order. old is nil
// for a new one.
func serviceErrors(s, old *corev1.Service) field.ErrorList {
	at := field.NewPath("spec")
	spec := &s.Spec
	errs := hintErrors(s)
	if len(spec.Ports) == 0 && !Headless(s) && spec.Type != corev1.ServiceTypeExternalName {
		errs = append(errs, field.Required(at.Child("ports"), ""))
	}
	switch spec.Type {
	case corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeNodePort:
		if Headless(s) {
			errs = append(errs, field.Invalid(at.Child("clusterIPs").Index(0), spec.ClusterIPs[0], "may not be set to 'None' for "+string(spec.Type)+" services"))
		}
	case corev1.ServiceTypeExternalName:
		errs = append(errs, externalNameErrors(spec, at)...)
	}
	errs = append(errs, servicePortErrors(spec.Ports, at.Child("ports"))...)
	if spec.Selector != nil {
		errs = append(errs, metav1validation.ValidateLabels(spec.Selector, at.Child("selector"))...)
	}
	errs = append(errs, affinityErrors(spec, at)...)
	errs = append(errs, ClusterIPErrors(s, old)...)
	var hadIPs, hadRanges []string
	var hadRangeNote string
	if old != nil {
		hadIPs, hadRanges = old.Spec.ExternalIPs, trimmed(old.Spec.LoadBalancerSourceRanges)
		hadRangeNote = old.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	}
	for i, ip := range spec.ExternalIPs {
		bad := validation.IsValidIPForLegacyField(at.Child("externalIPs").Index(i), ip, false, hadIPs)
		if len(bad) == 0 {
			bad = EndpointIPErrors(ip, at.Child("externalIPs").Index(i))
		}
		errs = append(errs, bad...)
	}
	errs = append(errs, valid.Word(spec.Type, at.Child("type"), "ClusterIP", "ExternalName", "LoadBalancer", "NodePort")...)
	errs = append(errs, nodePortErrors(spec, at.Child("ports"))...)
	errs = append(errs, rangeErrors(s, hadRanges, hadRangeNote, at)...)
	if spec.AllocateLoadBalancerNodePorts != nil && spec.Type != corev1.ServiceTypeLoadBalancer {
		errs = append(errs, field.Forbidden(at.Child("allocateLoadBalancerNodePorts"), "may only be used when `type` is 'LoadBalancer'"))
	}
	if spec.AllocateLoadBalancerNodePorts == nil && spec.Type == corev1.ServiceTypeLoadBalancer {
		errs = append(errs, field.Required(field.NewPath("allocateLoadBalancerNodePorts"), ""))
	}
	errs = append(errs, balancerClassErrors(s, nil)...)
	return append(errs, trafficErrors(s, at)...)
}

func hintErrors(s *corev1.Service) field.ErrorList {
	hints, old := s.Annotations[corev1.DeprecatedAnnotationTopologyAwareHints]
	mode, is := s.Annotations[corev1.AnnotationTopologyMode]
	if !is || !old || mode == hints {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata", "annotations").Key(corev1.AnnotationTopologyMode), mode,
		"must match annotations["+corev1.DeprecatedAnnotationTopologyAwareHints+"] when both are specified")}
}

func externalNameErrors(spec *corev1.ServiceSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	const no = "may not be set for ExternalName services"
	if len(spec.ClusterIPs) > 0 {
		errs = append(errs, field.Forbidden(at.Child("clusterIPs"), no))
	}
	if len(spec.IPFamilies) > 0 {
		errs = append(errs, field.Forbidden(at.Child("ipFamilies"), no))
	}
	if spec.IPFamilyPolicy != nil {
		errs = append(errs, field.Forbidden(at.Child("ipFamilyPolicy"), no))
	}
	name := strings.TrimSuffix(spec.ExternalName, ".")
	if name == "" {
		return append(errs, field.Required(at.Child("externalName"), ""))
	}
	return append(errs, valid.InvalidAll(at.Child("externalName"), name, validation.IsDNS1123Subdomain(name))...)
}

func servicePortErrors(ports []corev1.ServicePort, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	names := map[string]bool{}
	for i := range ports {
		p, at := &ports[i], at.Index(i)
		switch {
		case p.Name != "":
			errs = append(errs, valid.InvalidAll(at.Child("name"), p.Name, validation.IsDNS1123Label(p.Name))...)
			if names[p.Name] {
				errs = append(errs, field.Duplicate(at.Child("name"), p.Name))
			}
			names[p.Name] = true
		case len(ports) > 1:
			errs = append(errs, field.Required(at.Child("name"), ""))
		}
		errs = append(errs, valid.InvalidAll(at.Child("port"), p.Port, validation.IsValidPortNum(int(p.Port)))...)
		errs = append(errs, valid.Word(p.Protocol, at.Child("protocol"), corev1.ProtocolSCTP, corev1.ProtocolTCP, corev1.ProtocolUDP)...)
		errs = append(errs, portRefErrors(p.TargetPort, at.Child("targetPort"))...)
		if p.AppProtocol != nil {
			errs = append(errs, valid.InvalidAll(at.Child("appProtocol"), *p.AppProtocol, content.IsLabelKey(*p.AppProtocol))...)
		}
	}
	return errs
}

// portRefErrors checks the number or the name of a port.
func portRefErrors(p intstr.IntOrString, at *field.Path) field.ErrorList {
	if p.Type == intstr.Int {
		return valid.InvalidAll(at, p.IntValue(), validation.IsValidPortNum(p.IntValue()))
	}
	return valid.InvalidAll(at, p.StrVal, validation.IsValidPortName(p.StrVal))
}

func affinityErrors(spec *corev1.ServiceSpec, at *field.Path) field.ErrorList {
	errs := valid.Word(spec.SessionAffinity, at.Child("sessionAffinity"), corev1.ServiceAffinityClientIP, corev1.ServiceAffinityNone)
	at = at.Child("sessionAffinityConfig")
	c := spec.SessionAffinityConfig
	switch spec.SessionAffinity {
	case corev1.ServiceAffinityNone:
		if c != nil {
			errs = append(errs, field.Forbidden(at, "must not be set when session affinity is None"))
		}
	case corev1.ServiceAffinityClientIP:
		switch {
		case c == nil:
			errs = append(errs, field.Required(at, "when session affinity type is ClientIP"))
		case c.ClientIP == nil:
			errs = append(errs, field.Required(at.Child("clientIP"), "when session affinity type is ClientIP"))
		case c.ClientIP.TimeoutSeconds == nil:
			errs = append(errs, field.Required(at.Child("clientIP", "timeoutSeconds"), "when session affinity type is ClientIP"))
		case *c.ClientIP.TimeoutSeconds <= 0 || *c.ClientIP.TimeoutSeconds > 86400:
			errs = append(errs, field.Invalid(at.Child("clientIP", "timeoutSeconds"), *c.ClientIP.TimeoutSeconds, "must be greater than 0 and less than 86400"))
		}
	}
	return errs
}

func nodePortErrors(spec *corev1.ServiceSpec, at *field.Path) field.ErrorList {
	type id struct {
		protocol corev1.Protocol
		port     int32
	}
	var errs field.ErrorList
	if spec.Type == corev1.ServiceTypeClusterIP {
		for i, p := range spec.Ports {
			if p.NodePort != 0 {
				errs = append(errs, field.Forbidden(at.Index(i).Child("nodePort"), "may not be used when `type` is 'ClusterIP'"))
			}
		}
	}
	seen := map[id]bool{}
	for i, p := range spec.Ports {
		if n := (id{p.Protocol, p.NodePort}); p.NodePort != 0 {
			if seen[n] {
				errs = append(errs, field.Duplicate(at.Index(i).Child("nodePort"), p.NodePort))
			}
			seen[n] = true
		}
	}
	clear(seen)
	for i, p := range spec.Ports {
		n := id{p.Protocol, p.Port}
		if seen[n] {
			errs = append(errs, field.Duplicate(at.Index(i), internalPort(p.Protocol, p.Port)))
		}
		seen[n] = true
	}
	return errs
}

// internalPort is how upstream's texts show a port.
func internalPort(protocol corev1.Protocol, port int32) any {
	return struct {
		Name        string
		Protocol    corev1.Protocol
		AppProtocol *string
		Port        int32
		TargetPort  int32
		NodePort    int32
	}{Protocol: protocol, Port: port}
}

func trimmed(in []string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = strings.TrimSpace(s)
	}
	return out
}

// rangeErrors checks who may reach a load balancer: the field, or without it the
// annotation that was there before the field.
func rangeErrors(s *corev1.Service, had []string, hadNote string, at *field.Path) field.ErrorList {
	const no = "may only be used when `type` is 'LoadBalancer'"
	var errs field.ErrorList
	balancer := s.Spec.Type == corev1.ServiceTypeLoadBalancer
	if len(s.Spec.LoadBalancerSourceRanges) > 0 {
		at := at.Child("LoadBalancerSourceRanges") // as upstream spells it
		if !balancer {
			errs = append(errs, field.Forbidden(at, no))
		}
		for i, v := range trimmed(s.Spec.LoadBalancerSourceRanges) {
			errs = append(errs, validation.IsValidCIDRForLegacyField(at.Index(i), v, false, had)...)
		}
		return errs
	}
	note, is := s.Annotations[corev1.AnnotationLoadBalancerSourceRangesKey]
	if !is {
		return nil
	}
	at = field.NewPath("metadata", "annotations").Key(corev1.AnnotationLoadBalancerSourceRangesKey)
	if !balancer {
		errs = append(errs, field.Forbidden(at, no))
	}
	if note = strings.TrimSpace(note); note == "" || note == strings.TrimSpace(hadNote) {
		return errs
	}
	for _, v := range trimmed(strings.Split(note, ",")) {
		errs = append(errs, validation.IsValidCIDRForLegacyField(at, v, false, nil)...)
	}
	return errs
}

// balancerClassErrors checks the class of a load balancer, which stays.
func balancerClassErrors(s, old *corev1.Service) field.ErrorList {
	at := field.NewPath("spec", "loadBalancerClass")
	class := s.Spec.LoadBalancerClass
	var errs field.ErrorList
	if s.Spec.Type != corev1.ServiceTypeLoadBalancer {
		if class != nil {
			errs = append(errs, field.Forbidden(at, "may only be used when `type` is 'LoadBalancer'"))
		}
		return errs
	}
	if old != nil && old.Spec.Type == s.Spec.Type && ((old.Spec.LoadBalancerClass == nil) != (class == nil) || valid.Deref(old.Spec.LoadBalancerClass) != valid.Deref(class)) {
		errs = append(errs, field.Invalid(at, class, "may not change once set"))
	}
	if class != nil {
		errs = append(errs, valid.InvalidAll(at, *class, content.IsLabelKey(*class))...)
	}
	return errs
}

func trafficErrors(s *corev1.Service, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	external := s.Spec.ExternalTrafficPolicy
	switch {
	case TakesTraffic(s):
		errs = valid.Word(external, at.Child("externalTrafficPolicy"), corev1.ServiceExternalTrafficPolicyCluster, corev1.ServiceExternalTrafficPolicyLocal)
	case external != "":
		errs = append(errs, field.Invalid(at.Child("externalTrafficPolicy"), external, "may only be set for externally-accessible services"))
	}
	health := at.Child("healthCheckNodePort")
	switch p := s.Spec.HealthCheckNodePort; {
	case !NeedsHealthPort(s):
		if p != 0 {
			errs = append(errs, field.Invalid(health, p, "may only be set when `type` is 'LoadBalancer' and `externalTrafficPolicy` is 'Local'"))
		}
	case p == 0:
		errs = append(errs, field.Required(health, ""))
	default:
		errs = append(errs, valid.InvalidAll(health, p, validation.IsValidPortNum(int(p)))...)
	}
	internal := at.Child("internalTrafficPolicy")
	switch p := s.Spec.InternalTrafficPolicy; {
	case p != nil:
		errs = append(errs, valid.OneOf(p, internal, "Cluster", "Local")...)
	case s.Spec.Type == corev1.ServiceTypeClusterIP || MayHaveNodePorts(s):
		errs = append(errs, field.Required(internal, ""))
	}
	return append(errs, valid.OneOf(s.Spec.TrafficDistribution, at.Child("trafficDistribution"),
		corev1.ServiceTrafficDistributionPreferClose, corev1.ServiceTrafficDistributionPreferSameZone, corev1.ServiceTrafficDistributionPreferSameNode)...)
}

// loadBalancerErrors checks what a load balancer says of itself.
func loadBalancerErrors(is, was *corev1.LoadBalancerStatus, kind corev1.ServiceType, at *field.Path) field.ErrorList {
	at = at.Child("ingress")
	if kind != corev1.ServiceTypeLoadBalancer && len(is.Ingress) > 0 {
		return field.ErrorList{field.Forbidden(at, "may only be used when `spec.type` is 'LoadBalancer'")}
	}
	var had []string
	for _, in := range was.Ingress {
		had = append(had, in.IP)
	}
	var errs field.ErrorList
	for i, in := range is.Ingress {
		at := at.Index(i)
		if in.IP != "" {
			errs = append(errs, validation.IsValidIPForLegacyField(at.Child("ip"), in.IP, false, had)...)
		}
		switch {
		case in.IPMode == nil && in.IP != "":
			errs = append(errs, field.Required(at.Child("ipMode"), "must be specified when `ip` is set"))
		case in.IPMode != nil && in.IP == "":
			errs = append(errs, field.Forbidden(at.Child("ipMode"), "may not be specified when `ip` is not set"))
		default:
			errs = append(errs, valid.OneOf(in.IPMode, at.Child("ipMode"), "Proxy", "VIP")...)
		}
		if in.Hostname != "" {
			errs = append(errs, valid.InvalidAll(at.Child("hostname"), in.Hostname, validation.IsDNS1123Subdomain(in.Hostname))...)
			if netutils.ParseIPSloppy(in.Hostname) != nil {
				errs = append(errs, field.Invalid(at.Child("hostname"), in.Hostname, "must be a DNS name, not an IP address"))
			}
		}
	}
	return errs
}

// EndpointIPErrors checks that packets to an address leave the host.
func EndpointIPErrors(s string, at *field.Path) field.ErrorList {
	ip := netutils.ParseIPSloppy(s)
	if ip == nil {
		return field.ErrorList{field.Invalid(at, s, "must be a valid IP address")}
	}
	var errs field.ErrorList
	no := func(is bool, what string) {
		if is {
			errs = append(errs, field.Invalid(at, s, what))
		}
	}
	no(ip.IsUnspecified(), fmt.Sprintf("may not be unspecified (%v)", s))
	no(ip.IsLoopback(), "may not be in the loopback range (127.0.0.0/8, ::1/128)")
	no(ip.IsLinkLocalUnicast(), "may not be in the link-local range (169.254.0.0/16, fe80::/10)")
	no(ip.IsLinkLocalMulticast(), "may not be in the link-local multicast range (224.0.0.0/24, ff02::/10)")
	return errs
}
