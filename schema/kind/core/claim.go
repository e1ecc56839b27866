package core

import (
	"fmt"
	"reflect"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ClaimSpecErrors are what is wrong with what a claim of a volume asks for.
func ClaimSpecErrors(s *corev1.PersistentVolumeClaimSpec, at *field.Path) field.ErrorList {
	c := &check{}
	if len(s.AccessModes) == 0 {
		c.required(at.Child("accessModes"), "at least 1 access mode is required")
	}
	if s.Selector != nil {
		c.selector(s.Selector, at.Child("selector"))
	}
	c.accessModes(s.AccessModes, at.Child("accessModes"))
	storage := at.Child("resources").Key(string(corev1.ResourceStorage))
	if q, ok := s.Resources.Requests[corev1.ResourceStorage]; !ok {
		c.required(storage, "")
	} else {
		c.positiveQuantity(storage, q)
	}
	c.className(at.Child("storageClassName"), s.StorageClassName)
	if s.VolumeMode != nil {
		oneOf(c, at.Child("volumeMode"), *s.VolumeMode, corev1.PersistentVolumeBlock, corev1.PersistentVolumeFilesystem)
	}
	c.dataSources(s, at)
	c.className(at.Child("volumeAttributesClassName"), s.VolumeAttributesClassName)
	return c.errs
}

func (c *check) className(at *field.Path, name *string) {
	if name != nil && *name != "" {
		c.each(at, *name, nameErrors(*name, false))
	}
}

func (c *check) accessModes(modes []corev1.PersistentVolumeAccessMode, at *field.Path) {
	alone, others := false, false
	for _, m := range modes {
		before := len(c.errs)
		oneOf(c, at, m, corev1.ReadOnlyMany, corev1.ReadWriteMany, corev1.ReadWriteOnce, corev1.ReadWriteOncePod)
		if m == corev1.ReadWriteOncePod {
			alone = true
		} else if len(c.errs) == before {
			others = true
		}
	}
	if alone && others {
		c.forbid(at, "may not use ReadWriteOncePod with other access modes")
	}
}

func (c *check) dataSources(s *corev1.PersistentVolumeClaimSpec, at *field.Path) {
	src, ref := s.DataSource, s.DataSourceRef
	if src != nil {
		c.dataSource(src.APIGroup, src.Kind, src.Name, at.Child("dataSource"))
	}
	if ref == nil {
		return
	}
	c.dataSource(ref.APIGroup, ref.Kind, ref.Name, at.Child("dataSourceRef"))
	foreign := ref.Namespace != nil && *ref.Namespace != ""
	if foreign {
		c.each(at.Child("dataSourceRef", "namespace"), *ref.Namespace, apivalidation.ValidateNamespaceName(*ref.Namespace, false))
	}
	switch {
	case src == nil:
	case foreign:
		c.invalid(at, at.Child("dataSource"), "may not be specified when dataSourceRef.namespace is specified")
	case !reflect.DeepEqual(src.APIGroup, ref.APIGroup) || src.Kind != ref.Kind || src.Name != ref.Name:
		c.invalid(at, at.Child("dataSource"), "must match dataSourceRef")
	}
}

func (c *check) dataSource(group *string, kind, name string, at *field.Path) {
	c.nonEmpty(at.Child("name"), name)
	c.nonEmpty(at.Child("kind"), kind)
	g := ""
	if group != nil {
		g = *group
	}
	switch {
	case g != "":
		c.each(at.Child("apiGroup"), g, validation.IsDNS1123Subdomain(g))
	case kind != "PersistentVolumeClaim":
		c.invalid(at, kind, "must be 'PersistentVolumeClaim' when referencing the default apiGroup")
	}
}

// ClaimErrors are what is wrong with a claim, besides its metadata.
func ClaimErrors(o *corev1.PersistentVolumeClaim) field.ErrorList {
	return ClaimSpecErrors(&o.Spec, field.NewPath("spec"))
}

const betaClass = corev1.BetaStorageClassAnnotation

// ClaimUpdateErrors are what is wrong with a change of a claim, besides what is
// wrong with it as it is: it gets its volume once, and may then ask for more.
func ClaimUpdateErrors(o, old *corev1.PersistentVolumeClaim) field.ErrorList {
	c, at := &check{}, field.NewPath("spec")
	is, was := o.Spec.DeepCopy(), old.Spec.DeepCopy()
	if was.VolumeName == "" {
		was.VolumeName = is.VolumeName
	}
	c.keptClass(o, old, is, was)
	bound := o.Status.Phase == corev1.ClaimBound
	before, asked := old.Spec.Resources.Requests[corev1.ResourceStorage], o.Spec.Resources.Requests[corev1.ResourceStorage]
	if bound && is.Resources.Requests != nil {
		is.Resources.Requests[corev1.ResourceStorage] = before
	}
	if bound {
		is.VolumeAttributesClassName = was.VolumeAttributesClassName
	}
	if !apiequality.Semantic.DeepEqual(is, was) {
		c.forbid(at, fmt.Sprintf("spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n%s", Diff(was, is)))
	}
	if granted := old.Status.Capacity[corev1.ResourceStorage]; asked.Cmp(before) < 0 && asked.Cmp(granted) <= 0 {
		c.forbid(at.Child("resources", "requests", "storage"), "field can not be less than status.capacity")
	}
	c.add(apivalidation.ValidateImmutableField(o.Spec.VolumeMode, old.Spec.VolumeMode, field.NewPath("volumeMode"))...)
	c.keptAttributes(o, old, at.Child("volumeAttributesClassName"))
	return c.errs
}

// keptClass restores the class in is where it may be filled in later.
func (c *check) keptClass(o, old *corev1.PersistentVolumeClaim, is, was *corev1.PersistentVolumeClaimSpec) {
	oldNote, annotated := old.Annotations[betaClass]
	note, still := o.Annotations[betaClass]
	name := is.StorageClassName
	if annotated && was.StorageClassName == nil && name != nil && *name == oldNote && (!still || note == oldNote) {
		is.StorageClassName = nil // from the annotation to the field
		return
	}
	if note != oldNote {
		c.invalid(field.NewPath("metadata", "annotations").Key(betaClass), note, apivalidation.FieldImmutableErrorMsg)
	}
	if name != nil && was.StorageClassName == nil && (!annotated || *name == oldNote) {
		is.StorageClassName = nil // a default class, filled in later
	}
}

func (c *check) keptAttributes(o, old *corev1.PersistentVolumeClaim, at *field.Path) {
	is := o.Spec.VolumeAttributesClassName
	if apiequality.Semantic.DeepEqual(is, old.Spec.VolumeAttributesClassName) || old.Status.CurrentVolumeAttributesClassName == nil {
		return
	}
	switch {
	case is == nil:
		c.forbid(at, "update to nil is forbidden when status.currentVolumeAttributesClassName is not nil")
	case *is == "":
		c.forbid(at, "update to empty string is forbidden when status.currentVolumeAttributesClassName is not nil")
	}
}

// ClaimStatusErrors are what is wrong with the status of a claim.
func ClaimStatusErrors(o *corev1.PersistentVolumeClaim) field.ErrorList {
	c, at := &check{}, field.NewPath("status")
	for _, n := range sorted(o.Status.Capacity) {
		q := o.Status.Capacity[n]
		c.basic(at.Child("capacity").Key(string(n)), q.Value())
	}
	for _, n := range sorted(o.Status.AllocatedResourceStatuses) {
		at := at.Child("allocatedResourceStatuses")
		c.claimResource(n, at)
		switch o.Status.AllocatedResourceStatuses[n] {
		case corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
			corev1.PersistentVolumeClaimNodeResizePending, corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible:
		default:
			c.add(field.NotSupported(at, n, []corev1.ClaimResourceStatus{
				corev1.PersistentVolumeClaimControllerResizeInProgress, corev1.PersistentVolumeClaimControllerResizeInfeasible,
				corev1.PersistentVolumeClaimNodeResizeInProgress, corev1.PersistentVolumeClaimNodeResizeInfeasible, corev1.PersistentVolumeClaimNodeResizePending}))
		}
	}
	for _, n := range sorted(o.Status.AllocatedResources) {
		q, at := o.Status.AllocatedResources[n], at.Child("allocatedResources")
		if c.claimResource(n, at) {
			c.basic(at.Key(string(n)), q.Value())
		}
	}
	return c.errs
}

func (c *check) basic(at *field.Path, value int64) {
	if value < 0 {
		c.invalid(at, value, "must be a valid resource quantity")
	}
}

func (c *check) claimResource(n corev1.ResourceName, at *field.Path) bool {
	if msgs := validation.IsQualifiedName(string(n)); len(msgs) > 0 {
		c.each(at, string(n), msgs)
		return false
	}
	if native(n) && n != corev1.ResourceStorage {
		c.add(field.NotSupported(at, string(n), []corev1.ResourceName{corev1.ResourceStorage}))
		return false
	}
	return true
}

// driver is the name of a CSI driver.
func (c *check) driver(at *field.Path, name string) {
	if name == "" {
		c.required(at, "")
		return
	}
	if len(name) > 63 {
		c.add(field.TooLong(at, "", 63))
	}
	c.each(at, name, validation.IsDNS1123Subdomain(strings.ToLower(name)))
}
