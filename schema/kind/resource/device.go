package resource

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema/kind/core"
	"github.com/writ-os/writ/schema/kind/valid"
)

// deviceErrors checks one device of a slice. Old is nil where there was none.
// Maps are gone through in the order of their keys; upstream's order is chance.
func deviceErrors(d, old *resourcev1.Device, ownNodes bool, at *field.Path) field.ErrorList {
	errs := valid.InvalidAll(at.Child("name"), d.Name, validation.IsDNS1123Label(d.Name))
	if n, most := len(d.Attributes)+len(d.Capacity), resourcev1.ResourceSliceMaxAttributesAndCapacitiesPerDevice; n > most {
		errs = append(errs, field.Invalid(at, n, fmt.Sprintf("the total number of attributes and capacities must not exceed %d", most)))
	}
	if n, most := attributeValues(d), resourcev1.ResourceSliceMaxAttributeValuesPerDevice; n > most {
		errs = append(errs, field.Invalid(at, n, fmt.Sprintf("the total number of attribute values must not exceed %d", most)))
	}
	for _, name := range slices.Sorted(maps.Keys(d.Attributes)) {
		a := d.Attributes[name]
		errs = append(errs, qualifiedErrors(string(name), at.Child("attributes"))...)
		errs = append(errs, deviceAttributeErrors(&a, at.Child("attributes").Key(shortened(string(name))))...)
	}
	for _, name := range slices.Sorted(maps.Keys(d.Capacity)) {
		c := d.Capacity[name]
		errs = append(errs, qualifiedErrors(string(name), at.Child("capacity"))...)
		errs = append(errs, deviceCapacityErrors(&c, d.AllowMultipleAllocations != nil && *d.AllowMultipleAllocations, at.Child("capacity").Key(shortened(string(name))))...)
	}
	if old == nil || !equality.Semantic.DeepEqual(old.Taints, d.Taints) {
		errs = append(errs, listErrors(d.Taints, resourcev1.DeviceTaintsMaxLength, at.Child("taints"), deviceTaintErrors, nil)...)
	}
	errs = append(errs, listErrors(d.ConsumesCounters, resourcev1.ResourceSliceMaxDeviceCounterConsumptionsPerDevice, at.Child("consumesCounters"), func(c *resourcev1.DeviceCounterConsumption, at *field.Path) field.ErrorList {
		return append(counterNameErrors(c.CounterSet, at.Child("counterSet")), countersErrors(c.Counters, resourcev1.ResourceSliceMaxCountersPerDeviceCounterConsumption, at.Child("counters"))...)
	}, func(c resourcev1.DeviceCounterConsumption) string { return c.CounterSet })...)
	errs = append(errs, deviceNodesErrors(d, ownNodes, at)...)
	return append(errs, deviceBindingErrors(d.BindingConditions, d.BindingFailureConditions, at)...)
}

// deviceNodesErrors: a device says itself on which nodes it is if all of its
// slice do, and then in one way.
func deviceNodesErrors(d *resourcev1.Device, own bool, at *field.Path) field.ErrorList {
	if !own {
		if d.NodeName != nil || d.NodeSelector != nil || d.AllNodes != nil {
			return field.ErrorList{field.Invalid(at, nil, "`nodeName`, `nodeSelector` and `allNodes` can only be set if `perDeviceNodeSelection` is set to true in the ResourceSlice spec")}
		}
		return nil
	}
	var (
		errs  field.ErrorList
		where []string
	)
	if n := d.NodeName; n != nil && *n != "" {
		where = append(where, "`nodeName`")
		errs = append(errs, valid.InvalidAll(at.Child("nodeName"), *n, validation.IsDNS1123Subdomain(*n))...)
	} else if n != nil {
		errs = append(errs, field.Invalid(at.Child("nodeName"), *n, "must not be empty"))
	}
	if d.NodeSelector != nil {
		where = append(where, "`nodeSelector`")
		errs = append(errs, core.NodeSelectorErrors(d.NodeSelector, at.Child("nodeSelector"))...)
	}
	if all := d.AllNodes; all != nil && *all {
		where = append(where, "`allNodes`")
	} else if all != nil {
		errs = append(errs, field.Invalid(at.Child("allNodes"), *all, "must be either unset or set to true"))
	}
	const one = "exactly one of `nodeName`, `nodeSelector`, or `allNodes` is required when `perDeviceNodeSelection` is set to true in the ResourceSlice spec"
	switch len(where) {
	case 0:
		return append(errs, field.Required(at, one))
	case 1:
		return errs
	}
	return append(errs, field.Invalid(at, fmt.Sprintf("{%s}", strings.Join(where, ", ")), one))
}

// counterNameErrors checks the name of a set of counters, or of one.
func counterNameErrors(name string, at *field.Path) field.ErrorList {
	if name == "" {
		return field.ErrorList{field.Required(at, "")}
	}
	return valid.InvalidAll(at, name, validation.IsDNS1123Label(name))
}

func countersErrors(counters map[string]resourcev1.Counter, most int, at *field.Path) field.ErrorList {
	switch {
	case len(counters) == 0:
		return field.ErrorList{field.Required(at, "")}
	case len(counters) > most:
		return field.ErrorList{field.TooMany(at, len(counters), most)}
	}
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(counters)) {
		errs = append(errs, valid.InvalidAll(at, name, validation.IsDNS1123Label(name))...)
	}
	return errs
}

func deviceTaintErrors(t *resourcev1.DeviceTaint, at *field.Path) field.ErrorList {
	errs := metav1validation.ValidateLabelName(t.Key, at.Child("key"))
	if t.Value != "" {
		errs = append(errs, valid.InvalidAll(at.Child("value"), t.Value, validation.IsValidLabelValue(t.Value))...)
	}
	switch t.Effect {
	case "":
		errs = append(errs, field.Required(at.Child("effect"), ""))
	case resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone:
	default:
		errs = append(errs, field.NotSupported(at.Child("effect"), t.Effect,
			[]resourcev1.DeviceTaintEffect{resourcev1.DeviceTaintEffectNoExecute, resourcev1.DeviceTaintEffectNoSchedule, resourcev1.DeviceTaintEffectNone}))
	}
	return errs
}

// deviceBindingErrors checks the conditions that a driver sets when a device is
// ready for a pod, or never will be.
func deviceBindingErrors(ready, failed []string, at *field.Path) field.ErrorList {
	label := func(s *string, at *field.Path) field.ErrorList { return metav1validation.ValidateLabelName(*s, at) }
	readyAt, failedAt := at.Child("bindingConditions"), at.Child("bindingFailureConditions")
	errs := listErrors(ready, resourcev1.BindingConditionsMaxSize, readyAt, label, nil)
	errs = append(errs, listErrors(failed, resourcev1.BindingFailureConditionsMaxSize, failedAt, label, nil)...)
	for i, c := range ready {
		if slices.Contains(ready[:i], c) {
			errs = append(errs, field.Duplicate(readyAt.Index(i), c))
		}
	}
	for i, c := range failed {
		if slices.Contains(failed[:i], c) {
			errs = append(errs, field.Duplicate(failedAt.Index(i), c))
		}
		if slices.Contains(ready, c) {
			errs = append(errs, field.Invalid(failedAt.Index(i), c, "bindingFailureConditions must not overlap with bindingConditions"))
		}
	}
	if len(ready) == 0 && len(failed) > 0 {
		errs = append(errs, field.Invalid(readyAt, ready, "bindingConditions are required to use bindingFailureConditions"))
	}
	if len(failed) == 0 && len(ready) > 0 {
		errs = append(errs, field.Invalid(failedAt, failed, "bindingFailureConditions are required to use bindingConditions"))
	}
	return errs
}
