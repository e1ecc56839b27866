package storage

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/core"
	"github.com/writ-os/writ/schema/kind/valid"
)

// PersistentVolume is the judge of its kind.
var PersistentVolume = &kind.Kind{
	Resource:     schema.ResourceFor[*corev1.PersistentVolume](),
	OwnImmutable: true, OwnSchema: true,
	PrepareCreate: func(o schema.Object) {
		at := valid.Now()
		o.(*corev1.PersistentVolume).Status = corev1.PersistentVolumeStatus{Phase: corev1.VolumePending, LastPhaseTransitionTime: &at}
	},
	PrepareStatus: func(o, old schema.Object) { volumePhase(o.(*corev1.PersistentVolume), old.(*corev1.PersistentVolume)) },
	Validate:      func(o schema.Object) field.ErrorList { return core.VolumeErrors(o.(*corev1.PersistentVolume)) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return core.VolumeUpdateErrors(o.(*corev1.PersistentVolume), old.(*corev1.PersistentVolume))
	},
}

// PersistentVolumeClaim is the judge of its kind.
var PersistentVolumeClaim = &kind.Kind{
	Resource:     schema.ResourceFor[*corev1.PersistentVolumeClaim](),
	OwnImmutable: true, OwnSchema: true,
	PrepareCreate: func(o schema.Object) {
		claim := o.(*corev1.PersistentVolumeClaim)
		claim.Status.Phase = corev1.ClaimPending
		dropDataSource(&claim.Spec)
		sameDataSource(&claim.Spec)
	},
	PrepareUpdate: func(o, old schema.Object) {
		claim, was := o.(*corev1.PersistentVolumeClaim), old.(*corev1.PersistentVolumeClaim)
		if was.Spec.DataSource == nil && was.Spec.DataSourceRef == nil {
			dropDataSource(&claim.Spec)
		}
		sameDataSource(&claim.Spec)
	},
	Validate: func(o schema.Object) field.ErrorList { return core.ClaimErrors(o.(*corev1.PersistentVolumeClaim)) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return core.ClaimUpdateErrors(o.(*corev1.PersistentVolumeClaim), old.(*corev1.PersistentVolumeClaim))
	},
	ValidateDoor: func(_ string, o, _ schema.Object) field.ErrorList {
		return core.ClaimStatusErrors(o.(*corev1.PersistentVolumeClaim))
	},
	Warnings: func(o, _ schema.Object) []string {
		return core.ClaimWarnings(&o.(*corev1.PersistentVolumeClaim).Spec, field.NewPath("spec"))
	},
}

// StorageClass is the judge of its kind.
var StorageClass = &kind.Kind{
	Resource:     schema.ResourceFor[*storagev1.StorageClass](),
	OwnImmutable: true, OwnSchema: true,
	ValidateCreate: func(o schema.Object) field.ErrorList { return classErrors(o.(*storagev1.StorageClass)) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return classUpdateErrors(o.(*storagev1.StorageClass), old.(*storagev1.StorageClass))
	},
}

// dropDataSource drops a source that claims could not have when their one field
// for it was new: nothing but other claims and snapshots.
func dropDataSource(s *corev1.PersistentVolumeClaimSpec) {
	if ref := s.DataSourceRef; ref != nil {
		ref.Namespace = nil // its gate is off by default
	}
	d := s.DataSource
	if d == nil {
		return
	}
	group := ""
	if d.APIGroup != nil {
		group = *d.APIGroup
	}
	if !(group == "" && d.Kind == "PersistentVolumeClaim") && !(group == "snapshot.storage.k8s.io" && d.Kind == "VolumeSnapshot") {
		s.DataSource = nil
	}
}

// sameDataSource makes both fields for the source say the same (KEP-1495).
func sameDataSource(s *corev1.PersistentVolumeClaimSpec) {
	d, ref := s.DataSource, s.DataSourceRef
	switch {
	case d != nil && ref == nil:
		s.DataSourceRef = &corev1.TypedObjectReference{APIGroup: d.APIGroup, Kind: d.Kind, Name: d.Name}
	case d == nil && ref != nil && ref.Namespace == nil:
		s.DataSource = &corev1.TypedLocalObjectReference{APIGroup: ref.APIGroup, Kind: ref.Kind, Name: ref.Name}
	}
}

// volumePhase notes when a volume came into its phase.
func volumePhase(v, old *corev1.PersistentVolume) {
	switch {
	case v.Status.Phase == old.Status.Phase:
		if v.Status.LastPhaseTransitionTime == nil {
			v.Status.LastPhaseTransitionTime = old.Status.LastPhaseTransitionTime
		}
	case v.Status.LastPhaseTransitionTime == nil || v.Status.LastPhaseTransitionTime.Equal(old.Status.LastPhaseTransitionTime):
		at := valid.Now()
		v.Status.LastPhaseTransitionTime = &at
	}
}

// Limits of the parameters of a class: how many, and bytes of all together.
const (
	maxParameters    = 512
	maxParameterSize = 256 << 10
)

func classErrors(c *storagev1.StorageClass) field.ErrorList {
	var errs field.ErrorList
	if at := field.NewPath("provisioner"); c.Provisioner == "" {
		errs = append(errs, field.Required(at, ""))
	} else {
		for _, msg := range validation.IsQualifiedName(strings.ToLower(c.Provisioner)) {
			errs = append(errs, field.Invalid(at, strings.ToLower(c.Provisioner), msg))
		}
	}
	errs = append(errs, parameterErrors(c.Parameters, field.NewPath("parameters"))...)
	if p := c.ReclaimPolicy; p != nil && *p != "" && *p != corev1.PersistentVolumeReclaimDelete && *p != corev1.PersistentVolumeReclaimRetain {
		errs = append(errs, field.NotSupported(field.NewPath("reclaimPolicy"), *p,
			[]corev1.PersistentVolumeReclaimPolicy{corev1.PersistentVolumeReclaimDelete, corev1.PersistentVolumeReclaimRetain}))
	}
	if at, m := field.NewPath("volumeBindingMode"), c.VolumeBindingMode; m == nil {
		errs = append(errs, field.Required(at, ""))
	} else if *m != storagev1.VolumeBindingImmediate && *m != storagev1.VolumeBindingWaitForFirstConsumer {
		errs = append(errs, field.NotSupported(at, *m,
			[]storagev1.VolumeBindingMode{storagev1.VolumeBindingImmediate, storagev1.VolumeBindingWaitForFirstConsumer}))
	}
	return append(errs, core.TopologyErrors(c.AllowedTopologies, field.NewPath("allowedTopologies"))...)
}

func attributesClassErrors(c *storagev1.VolumeAttributesClass) field.ErrorList {
	at := field.NewPath("parameters")
	errs := valid.DriverName(c.DriverName, field.NewPath("driverName"))
	if errs = append(errs, parameterErrors(c.Parameters, at)...); len(c.Parameters) == 0 {
		errs = append(errs, field.Required(at, "must contain at least one key/value pair"))
	}
	return errs
}

func parameterErrors(params map[string]string, at *field.Path) field.ErrorList {
	if len(params) > maxParameters {
		return field.ErrorList{field.TooLong(at, "", maxParameters)}
	}
	var errs field.ErrorList
	size := 0
	for k, v := range params {
		if k == "" {
			errs = append(errs, field.Invalid(at, k, "field can not be empty."))
		}
		size += len(k) + len(v)
	}
	if size > maxParameterSize {
		errs = append(errs, field.TooLong(at, "", maxParameterSize))
	}
	return errs
}

func classUpdateErrors(c, old *storagev1.StorageClass) field.ErrorList {
	var errs field.ErrorList
	keep := func(name string, is, was any) {
		errs = append(errs, apivalidation.ValidateImmutableField(is, was, field.NewPath(name))...)
	}
	keep("parameters", c.Parameters, old.Parameters)
	keep("provisioner", c.Provisioner, old.Provisioner)
	keep("reclaimPolicy", c.ReclaimPolicy, old.ReclaimPolicy)
	keep("volumeBindingMode", c.VolumeBindingMode, old.VolumeBindingMode)
	return errs
}
