package registry

import (
	"fmt"

	nodev1 "k8s.io/api/node/v1"
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
)

// deviceRules are those of dynamic resource allocation.
func deviceRules(rules map[*schema.Resource]*rule) {
	rules[schema.ResourceFor[*resourcev1.ResourceClaim]()] = &rule{
		status: func(o, old schema.Object) { resetMeta(o, old) },
		validateNew: func(o schema.Object) field.ErrorList {
			return deviceClaimErrors(&o.(*resourcev1.ResourceClaim).Spec.Devices, field.NewPath("spec", "devices"))
		},
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return keepField(field.NewPath("spec"), o.(*resourcev1.ResourceClaim).Spec, old.(*resourcev1.ResourceClaim).Spec)
		},
		validateDoor: func(_ string, o, old schema.Object) field.ErrorList {
			return claimStatusErrors(o.(*resourcev1.ResourceClaim), old.(*resourcev1.ResourceClaim))
		},
	}
	rules[schema.ResourceFor[*resourcev1.ResourceClaimTemplate]()] = &rule{
		validateNew: func(o schema.Object) field.ErrorList {
			s, at := &o.(*resourcev1.ResourceClaimTemplate).Spec, field.NewPath("spec")
			errs := validation.ValidateAnnotations(s.Annotations, at.Child("metadata", "annotations"))
			errs = append(errs, metav1validation.ValidateLabels(s.Labels, at.Child("metadata", "labels"))...)
			return append(errs, deviceClaimErrors(&s.Spec.Devices, at.Child("spec", "devices"))...)
		},
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return keepField(field.NewPath("spec"), o.(*resourcev1.ResourceClaimTemplate).Spec, old.(*resourcev1.ResourceClaimTemplate).Spec)
		},
	}
	rules[schema.ResourceFor[*resourcev1.DeviceClass]()] = &rule{
		generation: true,
		validateNew: func(o schema.Object) field.ErrorList {
			return deviceClassErrors(&o.(*resourcev1.DeviceClass).Spec, nil)
		},
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return deviceClassErrors(&o.(*resourcev1.DeviceClass).Spec, &old.(*resourcev1.DeviceClass).Spec)
		},
	}
	rules[schema.ResourceFor[*resourcev1.ResourceSlice]()] = &rule{
		generation:   true,
		ownImmutable: true, ownSchema: true,
		create: func(o schema.Object) { dropOffFields(&o.(*resourcev1.ResourceSlice).Spec, nil) },
		update: func(o, old schema.Object) {
			dropOffFields(&o.(*resourcev1.ResourceSlice).Spec, &old.(*resourcev1.ResourceSlice).Spec)
		},
		validateNew: func(o schema.Object) field.ErrorList {
			return deviceSliceErrors(&o.(*resourcev1.ResourceSlice).Spec, nil)
		},
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return deviceSliceErrors(&o.(*resourcev1.ResourceSlice).Spec, &old.(*resourcev1.ResourceSlice).Spec)
		},
	}
}

// maxReserved is how many consumers may share a claim.
const maxReserved = resourcev1.ResourceClaimReservedForMaxSize

// claimStatusErrors: what is allocated stays as it is until nobody uses it.
func claimStatusErrors(c, old *resourcev1.ResourceClaim) field.ErrorList {
	at := field.NewPath("status")
	var errs field.ErrorList
	if n := len(c.Status.ReservedFor); n > maxReserved {
		errs = append(errs, field.TooMany(at.Child("reservedFor"), n, maxReserved))
	}
	seen := map[string]bool{}
	for i, r := range c.Status.ReservedFor {
		if seen[string(r.UID)] {
			errs = append(errs, field.Duplicate(at.Child("reservedFor").Index(i).Child("uid"), r.UID))
		}
		seen[string(r.UID)] = true
	}
	if len(c.Status.ReservedFor) > 0 && c.Status.Allocation == nil {
		errs = append(errs, field.Forbidden(at.Child("reservedFor"), "may not be specified when `allocated` is not set"))
	}
	if c.DeletionTimestamp != nil && len(c.Status.ReservedFor) > len(old.Status.ReservedFor) {
		errs = append(errs, field.Forbidden(at.Child("reservedFor"), "new entries may not be added while `deallocationRequested` or `deletionTimestamp` are set"))
	}
	if old.Status.Allocation != nil && c.Status.Allocation != nil {
		errs = append(errs, keepField(at.Child("allocation"), c.Status.Allocation, old.Status.Allocation)...)
	}
	return errs
}

// runtimeRules are those of container runtimes.
func runtimeRules(rules map[*schema.Resource]*rule) {
	rules[schema.ResourceFor[*nodev1.RuntimeClass]()] = &rule{
		conditional: true, createOnUpdate: true,
		validate: func(o schema.Object) field.ErrorList { return runtimeErrors(o.(*nodev1.RuntimeClass)) },
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return keepField(field.NewPath("handler"), o.(*nodev1.RuntimeClass).Handler, old.(*nodev1.RuntimeClass).Handler)
		},
	}
}

func runtimeErrors(c *nodev1.RuntimeClass) field.ErrorList {
	var errs field.ErrorList
	if c.Handler == "" {
		errs = append(errs, field.Required(field.NewPath("handler"), ""))
	} else {
		for _, msg := range validation.NameIsDNSLabel(c.Handler, false) {
			errs = append(errs, field.Invalid(field.NewPath("handler"), c.Handler, msg))
		}
	}
	if c.Overhead != nil {
		for name, q := range c.Overhead.PodFixed {
			if q.Sign() < 0 {
				errs = append(errs, field.Invalid(field.NewPath("overhead", "limits").Key(string(name)), q.String(), validation.IsNegativeErrorMsg))
			}
		}
	}
	if c.Scheduling == nil {
		return errs
	}
	errs = append(errs, metav1validation.ValidateLabels(c.Scheduling.NodeSelector, field.NewPath("scheduling", "nodeSelector"))...)
	seen := map[string]bool{}
	for i, t := range c.Scheduling.Tolerations {
		key := fmt.Sprint(t.Key, "\x00", t.Operator, "\x00", t.Value, "\x00", t.Effect)
		if seen[key] {
			errs = append(errs, field.Duplicate(field.NewPath("scheduling", "tolerations").Index(i), t))
		}
		seen[key] = true
	}
	return errs
}
