package review

import (
	"fmt"

	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ValidateSelf checks a SelfSubjectAccessReview.
func ValidateSelf(r *authorizationv1.SelfSubjectAccessReview) field.ErrorList {
	errs := validateSubject(r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes, nil)
	return append(errs, emptyMeta(r.ObjectMeta, "must be empty")...)
}

// ValidateSubject checks a SubjectAccessReview.
func ValidateSubject(r *authorizationv1.SubjectAccessReview) field.ErrorList {
	errs := validateSubject(r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes, &r.Spec)
	return append(errs, emptyMeta(r.ObjectMeta, "must be empty")...)
}

// ValidateLocal checks a LocalSubjectAccessReview whose namespace is that of
// the request.
func ValidateLocal(r *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	errs := validateSubject(r.Spec.ResourceAttributes, r.Spec.NonResourceAttributes, &r.Spec)
	meta := r.ObjectMeta
	meta.Namespace = ""
	errs = append(errs, emptyMeta(meta, "must be empty except for namespace")...)
	if a := r.Spec.ResourceAttributes; a != nil && a.Namespace != r.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("spec.resourceAttributes.namespace"), a.Namespace, "must match metadata.namespace"))
	}
	if a := r.Spec.NonResourceAttributes; a != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec.nonResourceAttributes"), shown(a), "disallowed on this kind of request"))
	}
	return errs
}

// shown is a path as upstream's texts have it, whose own types name their
// fields otherwise than the API.
func shown(a *authorizationv1.NonResourceAttributes) any {
	return struct{ Path, Verb string }{a.Path, a.Verb}
}

func emptyMeta(m metav1.ObjectMeta, text string) field.ErrorList {
	m.ManagedFields = nil
	if equality.Semantic.DeepEqual(metav1.ObjectMeta{}, m) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), m, text)}
}

// validateSubject checks what all three have; subject is nil for the one that
// asks about oneself.
func validateSubject(resource *authorizationv1.ResourceAttributes, path *authorizationv1.NonResourceAttributes, subject *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	var errs field.ErrorList
	spec := field.NewPath("spec")
	if resource != nil && path != nil {
		errs = append(errs, field.Invalid(spec.Child("nonResourceAttributes"), shown(path), "cannot be specified in combination with resourceAttributes"))
	}
	if resource == nil && path == nil {
		errs = append(errs, field.Invalid(spec.Child("resourceAttributes"), path, "exactly one of nonResourceAttributes or resourceAttributes must be specified"))
	}
	if subject != nil && subject.User == "" && len(subject.Groups) == 0 {
		errs = append(errs, field.Invalid(spec.Child("user"), subject.User, "at least one of user or group must be specified"))
	}
	if resource == nil {
		return errs
	}
	at := field.NewPath("spec.resourceAttributes")
	if s := resource.FieldSelector; s != nil {
		p := at.Child("fieldSelector")
		errs = append(errs, oneForm(p, s.RawSelector, len(s.Requirements))...)
		opts := metav1validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}
		for i, r := range s.Requirements {
			errs = append(errs, metav1validation.ValidateFieldSelectorRequirement(r, opts, p.Child("requirements").Index(i))...)
		}
	}
	if s := resource.LabelSelector; s != nil {
		p := at.Child("labelSelector")
		errs = append(errs, oneForm(p, s.RawSelector, len(s.Requirements))...)
		opts := metav1validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}
		for i, r := range s.Requirements {
			errs = append(errs, metav1validation.ValidateLabelSelectorRequirement(r, opts, p.Child("requirements").Index(i))...)
		}
	}
	return errs
}

func oneForm(at *field.Path, raw string, requirements int) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(at.Child("rawSelector"), raw, "may not specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(at.Child("requirements"), fmt.Sprintf("when %s is specified, requirements or rawSelector is required", at))}
	}
	return nil
}
