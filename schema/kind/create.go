package kind

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
)

// Begin brings a new object into the state in which its life begins.
func (k *Kind) Begin(r *schema.Resource, o schema.Object) {
	if r.Status && !k.KeepsStatus {
		ClearPart(o, "Status")
	}
	if k.Generation { // other kinds keep what they are sent, which means nothing
		o.SetGeneration(1)
	}
	if k.PrepareCreate != nil {
		k.PrepareCreate(o)
	}
}

// CreateErrors are what is wrong with a new object that has its defaults. Of
// custom resources that is the metadata alone: their definitions say the rest.
func (k *Kind) CreateErrors(r *schema.Resource, o schema.Object) field.ErrorList {
	errs := k.MetaErrors(r, o)
	if r.Custom == nil {
		errs = append(errs, finalizerErrors(o)...)
	}
	if k.ValidateCreate != nil {
		errs = append(errs, k.ValidateCreate(o)...)
	}
	if k.Validate != nil {
		errs = append(errs, k.Validate(o)...)
	}
	return errs
}

// MetaErrors are what is wrong with the metadata of an object.
func (k *Kind) MetaErrors(r *schema.Resource, o metav1.Object) field.ErrorList {
	name := k.Name
	if name == nil {
		name = validation.NameIsDNSSubdomain
	}
	return validation.ValidateObjectMetaAccessor(o, r.Namespaced, name, field.NewPath("metadata"))
}

// finalizerErrors finds finalizers without a domain that are none of
// Kubernetes' own.
func finalizerErrors(o metav1.Object) field.ErrorList {
	var errs field.ErrorList
	for i, f := range o.GetFinalizers() {
		if !strings.Contains(f, "/") && f != string(corev1.FinalizerKubernetes) &&
			f != metav1.FinalizerOrphanDependents && f != metav1.FinalizerDeleteDependents {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "finalizers").Index(i), f,
				"name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}
