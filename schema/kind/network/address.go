package network

import (
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/valid"
)

// IPAddress is the judge of its kind.
var IPAddress = &kind.Kind{
	Resource:     schema.ResourceFor[*networkingv1.IPAddress](),
	Name:         addressName,
	OwnImmutable: true,
	Validate: func(o schema.Object) field.ErrorList {
		return parentErrors(o.(*networkingv1.IPAddress).Spec.ParentRef, field.NewPath("spec", "parentRef"))
	},
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		is, was := o.(*networkingv1.IPAddress).Spec.ParentRef, old.(*networkingv1.IPAddress).Spec.ParentRef
		if apiequality.Semantic.DeepEqual(is, was) {
			return nil
		}
		return field.ErrorList{field.Invalid(field.NewPath("spec", "parentRef"), is, valid.Immutable)}
	},
}

// ServiceCIDR is the judge of its kind.
var ServiceCIDR = &kind.Kind{
	Resource:      schema.ResourceFor[*networkingv1.ServiceCIDR](),
	PrepareStatus: func(o, old schema.Object) { valid.ResetMeta(o, old) },
	Validate: func(o schema.Object) field.ErrorList {
		return serviceCIDRErrors(o.(*networkingv1.ServiceCIDR).Spec.CIDRs, field.NewPath("spec", "cidrs"))
	},
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return serviceCIDRUpdateErrors(o.(*networkingv1.ServiceCIDR).Spec.CIDRs, old.(*networkingv1.ServiceCIDR).Spec.CIDRs)
	},
}

// addressName wants an address in the form in which it is always written.
func addressName(name string, _ bool) []string {
	a, err := netip.ParseAddr(name)
	if err != nil {
		return []string{"must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"}
	}
	if a.String() != name || a.Is4In6() {
		return []string{"must be a canonical format IP address"}
	}
	return nil
}

func parentErrors(p *networkingv1.ParentReference, at *field.Path) field.ErrorList {
	if p == nil {
		return field.ErrorList{field.Required(at, "")}
	}
	var errs field.ErrorList
	if p.Group != "" {
		for _, msg := range validation.IsDNS1123Subdomain(p.Group) {
			errs = append(errs, field.Invalid(at.Child("group"), p.Group, msg))
		}
	}
	segment := func(name, value string, required bool) {
		if value == "" {
			if required {
				errs = append(errs, field.Required(at.Child(name), ""))
			}
			return
		}
		for _, msg := range content.IsPathSegmentName(value) {
			errs = append(errs, field.Invalid(at.Child(name), value, msg))
		}
	}
	segment("resource", p.Resource, true)
	segment("name", p.Name, true)
	segment("namespace", p.Namespace, false)
	return errs
}

func serviceCIDRErrors(cidrs []string, at *field.Path) field.ErrorList {
	switch {
	case len(cidrs) == 0:
		return field.ErrorList{field.Required(at, "at least one CIDR required")}
	case len(cidrs) > 2:
		return field.ErrorList{field.Invalid(at, cidrs, "may only hold up to 2 values")}
	}
	var errs field.ErrorList
	families := map[bool]int{}
	for i, c := range cidrs {
		errs = append(errs, validation.IsValidCIDR(at.Index(i), c)...)
		if p, err := netip.ParsePrefix(c); err == nil {
			families[p.Addr().Is4()]++
		}
	}
	if families[true] > 1 || families[false] > 1 {
		errs = append(errs, field.Invalid(at, cidrs, "may specify no more than one IP for each IP family, i.e 192.168.0.0/24 and 2001:db8::/64"))
	}
	return errs
}

// serviceCIDRUpdateErrors: a range stays; one of the other family may join it.
func serviceCIDRUpdateErrors(is, was []string) field.ErrorList {
	at := field.NewPath("spec", "cidrs")
	var errs field.ErrorList
	switch {
	case len(is) == len(was):
		for i := range was {
			if is[i] != was[i] {
				errs = append(errs, field.Invalid(at.Index(i), is[i], valid.Immutable))
			}
		}
	case len(was) == 1 && len(is) == 2:
		if is[0] != was[0] {
			errs = append(errs, field.Invalid(at.Index(0), is[0], valid.Immutable))
		}
	default:
		errs = append(errs, field.Invalid(at, is, valid.Immutable))
	}
	return errs
}
