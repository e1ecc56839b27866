package storage

import (
	"math"

	storagev1 "k8s.io/api/storage/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	utilvalidation "k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/valid"
)

// VolumeAttachment is the judge of its kind.
var VolumeAttachment = &kind.Kind{
	Resource:      schema.ResourceFor[*storagev1.VolumeAttachment](),
	Conditional:   true,
	PrepareStatus: func(o, old schema.Object) { valid.ResetMeta(o, old) },
	Validate:      func(o schema.Object) field.ErrorList { return attachmentErrors(o.(*storagev1.VolumeAttachment)) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return valid.Keep(field.NewPath("spec"), o.(*storagev1.VolumeAttachment).Spec, old.(*storagev1.VolumeAttachment).Spec)
	},
	ValidateDoor: func(_ string, o, _ schema.Object) field.ErrorList {
		return attachmentStatusErrors(&o.(*storagev1.VolumeAttachment).Status)
	},
}

// CSINode is the judge of its kind.
var CSINode = &kind.Kind{
	Resource:    schema.ResourceFor[*storagev1.CSINode](),
	OwnSchema:   true,
	Conditional: true,
	Validate:    func(o schema.Object) field.ErrorList { return csiNodeErrors(o.(*storagev1.CSINode)) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return csiNodeUpdateErrors(o.(*storagev1.CSINode), old.(*storagev1.CSINode))
	},
}

// CSIDriver is the judge of its kind.
var CSIDriver = &kind.Kind{
	Resource:    schema.ResourceFor[*storagev1.CSIDriver](),
	Conditional: true,
	PrepareUpdate: func(o, old schema.Object) {
		if !kind.SamePart(o, old, "Spec") {
			o.SetGeneration(old.GetGeneration() + 1)
		}
	},
	Validate: func(o schema.Object) field.ErrorList { return csiDriverErrors(o.(*storagev1.CSIDriver)) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		is, was, at := o.(*storagev1.CSIDriver).Spec, old.(*storagev1.CSIDriver).Spec, field.NewPath("spec")
		return append(valid.Keep(at.Child("attachedRequired"), is.AttachRequired, was.AttachRequired),
			valid.Keep(at.Child("volumeLifecycleModes"), is.VolumeLifecycleModes, was.VolumeLifecycleModes)...)
	},
}

// CSIStorageCapacity is the judge of its kind.
var CSIStorageCapacity = &kind.Kind{
	Resource:    schema.ResourceFor[*storagev1.CSIStorageCapacity](),
	Conditional: true,
	Validate:    func(o schema.Object) field.ErrorList { return capacityErrors(o.(*storagev1.CSIStorageCapacity)) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		is, was := o.(*storagev1.CSIStorageCapacity), old.(*storagev1.CSIStorageCapacity)
		return append(valid.Keep(field.NewPath("nodeTopology"), is.NodeTopology, was.NodeTopology),
			valid.Keep(field.NewPath("storageClassName"), is.StorageClassName, was.StorageClassName)...)
	},
}

// VolumeAttributesClass is the judge of its kind.
var VolumeAttributesClass = &kind.Kind{
	Resource: schema.ResourceFor[*storagev1.VolumeAttributesClass](),
	Validate: func(o schema.Object) field.ErrorList {
		return attributesClassErrors(o.(*storagev1.VolumeAttributesClass))
	},
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		is, was := o.(*storagev1.VolumeAttributesClass), old.(*storagev1.VolumeAttributesClass)
		var errs field.ErrorList
		if is.DriverName != was.DriverName {
			errs = append(errs, field.Forbidden(field.NewPath("driverName"), "updates to driverName are forbidden."))
		}
		if !apiequality.Semantic.DeepEqual(is.Parameters, was.Parameters) {
			errs = append(errs, field.Forbidden(field.NewPath("parameters"), "updates to parameters are forbidden."))
		}
		return errs
	},
}

func attachmentErrors(a *storagev1.VolumeAttachment) field.ErrorList {
	at := field.NewPath("spec")
	errs := valid.DriverName(a.Spec.Attacher, at.Child("attacher"))
	source := at.Child("source")
	switch s := a.Spec.Source; {
	case s.InlineVolumeSpec == nil && s.PersistentVolumeName == nil:
		errs = append(errs, field.Required(source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case s.InlineVolumeSpec != nil && s.PersistentVolumeName != nil:
		errs = append(errs, field.Forbidden(source, "must specify exactly one of inlineVolumeSpec and persistentVolumeName"))
	case s.PersistentVolumeName != nil && *s.PersistentVolumeName == "":
		errs = append(errs, field.Required(source.Child("persistentVolumeName"), "must specify non empty persistentVolumeName"))
	}
	for _, msg := range validation.NameIsDNSSubdomain(a.Spec.NodeName, false) {
		errs = append(errs, field.Invalid(at.Child("nodeName"), a.Spec.NodeName, msg))
	}
	if p := a.Spec.Source.PersistentVolumeName; p != nil {
		for _, msg := range validation.NameIsDNSSubdomain(*p, false) {
			errs = append(errs, field.Invalid(field.NewPath("spec.source.persistentVolumeName"), *p, msg))
		}
	}
	return errs
}

// Bounds of what attachers report.
const (
	maxAttachmentMetadata = 256 * 1024
	maxVolumeError        = 1024
)

func attachmentStatusErrors(s *storagev1.VolumeAttachmentStatus) field.ErrorList {
	at := field.NewPath("status")
	var errs field.ErrorList
	size := 0
	for k, v := range s.AttachmentMetadata {
		size += len(k) + len(v)
	}
	if size > maxAttachmentMetadata {
		errs = append(errs, field.TooLong(at.Child("attachmentMetadata"), "", maxAttachmentMetadata))
	}
	for name, e := range map[string]*storagev1.VolumeError{"attachError": s.AttachError, "detachError": s.DetachError} {
		if e == nil {
			continue
		}
		if len(e.Message) > maxVolumeError {
			errs = append(errs, field.TooLong(at.Child(name, "message"), "", maxAttachmentMetadata))
		}
		if c := e.ErrorCode; c != nil && *c < 0 {
			errs = append(errs, field.Invalid(at.Child(name, "errorCode"), *c, utilvalidation.InclusiveRangeError(0, math.MaxInt32)))
		}
	}
	return errs
}

// maxNodeID is how long the name of a node for a driver may be.
const maxNodeID = 256

func csiNodeErrors(n *storagev1.CSINode) field.ErrorList {
	var errs field.ErrorList
	seen := map[string]bool{}
	for i, d := range n.Spec.Drivers {
		at := field.NewPath("spec", "drivers").Index(i)
		errs = append(errs, valid.DriverName(d.Name, at.Child("name"))...)
		if d.NodeID == "" {
			errs = append(errs, field.Required(at.Child("nodeID"), d.NodeID))
		}
		errs = append(errs, valid.TooLong(at.Child("nodeID"), d.NodeID, maxNodeID)...)
		if a := d.Allocatable; a != nil && a.Count != nil && *a.Count < 0 {
			errs = append(errs, field.Invalid(at.Child("allocatable", "count"), int64(*a.Count), validation.IsNegativeErrorMsg))
		}
		if seen[d.Name] {
			errs = append(errs, field.Duplicate(at.Child("name"), d.Name))
		}
		seen[d.Name] = true
		keys := map[string]bool{}
		for _, k := range d.TopologyKeys {
			if k == "" {
				errs = append(errs, field.Required(at, k))
			}
			if keys[k] {
				errs = append(errs, field.Duplicate(at, k))
			}
			keys[k] = true
			errs = append(errs, valid.QualifiedName(k, at)...)
		}
	}
	return errs
}

// csiNodeUpdateErrors: of a driver that is there only the limit may change.
func csiNodeUpdateErrors(n, old *storagev1.CSINode) field.ErrorList {
	var errs field.ErrorList
	for _, was := range old.Spec.Drivers {
		for _, is := range n.Spec.Drivers {
			if is.Name != was.Name {
				continue
			}
			is.Allocatable, was.Allocatable = nil, nil
			errs = append(errs, valid.Keep(field.NewPath("spec", "drivers"), &is, &was)...)
		}
	}
	return errs
}

// Bounds of tokens for drivers, in seconds.
const (
	minDriverToken = 600
	maxDriverToken = 1 << 32
)

func csiDriverErrors(d *storagev1.CSIDriver) field.ErrorList {
	at := field.NewPath("spec")
	errs := valid.OneOf(d.Spec.FSGroupPolicy, at.Child("fsGroupPolicy"), "File", "None", "ReadWriteOnceWithFSType")
	seen := map[string]bool{}
	for i, t := range d.Spec.TokenRequests {
		at := at.Child("tokenRequests").Index(i)
		if seen[t.Audience] {
			errs = append(errs, field.Duplicate(at.Child("audience"), t.Audience))
			continue
		}
		seen[t.Audience] = true
		if s := t.ExpirationSeconds; s != nil && *s < minDriverToken {
			errs = append(errs, field.Invalid(at.Child("expirationSeconds"), *s, "may not specify a duration less than 10 minutes"))
		} else if s != nil && *s > maxDriverToken {
			errs = append(errs, field.Invalid(at.Child("expirationSeconds"), *s, "may not specify a duration larger than 2^32 seconds"))
		}
	}
	for i := range d.Spec.VolumeLifecycleModes {
		errs = append(errs, valid.OneOf(&d.Spec.VolumeLifecycleModes[i], at.Child("volumeLifecycleModes"), "Persistent", "Ephemeral")...)
	}
	if p := d.Spec.NodeAllocatableUpdatePeriodSeconds; p != nil && *p < 10 {
		errs = append(errs, field.Invalid(at.Child("nodeAllocatableUpdatePeriodSeconds"), *p, "must be greater than or equal to 10 seconds"))
	}
	if s := d.Spec.ServiceAccountTokenInSecrets; s != nil && len(d.Spec.TokenRequests) == 0 {
		errs = append(errs, field.Invalid(at.Child("serviceAccountTokenInSecrets"), s, "serviceAccountTokenInSecrets is set but no tokenRequests are specified"))
	}
	return errs
}

func capacityErrors(c *storagev1.CSIStorageCapacity) field.ErrorList {
	var errs field.ErrorList
	for _, msg := range validation.NameIsDNSSubdomain(c.StorageClassName, false) {
		errs = append(errs, field.Invalid(field.NewPath("storageClassName"), c.StorageClassName, msg))
	}
	if c.Capacity != nil && c.Capacity.Sign() < 0 {
		errs = append(errs, field.Invalid(field.NewPath("capacity"), c.Capacity.String(), validation.IsNegativeErrorMsg))
	}
	if c.MaximumVolumeSize != nil && c.MaximumVolumeSize.Sign() < 0 {
		errs = append(errs, field.Invalid(field.NewPath("maximumVolumeSize"), c.MaximumVolumeSize.String(), validation.IsNegativeErrorMsg))
	}
	return append(errs, valid.LabelSelector(c.NodeTopology, field.NewPath("nodeTopology"))...)
}
