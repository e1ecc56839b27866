package network

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	netutils "k8s.io/utils/net"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/valid"
)

const ingressClassAnnotation = "kubernetes.io/ingress.class"

// Ingress is the judge of its kind.
var Ingress = &kind.Kind{
	Resource:   schema.ResourceFor[*networkingv1.Ingress](),
	Generation: true, OwnSchema: true,
	ValidateCreate: func(o schema.Object) field.ErrorList {
		in := o.(*networkingv1.Ingress)
		errs := ingressErrors(&in.Spec, nil)
		if class, is := in.Annotations[ingressClassAnnotation]; is && in.Spec.IngressClassName != nil && *in.Spec.IngressClassName != class {
			errs = append(errs, field.Invalid(field.NewPath("annotations").Child(ingressClassAnnotation), class, "must match `ingressClassName` when both are specified"))
		}
		return errs
	},
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return ingressErrors(&o.(*networkingv1.Ingress).Spec, &old.(*networkingv1.Ingress).Spec)
	},
	ValidateDoor: func(_ string, o, old schema.Object) field.ErrorList {
		return ingressStatusErrors(&o.(*networkingv1.Ingress).Status.LoadBalancer, &old.(*networkingv1.Ingress).Status.LoadBalancer)
	},
}

// IngressClass is the judge of its kind.
var IngressClass = &kind.Kind{
	Resource:   schema.ResourceFor[*networkingv1.IngressClass](),
	Generation: true, OwnImmutable: true, OwnSchema: true,
	Validate: func(o schema.Object) field.ErrorList { return ingressClassErrors(&o.(*networkingv1.IngressClass).Spec) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return valid.Keep(field.NewPath("spec", "controller"), o.(*networkingv1.IngressClass).Spec.Controller, old.(*networkingv1.IngressClass).Spec.Controller)
	},
}

func ingressErrors(s, old *networkingv1.IngressSpec) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	if len(s.Rules) == 0 && s.DefaultBackend == nil {
		errs = append(errs, field.Invalid(at, s.Rules, "either `defaultBackend` or `rules` must be specified"))
	}
	if s.DefaultBackend != nil {
		errs = append(errs, backendErrors(s.DefaultBackend, at.Child("defaultBackend"))...)
	}
	for i := range s.Rules {
		r, at := &s.Rules[i], at.Child("rules").Index(i)
		if r.Host != "" {
			if netutils.ParseIPSloppy(r.Host) != nil {
				errs = append(errs, field.Invalid(at.Child("host"), r.Host, "must be a DNS name, not an IP address"))
			}
			errs = append(errs, hostErrors(r.Host, at.Child("host"))...)
		}
		if r.HTTP != nil {
			errs = append(errs, pathsErrors(r.HTTP.Paths, at.Child("http", "paths"))...)
		}
	}
	lenient := false
	if old != nil {
		for _, t := range old.TLS {
			lenient = lenient || t.SecretName != "" && len(validation.IsDNS1123Subdomain(t.SecretName)) > 0
		}
	}
	for i := range s.TLS {
		t, at := &s.TLS[i], at.Child("tls").Index(i)
		for j, host := range t.Hosts {
			errs = append(errs, hostErrors(host, at.Child("hosts").Index(j))...)
		}
		if t.SecretName != "" && !lenient {
			errs = append(errs, valid.InvalidAll(at.Child("secretName"), t.SecretName, validation.IsDNS1123Subdomain(t.SecretName))...)
		}
	}
	if n := s.IngressClassName; n != nil {
		errs = append(errs, valid.InvalidAll(at.Child("ingressClassName"), *n, validation.IsDNS1123Subdomain(*n))...)
	}
	return errs
}

// hostErrors checks the name of a host, which may begin with a wildcard.
func hostErrors(host string, at *field.Path) field.ErrorList {
	if strings.Contains(host, "*") {
		return valid.InvalidAll(at, host, validation.IsWildcardDNS1123Subdomain(host))
	}
	return valid.InvalidAll(at, host, validation.IsDNS1123Subdomain(host))
}

func pathsErrors(paths []networkingv1.HTTPIngressPath, at *field.Path) field.ErrorList {
	if len(paths) == 0 {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	for i := range paths {
		p, at := &paths[i], at.Index(i)
		if p.PathType == nil {
			errs = append(errs, field.Required(at.Child("pathType"), "pathType must be specified"))
			continue
		}
		absolute := strings.HasPrefix(p.Path, "/")
		switch *p.PathType {
		case networkingv1.PathTypeExact, networkingv1.PathTypePrefix:
			if !absolute {
				errs = append(errs, field.Invalid(at.Child("path"), p.Path, "must be an absolute path"))
			}
			for _, bad := range []string{"//", "/./", "/../", "%2f", "%2F"} {
				if strings.Contains(p.Path, bad) {
					errs = append(errs, field.Invalid(at.Child("path"), p.Path, fmt.Sprintf("must not contain '%s'", bad)))
				}
			}
			for _, bad := range []string{"/..", "/."} {
				if strings.HasSuffix(p.Path, bad) {
					errs = append(errs, field.Invalid(at.Child("path"), p.Path, fmt.Sprintf("cannot end with '%s'", bad)))
				}
			}
		case networkingv1.PathTypeImplementationSpecific:
			if p.Path != "" && !absolute {
				errs = append(errs, field.Invalid(at.Child("path"), p.Path, "must be an absolute path"))
			}
		default:
			errs = append(errs, valid.OneOf(p.PathType, at.Child("pathType"), "Exact", "ImplementationSpecific", "Prefix")...)
		}
		errs = append(errs, backendErrors(&p.Backend, at.Child("backend"))...)
	}
	return errs
}

func backendErrors(b *networkingv1.IngressBackend, at *field.Path) field.ErrorList {
	switch {
	case b.Resource != nil && b.Service != nil:
		return field.ErrorList{field.Invalid(at, "", "cannot set both resource and service backends")}
	case b.Resource != nil:
		return localRefErrors(b.Resource, at.Child("resource"))
	case b.Service == nil:
		return field.ErrorList{field.Invalid(at, "", "resource or service backend is required")}
	}
	var errs field.ErrorList
	s, service := b.Service, at.Child("service")
	if s.Name == "" {
		errs = append(errs, field.Required(service.Child("name"), ""))
	} else {
		errs = append(errs, valid.InvalidAll(service.Child("name"), s.Name, validation.IsDNS1123Label(s.Name))...)
	}
	switch named, numbered := s.Port.Name != "", s.Port.Number != 0; {
	case named && numbered:
		errs = append(errs, field.Invalid(at, "", "cannot set both port name & port number"))
	case named:
		errs = append(errs, valid.InvalidAll(service.Child("port", "name"), s.Port.Name, validation.IsValidPortName(s.Port.Name))...)
	case numbered:
		errs = append(errs, valid.InvalidAll(service.Child("port", "number"), s.Port.Number, validation.IsValidPortNum(int(s.Port.Number)))...)
	default:
		errs = append(errs, field.Required(at, "port name or number is required"))
	}
	return errs
}

func localRefErrors(r *corev1.TypedLocalObjectReference, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if r.APIGroup != nil {
		errs = valid.InvalidAll(at.Child("apiGroup"), *r.APIGroup, validation.IsDNS1123Subdomain(*r.APIGroup))
	}
	errs = append(errs, valid.Segment(r.Kind, at.Child("kind"))...)
	return append(errs, valid.Segment(r.Name, at.Child("name"))...)
}

func ingressStatusErrors(is, was *networkingv1.IngressLoadBalancerStatus) field.ErrorList {
	var had []string
	for _, in := range was.Ingress {
		had = append(had, in.IP)
	}
	var errs field.ErrorList
	for i, in := range is.Ingress {
		at := field.NewPath("status", "loadBalancer", "ingress").Index(i)
		if in.IP != "" {
			errs = append(errs, validation.IsValidIPForLegacyField(at.Child("ip"), in.IP, false, had)...)
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

func ingressClassErrors(s *networkingv1.IngressClassSpec) field.ErrorList {
	const longest = 250
	at := field.NewPath("spec")
	var errs field.ErrorList
	if len(s.Controller) > longest {
		errs = append(errs, field.TooLong(at.Child("controller"), "", longest))
	}
	errs = append(errs, validation.IsDomainPrefixedPath(at.Child("controller"), s.Controller)...)
	p := s.Parameters
	if p == nil {
		return errs
	}
	at = at.Child("parameters")
	errs = append(errs, localRefErrors(&corev1.TypedLocalObjectReference{APIGroup: p.APIGroup, Kind: p.Kind, Name: p.Name}, at)...)
	if p.Scope == nil {
		return append(errs, field.Required(at.Child("scope"), ""))
	}
	errs = append(errs, valid.OneOf(p.Scope, at.Child("scope"), "Cluster", "Namespace")...)
	switch cluster := *p.Scope == networkingv1.IngressClassParametersReferenceScopeCluster; {
	case cluster && p.Namespace != nil:
		errs = append(errs, field.Forbidden(at.Child("namespace"), "`parameters.scope` is set to 'Cluster'"))
	case *p.Scope != networkingv1.IngressClassParametersReferenceScopeNamespace:
	case p.Namespace == nil:
		errs = append(errs, field.Required(at.Child("namespace"), "`parameters.scope` is set to 'Namespace'"))
	default:
		errs = append(errs, valid.InvalidAll(at.Child("namespace"), *p.Namespace, validation.IsDNS1123Label(*p.Namespace))...)
	}
	return errs
}
