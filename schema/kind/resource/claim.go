package resource

import (
	"fmt"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema/kind/valid"
)

// requestNames are the names of a claim's requests, and of the alternatives
// below those that have some.
type requestNames map[string]map[string]bool

func namesOf(c *resourcev1.DeviceClaim) requestNames {
	names := requestNames{}
	for _, r := range c.Requests {
		var subs map[string]bool
		for _, s := range r.FirstAvailable {
			if subs == nil {
				subs = map[string]bool{}
			}
			subs[s.Name] = true
		}
		names[r.Name] = subs
	}
	return names
}

func (n requestNames) has(name string) bool {
	request, sub, below := strings.Cut(name, "/")
	subs, ok := n[request]
	return ok && (!below || subs[sub])
}

// deviceClaimErrors checks which devices a new claim asks for.
func deviceClaimErrors(c *resourcev1.DeviceClaim, at *field.Path) field.ErrorList {
	names := namesOf(c)
	errs := listErrors(c.Requests, resourcev1.DeviceRequestsMaxSize, at.Child("requests"), deviceRequestErrors,
		func(r resourcev1.DeviceRequest) string { return r.Name })
	errs = append(errs, listErrors(c.Constraints, resourcev1.DeviceConstraintsMaxSize, at.Child("constraints"), func(k *resourcev1.DeviceConstraint, at *field.Path) field.ErrorList {
		errs := namesErrors(k.Requests, names, at.Child("requests"))
		switch {
		case k.MatchAttribute != nil:
			return append(errs, attributeErrors(string(*k.MatchAttribute), at.Child("matchAttribute"))...)
		case k.DistinctAttribute != nil:
			return append(errs, attributeErrors(string(*k.DistinctAttribute), at.Child("distinctAttribute"))...)
		}
		return append(errs, field.Required(at, `exactly one of "matchAttribute" or "distinctAttribute" is required, but multiple fields are set`)) // upstream's text
	}, nil)...)
	return append(errs, listErrors(c.Config, resourcev1.DeviceConfigMaxSize, at.Child("config"), func(k *resourcev1.DeviceClaimConfiguration, at *field.Path) field.ErrorList {
		return append(namesErrors(k.Requests, names, at.Child("requests")), deviceConfigErrors(&k.DeviceConfiguration, false, at)...)
	}, nil)...)
}

// listErrors checks the elements of a list, and with a key that it says nothing
// twice. Of one that is too long nothing else is said.
func listErrors[T any](list []T, most int, at *field.Path, check func(*T, *field.Path) field.ErrorList, key func(T) string) field.ErrorList {
	if len(list) > most {
		return field.ErrorList{field.TooMany(at, len(list), most)}
	}
	var errs field.ErrorList
	for i := range list {
		errs = append(errs, check(&list[i], at.Index(i))...)
	}
	if key == nil {
		return errs
	}
	seen := map[string]bool{}
	for i := range list {
		k := key(list[i])
		if seen[k] {
			errs = append(errs, field.Duplicate(at.Index(i), k))
		}
		seen[k] = true
	}
	return errs
}

func deviceRequestErrors(r *resourcev1.DeviceRequest, at *field.Path) field.ErrorList {
	errs := valid.InvalidAll(at.Child("name"), r.Name, validation.IsDNS1123Label(r.Name))
	const one = "exactly one of `exactly` or `firstAvailable` is required"
	switch e := r.Exactly; {
	case e == nil && len(r.FirstAvailable) == 0:
		return append(errs, field.Required(at, one))
	case e != nil && len(r.FirstAvailable) > 0:
		return append(errs, field.Invalid(at, nil, one+", but multiple fields are set"))
	case e != nil:
		return append(errs, askedErrors(e.DeviceClassName, e.Selectors, e.AllocationMode, e.Count, e.Tolerations, at.Child("exactly"))...)
	}
	return append(errs, listErrors(r.FirstAvailable, resourcev1.FirstAvailableDeviceRequestMaxSize, at.Child("firstAvailable"), func(s *resourcev1.DeviceSubRequest, at *field.Path) field.ErrorList {
		errs := valid.InvalidAll(at.Child("name"), s.Name, validation.IsDNS1123Label(s.Name))
		return append(errs, askedErrors(s.DeviceClassName, s.Selectors, s.AllocationMode, s.Count, s.Tolerations, at)...)
	}, func(s resourcev1.DeviceSubRequest) string { return s.Name })...)
}

// askedErrors checks what requests and their alternatives have in common.
func askedErrors(class string, selectors []resourcev1.DeviceSelector, mode resourcev1.DeviceAllocationMode, count int64, tolerations []resourcev1.DeviceToleration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if class == "" {
		errs = append(errs, field.Required(at.Child("deviceClassName"), ""))
	} else {
		errs = append(errs, valid.InvalidAll(at.Child("deviceClassName"), class, validation.IsDNS1123Subdomain(class))...)
	}
	errs = append(errs, deviceSelectorErrors(selectors, false, at.Child("selectors"))...)
	switch {
	case mode == resourcev1.DeviceAllocationModeAll && count != 0:
		errs = append(errs, field.Invalid(at.Child("count"), count, fmt.Sprintf("must not be specified when allocationMode is '%s'", mode)))
	case mode == resourcev1.DeviceAllocationModeExactCount && count <= 0:
		errs = append(errs, field.Invalid(at.Child("count"), count, "must be greater than zero"))
	case mode != resourcev1.DeviceAllocationModeAll && mode != resourcev1.DeviceAllocationModeExactCount:
		errs = append(errs, field.NotSupported(at.Child("allocationMode"), mode, []resourcev1.DeviceAllocationMode{resourcev1.DeviceAllocationModeAll, resourcev1.DeviceAllocationModeExactCount}))
	}
	for i := range tolerations {
		errs = append(errs, deviceTolerationErrors(&tolerations[i], at.Child("tolerations").Index(i))...)
	}
	return errs
}

func deviceTolerationErrors(t *resourcev1.DeviceToleration, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if t.Key != "" {
		errs = append(errs, metav1validation.ValidateLabelName(t.Key, at.Child("key"))...)
	}
	switch t.Operator {
	case resourcev1.DeviceTolerationOpExists:
		if t.Value != "" {
			errs = append(errs, field.Invalid(at.Child("value"), t.Value, "must be empty for operator `Exists`"))
		}
	case resourcev1.DeviceTolerationOpEqual:
		errs = append(errs, valid.InvalidAll(at.Child("value"), t.Value, validation.IsValidLabelValue(t.Value))...)
	case "":
		errs = append(errs, field.Required(at.Child("operator"), ""))
	default:
		errs = append(errs, field.NotSupported(at.Child("operator"), t.Operator, []resourcev1.DeviceTolerationOperator{resourcev1.DeviceTolerationOpEqual, resourcev1.DeviceTolerationOpExists}))
	}
	switch t.Effect {
	case "", resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone:
	default:
		errs = append(errs, field.NotSupported(at.Child("effect"), t.Effect,
			[]resourcev1.DeviceTaintEffect{resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone}))
	}
	return errs
}

// namesErrors checks references to requests.
func namesErrors(refs []string, names requestNames, at *field.Path) field.ErrorList {
	const want = "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'"
	return listErrors(refs, resourcev1.DeviceRequestsMaxSize, at, func(name *string, at *field.Path) field.ErrorList {
		parts := strings.Split(*name, "/")
		if len(parts) > 2 {
			return field.ErrorList{field.Invalid(at, *name, want)}
		}
		var errs field.ErrorList
		for _, part := range parts {
			errs = append(errs, valid.InvalidAll(at, part, validation.IsDNS1123Label(part))...)
		}
		if !names.has(*name) {
			errs = append(errs, field.Invalid(at, *name, want))
		}
		return errs
	}, func(name string) string { return name })
}

// attributeErrors checks the name of an attribute with its domain.
func attributeErrors(name string, at *field.Path) field.ErrorList {
	domain, id, full := strings.Cut(name, "/")
	if !full {
		return append(identifierErrors(name, at), field.Invalid(at, name, "a fully qualified name must be a domain and a name separated by a slash"))
	}
	if strings.Contains(id, "/") {
		return nil // upstream has yet to refuse it
	}
	var errs field.ErrorList
	if domain == "" {
		errs = append(errs, field.Invalid(at, "", "the domain must not be empty"))
	} else {
		errs = append(errs, valid.DriverName(domain, at)...)
	}
	if id == "" {
		return append(errs, field.Invalid(at, "", "the name must not be empty"))
	}
	return append(errs, identifierErrors(id, at)...)
}

func identifierErrors(id string, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if len(id) > resourcev1.DeviceMaxIDLength {
		errs = append(errs, field.TooLong(at, "", resourcev1.DeviceMaxIDLength))
	}
	return append(errs, valid.InvalidAll(at, id, validation.IsCIdentifier(id))...)
}
