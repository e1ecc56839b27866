package registry

import (
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// deviceSliceErrors checks whose devices a slice lists, and where they are.
func deviceSliceErrors(s *resourcev1.ResourceSliceSpec) field.ErrorList {
	at := field.NewPath("spec")
	errs := driverNameErrors(s.Driver, at.Child("driver"))
	errs = append(errs, poolErrors(&s.Pool, at.Child("pool"))...)
	var where []string
	if n := s.NodeName; n != nil {
		if *n == "" {
			errs = append(errs, field.Invalid(at.Child("nodeName"), *n, "must be either unset or set to a non-empty string"))
		} else {
			where = append(where, "`nodeName`")
			errs = append(errs, invalidAll(at.Child("nodeName"), *n, validation.IsDNS1123Subdomain(*n))...)
		}
	}
	if s.NodeSelector != nil {
		where = append(where, "`nodeSelector`")
		if len(s.NodeSelector.NodeSelectorTerms) != 1 {
			errs = append(errs, field.Invalid(at.Child("nodeSelector", "nodeSelectorTerms"), s.NodeSelector.NodeSelectorTerms, "must have exactly one node selector term"))
		}
	}
	flag := func(v *bool, name string) {
		switch {
		case v == nil:
		case *v:
			where = append(where, "`"+name+"`")
		default:
			errs = append(errs, field.Invalid(at.Child(name), *v, "must be either unset or set to true"))
		}
	}
	flag(s.AllNodes, "allNodes")
	flag(s.PerDeviceNodeSelection, "perDeviceNodeSelection")
	const one = "exactly one of `nodeName`, `nodeSelector`, `allNodes`, `perDeviceNodeSelection` is required"
	switch len(where) {
	case 0:
		errs = append(errs, field.Required(at, one))
	case 1:
	default:
		errs = append(errs, field.Invalid(at, fmt.Sprintf("{%s}", strings.Join(where, ", ")), one+", but multiple fields are set"))
	}
	if s.SharedCounters != nil && s.Devices != nil {
		errs = append(errs, field.Invalid(at, "", "only one of `sharedCounters` or `devices` is allowed"))
	}
	return errs
}

func poolErrors(p *resourcev1.ResourcePool, at *field.Path) field.ErrorList {
	const longest = 253
	var errs field.ErrorList
	switch name := at.Child("name"); {
	case p.Name == "":
		errs = append(errs, field.Required(name, ""))
	default:
		if len(p.Name) > longest {
			errs = append(errs, field.TooLong(name, "", longest))
		}
		for part := range strings.SplitSeq(p.Name, "/") {
			errs = append(errs, invalidAll(name, part, validation.IsDNS1123Subdomain(part))...)
		}
	}
	if p.ResourceSliceCount <= 0 {
		errs = append(errs, field.Invalid(at.Child("resourceSliceCount"), p.ResourceSliceCount, "must be greater than zero"))
	}
	if p.Generation < 0 {
		errs = append(errs, field.Invalid(at.Child("generation"), p.Generation, "must be greater than or equal to zero"))
	}
	return errs
}
