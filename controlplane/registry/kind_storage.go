package registry

import (
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
)

func storageRules(rules map[*schema.Resource]*rule) {
	rules[schema.ResourceFor[*corev1.PersistentVolume]()] = &rule{
		ownImmutable: true,
		create: func(o schema.Object) {
			o.(*corev1.PersistentVolume).Status.Phase = corev1.VolumePending
		},
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return volumeUpdateErrors(o.(*corev1.PersistentVolume), old.(*corev1.PersistentVolume))
		},
	}
	rules[schema.ResourceFor[*corev1.PersistentVolumeClaim]()] = &rule{
		ownImmutable: true,
		create: func(o schema.Object) {
			o.(*corev1.PersistentVolumeClaim).Status.Phase = corev1.ClaimPending
		},
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return claimUpdateErrors(o.(*corev1.PersistentVolumeClaim), old.(*corev1.PersistentVolumeClaim))
		},
	}
	rules[schema.ResourceFor[*storagev1.StorageClass]()] = &rule{
		ownImmutable: true,
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return classUpdateErrors(o.(*storagev1.StorageClass), old.(*storagev1.StorageClass))
		},
	}
}

func volumeUpdateErrors(v, old *corev1.PersistentVolume) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	is, was := v.Spec.PersistentVolumeSource.DeepCopy(), old.Spec.PersistentVolumeSource.DeepCopy()
	if is.CSI != nil && was.CSI != nil {
		// Secrets may be set later.
		is.CSI.ControllerExpandSecretRef, was.CSI.ControllerExpandSecretRef = nil, nil
		is.CSI.NodeExpandSecretRef, was.CSI.NodeExpandSecretRef = nil, nil
	}
	if !apiequality.Semantic.DeepEqual(is, was) {
		errs = append(errs, field.Forbidden(at.Child("persistentvolumesource"), "spec.persistentvolumesource is immutable after creation"))
	}
	if !apiequality.Semantic.DeepEqual(v.Spec.VolumeMode, old.Spec.VolumeMode) {
		errs = append(errs, field.Invalid(field.NewPath("volumeMode"), v.Spec.VolumeMode, immutableField))
	}
	if old.Spec.NodeAffinity != nil && !apiequality.Semantic.DeepEqual(v.Spec.NodeAffinity, old.Spec.NodeAffinity) {
		errs = append(errs, field.Invalid(at.Child("nodeAffinity"), v.Spec.NodeAffinity, immutableField))
	}
	return errs
}

// claimUpdateErrors: a claim gets its volume once, and may then only ask for
// more space.
func claimUpdateErrors(c, old *corev1.PersistentVolumeClaim) field.ErrorList {
	at := field.NewPath("spec")
	is, was := c.Spec.DeepCopy(), old.Spec.DeepCopy()
	if was.VolumeName == "" {
		was.VolumeName = is.VolumeName
	}
	if was.StorageClassName == nil {
		was.StorageClassName = is.StorageClassName // a default class may be filled in later
	}
	asked, before := is.Resources.Requests[corev1.ResourceStorage], was.Resources.Requests[corev1.ResourceStorage]
	bound := old.Status.Phase == corev1.ClaimBound
	if bound && asked.Cmp(before) < 0 {
		if granted := old.Status.Capacity[corev1.ResourceStorage]; asked.Cmp(granted) < 0 {
			return field.ErrorList{field.Forbidden(at.Child("resources", "requests", "storage"), "field can not be less than status.capacity")}
		}
	}
	if bound {
		is.Resources.Requests = was.Resources.Requests
		is.VolumeAttributesClassName = was.VolumeAttributesClassName
	}
	if apiequality.Semantic.DeepEqual(is, was) {
		return nil
	}
	return field.ErrorList{field.Forbidden(at, "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims")}
}

func classUpdateErrors(c, old *storagev1.StorageClass) field.ErrorList {
	var errs field.ErrorList
	forbid := func(name string, is, was any) {
		if !apiequality.Semantic.DeepEqual(is, was) {
			errs = append(errs, field.Forbidden(field.NewPath(name), "updates to "+name+" are forbidden."))
		}
	}
	forbid("parameters", c.Parameters, old.Parameters)
	forbid("provisioner", c.Provisioner, old.Provisioner)
	forbid("reclaimPolicy", c.ReclaimPolicy, old.ReclaimPolicy)
	if !apiequality.Semantic.DeepEqual(c.VolumeBindingMode, old.VolumeBindingMode) {
		errs = append(errs, field.Invalid(field.NewPath("volumeBindingMode"), c.VolumeBindingMode, immutableField))
	}
	return errs
}
