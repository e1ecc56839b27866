package resource

import (
	"fmt"
	"slices"
	"strings"

	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema/kind/core"
	"github.com/writ-os/writ/schema/kind/valid"
)

// deviceSliceErrors checks whose devices a slice lists, where they are, and
// what they are. Old is nil for a new slice.
func deviceSliceErrors(s, old *resourcev1.ResourceSliceSpec) field.ErrorList {
	at := field.NewPath("spec")
	errs := valid.DriverName(s.Driver, at.Child("driver"))
	errs = append(errs, poolErrors(&s.Pool, at.Child("pool"))...)
	if old != nil {
		errs = append(errs, valid.Keep(at.Child("pool", "name"), s.Pool.Name, old.Pool.Name)...)
		errs = append(errs, valid.Keep(at.Child("driver"), s.Driver, old.Driver)...)
		errs = append(errs, valid.Keep(at.Child("nodeName"), s.NodeName, old.NodeName)...)
	}
	errs = append(errs, sliceNodesErrors(s, at)...)
	if s.SharedCounters != nil && s.Devices != nil {
		errs = append(errs, field.Invalid(at, "", "only one of `sharedCounters` or `devices` is allowed"))
	}
	most := resourcev1.ResourceSliceMaxDevices
	if slices.ContainsFunc(s.Devices, advanced) {
		most = resourcev1.ResourceSliceMaxDevicesWithAdvancedFeatures
	}
	errs = append(errs, listErrors(s.Devices, most, at.Child("devices"), func(d *resourcev1.Device, at *field.Path) field.ErrorList {
		return deviceErrors(d, deviceOf(old, d.Name), s.PerDeviceNodeSelection != nil && *s.PerDeviceNodeSelection, at)
	}, func(d resourcev1.Device) string { return d.Name })...)
	return append(errs, listErrors(s.SharedCounters, resourcev1.ResourceSliceMaxCounterSets, at.Child("sharedCounters"), func(c *resourcev1.CounterSet, at *field.Path) field.ErrorList {
		return append(counterNameErrors(c.Name, at.Child("name")), countersErrors(c.Counters, resourcev1.ResourceSliceMaxCountersPerCounterSet, at.Child("counters"))...)
	}, func(c resourcev1.CounterSet) string { return c.Name })...)
}

// advanced says that a device has what makes it large.
func advanced(d resourcev1.Device) bool {
	if len(d.Taints) > 0 || len(d.ConsumesCounters) > 0 {
		return true
	}
	for _, a := range d.Attributes {
		if hasLists(&a) {
			return true
		}
	}
	return false
}

func deviceOf(s *resourcev1.ResourceSliceSpec, name string) *resourcev1.Device {
	if s == nil {
		return nil
	}
	i := slices.IndexFunc(s.Devices, func(d resourcev1.Device) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return &s.Devices[i]
}

// sliceNodesErrors: there is one word on which nodes have the devices.
func sliceNodesErrors(s *resourcev1.ResourceSliceSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	var where []string
	if n := s.NodeName; n != nil {
		if *n == "" {
			errs = append(errs, field.Invalid(at.Child("nodeName"), *n, "must be either unset or set to a non-empty string"))
		} else {
			where = append(where, "`nodeName`")
			errs = append(errs, valid.InvalidAll(at.Child("nodeName"), *n, validation.IsDNS1123Subdomain(*n))...)
		}
	}
	if s.NodeSelector != nil {
		where = append(where, "`nodeSelector`")
		errs = append(errs, core.NodeSelectorErrors(s.NodeSelector, at.Child("nodeSelector"))...)
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
			errs = append(errs, valid.InvalidAll(name, part, validation.IsDNS1123Subdomain(part))...)
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
