package registry

import (
	"fmt"
	"net/netip"

	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
)

// networkKindRules are those of the addresses that a cluster gives out.
func networkKindRules(rules map[*schema.Resource]*rule) {
	ingressRules(rules)
	rules[schema.ResourceFor[*networkingv1.NetworkPolicy]()] = networkPolicyRule()
	sliceRule(rules[schema.ResourceFor[*discoveryv1.EndpointSlice]()])
	rules[schema.ResourceFor[*networkingv1.IPAddress]()] = &rule{
		name:         addressName,
		ownImmutable: true,
		validate: func(o schema.Object) field.ErrorList {
			return parentErrors(o.(*networkingv1.IPAddress).Spec.ParentRef, field.NewPath("spec", "parentRef"))
		},
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			is, was := o.(*networkingv1.IPAddress).Spec.ParentRef, old.(*networkingv1.IPAddress).Spec.ParentRef
			if apiequality.Semantic.DeepEqual(is, was) {
				return nil
			}
			return field.ErrorList{field.Invalid(field.NewPath("spec", "parentRef"), is, immutableField)}
		},
	}
	rules[schema.ResourceFor[*networkingv1.ServiceCIDR]()] = &rule{
		status: func(o, old schema.Object) { resetMeta(o, old) },
		validate: func(o schema.Object) field.ErrorList {
			return serviceCIDRErrors(o.(*networkingv1.ServiceCIDR).Spec.CIDRs, field.NewPath("spec", "cidrs"))
		},
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return serviceCIDRUpdateErrors(o.(*networkingv1.ServiceCIDR).Spec.CIDRs, old.(*networkingv1.ServiceCIDR).Spec.CIDRs)
		},
	}
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
				errs = append(errs, field.Invalid(at.Index(i), is[i], immutableField))
			}
		}
	case len(was) == 1 && len(is) == 2:
		if is[0] != was[0] {
			errs = append(errs, field.Invalid(at.Index(0), is[0], immutableField))
		}
	default:
		errs = append(errs, field.Invalid(at, is, immutableField))
	}
	return errs
}

// keepField forbids a change of a field.
func keepField(at *field.Path, is, was any) field.ErrorList {
	if apiequality.Semantic.DeepEqual(is, was) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, is, immutableField)}
}

// tooLong says that a text is longer than a limit.
func tooLong(at *field.Path, s string, limit int) field.ErrorList {
	if len(s) <= limit {
		return nil
	}
	return field.ErrorList{field.Invalid(at, s, fmt.Sprintf("must be %d characters or less", limit))}
}
