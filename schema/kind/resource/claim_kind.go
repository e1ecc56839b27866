package resource

import (
	resourcev1 "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/valid"
)

// ResourceClaim is the judge of its kind.
var ResourceClaim = &kind.Kind{
	Resource:      schema.ResourceFor[*resourcev1.ResourceClaim](),
	PrepareStatus: func(o, old schema.Object) { valid.ResetMeta(o, old) },
	ValidateCreate: func(o schema.Object) field.ErrorList {
		return deviceClaimErrors(&o.(*resourcev1.ResourceClaim).Spec.Devices, field.NewPath("spec", "devices"))
	},
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return valid.Keep(field.NewPath("spec"), o.(*resourcev1.ResourceClaim).Spec, old.(*resourcev1.ResourceClaim).Spec)
	},
	ValidateDoor: func(_ string, o, old schema.Object) field.ErrorList {
		return claimStatusErrors(o.(*resourcev1.ResourceClaim), old.(*resourcev1.ResourceClaim))
	},
}

// ResourceClaimTemplate is the judge of its kind.
var ResourceClaimTemplate = &kind.Kind{
	Resource: schema.ResourceFor[*resourcev1.ResourceClaimTemplate](),
	ValidateCreate: func(o schema.Object) field.ErrorList {
		s, at := &o.(*resourcev1.ResourceClaimTemplate).Spec, field.NewPath("spec")
		errs := validation.ValidateAnnotations(s.Annotations, at.Child("metadata", "annotations"))
		errs = append(errs, metav1validation.ValidateLabels(s.Labels, at.Child("metadata", "labels"))...)
		return append(errs, deviceClaimErrors(&s.Spec.Devices, at.Child("spec", "devices"))...)
	},
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return valid.Keep(field.NewPath("spec"), o.(*resourcev1.ResourceClaimTemplate).Spec, old.(*resourcev1.ResourceClaimTemplate).Spec)
	},
}

// DeviceClass is the judge of its kind.
var DeviceClass = &kind.Kind{
	Resource:   schema.ResourceFor[*resourcev1.DeviceClass](),
	Generation: true,
	ValidateCreate: func(o schema.Object) field.ErrorList {
		return deviceClassErrors(&o.(*resourcev1.DeviceClass).Spec, nil)
	},
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return deviceClassErrors(&o.(*resourcev1.DeviceClass).Spec, &old.(*resourcev1.DeviceClass).Spec)
	},
}

// ResourceSlice is the judge of its kind.
var ResourceSlice = &kind.Kind{
	Resource:     schema.ResourceFor[*resourcev1.ResourceSlice](),
	Generation:   true,
	OwnImmutable: true, OwnSchema: true,
	PrepareCreate: func(o schema.Object) { dropOffFields(&o.(*resourcev1.ResourceSlice).Spec, nil) },
	PrepareUpdate: func(o, old schema.Object) {
		dropOffFields(&o.(*resourcev1.ResourceSlice).Spec, &old.(*resourcev1.ResourceSlice).Spec)
	},
	ValidateCreate: func(o schema.Object) field.ErrorList {
		return deviceSliceErrors(&o.(*resourcev1.ResourceSlice).Spec, nil)
	},
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return deviceSliceErrors(&o.(*resourcev1.ResourceSlice).Spec, &old.(*resourcev1.ResourceSlice).Spec)
	},
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
		errs = append(errs, valid.Keep(at.Child("allocation"), c.Status.Allocation, old.Status.Allocation)...)
	}
	return errs
}
