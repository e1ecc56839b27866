package resource

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// dropOffFields removes what upstream's feature gates keep off in this version,
// unless it is there already: lists as attributes, and devices that stand for
// resources of their node.
func dropOffFields(s, old *resourcev1.ResourceSliceSpec) {
	lists, mappings := false, false
	if old != nil {
		for i := range old.Devices {
			mappings = mappings || len(old.Devices[i].NodeAllocatableResourceMappings) > 0
			for _, a := range old.Devices[i].Attributes {
				lists = lists || hasLists(&a)
			}
		}
	}
	for i := range s.Devices {
		d := &s.Devices[i]
		if !mappings {
			d.NodeAllocatableResourceMappings = nil
		}
		for name, a := range d.Attributes {
			if !lists && hasLists(&a) {
				a.BoolValues, a.IntValues, a.StringValues, a.VersionValues = nil, nil, nil, nil
				d.Attributes[name] = a
			}
		}
	}
}

func hasLists(a *resourcev1.DeviceAttribute) bool {
	return a.BoolValues != nil || a.IntValues != nil || a.StringValues != nil || a.VersionValues != nil
}

// attributeValues counts values, each of a list.
func attributeValues(d *resourcev1.Device) int {
	n := 0
	for _, a := range d.Attributes {
		n += max(1, len(a.BoolValues)+len(a.IntValues)+len(a.StringValues)+len(a.VersionValues))
	}
	return n
}

// qualifiedErrors checks the name of an attribute or a capacity, which may have
// a domain. Upstream has yet to refuse more than one slash.
func qualifiedErrors(name string, at *field.Path) field.ErrorList {
	if strings.Contains(name, "/") {
		return attributeErrors(name, at)
	}
	return identifierErrors(name, at)
}

// shortened is a key in a path: not longer than a good one, cut in its middle.
func shortened(key string) string {
	const most, dots = resourcev1.DeviceMaxDomainLength + 1 + resourcev1.DeviceMaxIDLength, "..."
	if len(key) <= most {
		return key
	}
	rest := most - len(dots)
	return key[:(rest+1)/2] + dots + key[len(key)-rest/2:]
}

// semver is what semver.org, 2.0.0, calls a version.
var semver = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)` +
	`(-(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)(\.(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*))*)?` +
	`(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$`)

// deviceAttributeErrors: an attribute has one value, or one list of them.
func deviceAttributeErrors(a *resourcev1.DeviceAttribute, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	n := 0
	text := func(at *field.Path, s string, version bool) {
		if version && !semver.MatchString(s) {
			errs = append(errs, field.Invalid(at, s, "must be a string compatible with semver.org spec 2.0.0"))
		}
		if len(s) > resourcev1.DeviceAttributeMaxValueLength {
			errs = append(errs, field.TooLong(at, "", resourcev1.DeviceAttributeMaxValueLength))
		}
	}
	for _, set := range []bool{a.BoolValue != nil, a.IntValue != nil, a.StringValue != nil, a.VersionValue != nil, a.BoolValues != nil, a.IntValues != nil, a.StringValues != nil, a.VersionValues != nil} {
		if set {
			n++
		}
	}
	if a.StringValue != nil {
		text(at.Child("string"), *a.StringValue, false)
	}
	if a.VersionValue != nil {
		text(at.Child("version"), *a.VersionValue, true)
	}
	empty := func(name string, set bool, length int, v any) {
		if set && length == 0 {
			errs = append(errs, field.Invalid(at.Child(name), v, "must not be empty if specified"))
		}
	}
	empty("bools", a.BoolValues != nil, len(a.BoolValues), a.BoolValues)
	empty("ints", a.IntValues != nil, len(a.IntValues), a.IntValues)
	empty("strings", a.StringValues != nil, len(a.StringValues), a.StringValues)
	for i, s := range a.StringValues {
		text(at.Child("strings").Index(i), s, false)
	}
	empty("versions", a.VersionValues != nil, len(a.VersionValues), a.VersionValues)
	for i, s := range a.VersionValues {
		text(at.Child("versions").Index(i), s, true)
	}
	switch n {
	case 0:
		return append(errs, field.Invalid(at, "", "exactly one value must be specified"))
	case 1:
		return errs
	}
	return append(errs, field.Invalid(at, *a, "exactly one value must be specified"))
}

// deviceCapacityErrors checks how much of a capacity may be asked for, where
// several may share a device.
func deviceCapacityErrors(c *resourcev1.DeviceCapacity, shared bool, at *field.Path) field.ErrorList {
	p := c.RequestPolicy
	at = at.Child("requestPolicy")
	switch {
	case p == nil:
		return nil
	case !shared:
		return field.ErrorList{field.Forbidden(at, "allowMultipleAllocations must be true")}
	case len(p.ValidValues) > 0 && p.ValidRange != nil:
		return field.ErrorList{field.Forbidden(at, `exactly one policy can be specified, cannot specify "validValues" and "validRange" at the same time`)}
	case len(p.ValidValues) > 0 && p.Default == nil:
		return field.ErrorList{field.Required(at.Child("default"), "required when validValues is defined")}
	case len(p.ValidValues) > 0:
		return policyValuesErrors(p.Default, &c.Value, p.ValidValues, at.Child("validValues"))
	case p.ValidRange != nil && p.Default == nil:
		return field.ErrorList{field.Required(at.Child("default"), "required when validRange is defined")}
	case p.ValidRange != nil:
		return policyRangeErrors(p.Default, &c.Value, p.ValidRange, at.Child("validRange"))
	}
	return nil
}

// maxPolicyValues is how many amounts a policy may name (upstream's
// CapacityRequestPolicyDiscreteMaxOptions, which is in no API package).
const maxPolicyValues = 10

func policyValuesErrors(first, most *resource.Quantity, values []resource.Quantity, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	for i := 1; i < len(values); i++ {
		if values[i-1].Cmp(values[i]) > 0 {
			errs = append(errs, field.Invalid(at.Index(i), values[i].String(), "values must be sorted in ascending order"))
		}
	}
	found := false
	errs = append(errs, listErrors(values, maxPolicyValues, at, func(q *resource.Quantity, at *field.Path) field.ErrorList {
		found = found || q.Cmp(*first) == 0
		if q.Cmp(*most) > 0 {
			return field.ErrorList{field.Invalid(at, q.String(), fmt.Sprintf("option is larger than capacity value: %s", most))}
		}
		return nil
	}, func(q resource.Quantity) string { return strconv.FormatInt(q.Value(), 10) })...)
	if !found {
		errs = append(errs, field.Invalid(at, first.String(), "default value is not valid according to the requestPolicy"))
	}
	return errs
}

func policyRangeErrors(first, most *resource.Quantity, r *resourcev1.CapacityRequestPolicyRange, at *field.Path) field.ErrorList {
	if r.Min == nil {
		return field.ErrorList{field.Required(at.Child("min"), "required when validRange is defined")}
	}
	var errs field.ErrorList
	above := func(name string, shown, a, b *resource.Quantity, text string) {
		if a.Cmp(*b) > 0 {
			errs = append(errs, field.Invalid(at.Child(name), shown.String(), text))
		}
	}
	above("min", r.Min, r.Min, most, fmt.Sprintf("min is larger than capacity value: %s", most))
	above("min", first, r.Min, first, fmt.Sprintf("default is less than min: %s", r.Min))
	if r.Max != nil {
		above("max", r.Min, r.Min, r.Max, fmt.Sprintf("min is larger than max: %s", r.Max))
		above("max", r.Max, r.Max, most, fmt.Sprintf("max is larger than capacity value: %s", most))
		above("max", first, first, r.Max, fmt.Sprintf("default is more than max: %s", r.Max))
	}
	if r.Step == nil {
		return errs
	}
	one := r.Min.DeepCopy()
	one.Add(*r.Step)
	above("step", r.Step, &one, most, fmt.Sprintf("one step %s is larger than capacity value: %s", &one, most))
	for _, q := range []*resource.Quantity{first, r.Max} {
		// Upstream divides by a step of 0 and answers 500 for the panic.
		if q != nil && (r.Step.Value() == 0 || (q.Value()-r.Min.Value())%r.Step.Value() != 0) {
			errs = append(errs, field.Invalid(at.Child("step"), q.String(), fmt.Sprintf("value is not a multiple of a given step (%s) from (%s)", r.Step, r.Min)))
		}
	}
	return errs
}
