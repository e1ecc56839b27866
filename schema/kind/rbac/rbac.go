package rbac

import (
	rbacv1 "k8s.io/api/rbac/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/valid"
)

// Role is the judge of its kind.
var Role = &kind.Kind{
	Resource: schema.ResourceFor[*rbacv1.Role](),
	Name:     valid.PathSegment, CreateOnUpdate: true, OwnSchema: true,
	Validate: func(o schema.Object) field.ErrorList { return policyRuleErrors(o.(*rbacv1.Role).Rules, true) },
}

// ClusterRole is the judge of its kind.
var ClusterRole = &kind.Kind{
	Resource: schema.ResourceFor[*rbacv1.ClusterRole](),
	Name:     valid.PathSegment, CreateOnUpdate: true, OwnSchema: true,
	Validate: func(o schema.Object) field.ErrorList {
		r := o.(*rbacv1.ClusterRole)
		return append(policyRuleErrors(r.Rules, false), aggregationErrors(r.AggregationRule)...)
	},
}

// RoleBinding is the judge of its kind.
var RoleBinding = &kind.Kind{
	Resource: schema.ResourceFor[*rbacv1.RoleBinding](),
	Name:     valid.PathSegment, CreateOnUpdate: true, OwnImmutable: true, OwnSchema: true,
	Validate: func(o schema.Object) field.ErrorList {
		b := o.(*rbacv1.RoleBinding)
		return roleBindingErrors(b.RoleRef, b.Subjects, "Role", "ClusterRole")
	},
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return roleRefErrors(o.(*rbacv1.RoleBinding).RoleRef, old.(*rbacv1.RoleBinding).RoleRef)
	},
}

// ClusterRoleBinding is the judge of its kind.
var ClusterRoleBinding = &kind.Kind{
	Resource: schema.ResourceFor[*rbacv1.ClusterRoleBinding](),
	Name:     valid.PathSegment, CreateOnUpdate: true, OwnImmutable: true, OwnSchema: true,
	Validate: func(o schema.Object) field.ErrorList {
		b := o.(*rbacv1.ClusterRoleBinding)
		return roleBindingErrors(b.RoleRef, b.Subjects, "ClusterRole")
	},
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return roleRefErrors(o.(*rbacv1.ClusterRoleBinding).RoleRef, old.(*rbacv1.ClusterRoleBinding).RoleRef)
	},
}

func roleRefErrors(is, was rbacv1.RoleRef) field.ErrorList {
	if apiequality.Semantic.DeepEqual(is, was) {
		return nil
	}
	internal := struct{ APIGroup, Kind, Name string }{is.APIGroup, is.Kind, is.Name} // as upstream's texts show it
	return field.ErrorList{field.Invalid(field.NewPath("roleRef"), internal, "cannot change roleRef")}
}

// policyRuleErrors checks what roles allow.
func policyRuleErrors(rules []rbacv1.PolicyRule, namespaced bool) field.ErrorList {
	var errs field.ErrorList
	for i := range rules {
		r, at := &rules[i], field.NewPath("rules").Index(i)
		if len(r.Verbs) == 0 {
			errs = append(errs, field.Required(at.Child("verbs"), "verbs must contain at least one value"))
		}
		if len(r.NonResourceURLs) > 0 {
			at := at.Child("nonResourceURLs")
			if namespaced {
				errs = append(errs, field.Invalid(at, r.NonResourceURLs, "namespaced rules cannot apply to non-resource URLs"))
			}
			if len(r.APIGroups)+len(r.Resources)+len(r.ResourceNames) > 0 {
				errs = append(errs, field.Invalid(at, r.NonResourceURLs, "rules cannot apply to both regular resources and non-resource URLs"))
			}
			continue
		}
		if len(r.APIGroups) == 0 {
			errs = append(errs, field.Required(at.Child("apiGroups"), "resource rules must supply at least one api group"))
		}
		if len(r.Resources) == 0 {
			errs = append(errs, field.Required(at.Child("resources"), "resource rules must supply at least one resource"))
		}
	}
	return errs
}

func aggregationErrors(a *rbacv1.AggregationRule) field.ErrorList {
	if a == nil {
		return nil
	}
	at := field.NewPath("aggregationRule", "clusterRoleSelectors")
	if len(a.ClusterRoleSelectors) == 0 {
		return field.ErrorList{field.Required(at, "at least one clusterRoleSelector required if aggregationRule is non-nil")}
	}
	var errs field.ErrorList
	for i := range a.ClusterRoleSelectors {
		s := &a.ClusterRoleSelectors[i]
		errs = append(errs, valid.LabelSelector(s, at.Index(i))...)
		if sel, err := metav1.LabelSelectorAsSelector(s); err != nil {
			errs = append(errs, field.Invalid(at.Index(i), sel, "invalid label selector."))
		}
	}
	return errs
}

// roleBindingErrors checks who gets which role.
func roleBindingErrors(ref rbacv1.RoleRef, subjects []rbacv1.Subject, kinds ...string) field.ErrorList {
	at := field.NewPath("roleRef")
	errs := valid.OneOf(&ref.APIGroup, at.Child("apiGroup"), rbacv1.GroupName)
	errs = append(errs, valid.OneOf(&ref.Kind, at.Child("kind"), kinds...)...)
	if ref.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	} else {
		errs = append(errs, valid.InvalidAll(at.Child("name"), ref.Name, content.IsPathSegmentName(ref.Name))...)
	}
	for i := range subjects {
		errs = append(errs, subjectErrors(&subjects[i], len(kinds) > 1, field.NewPath("subjects").Index(i))...)
	}
	return errs
}

func subjectErrors(s *rbacv1.Subject, namespaced bool, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), ""))
	}
	switch s.Kind {
	case rbacv1.ServiceAccountKind:
		if s.Name != "" {
			errs = append(errs, valid.InvalidAll(at.Child("name"), s.Name, validation.ValidateServiceAccountName(s.Name, false))...)
		}
		errs = append(errs, valid.OneOf(&s.APIGroup, at.Child("apiGroup"), "")...)
		if !namespaced && s.Namespace == "" {
			errs = append(errs, field.Required(at.Child("namespace"), ""))
		}
	case rbacv1.UserKind, rbacv1.GroupKind:
		errs = append(errs, valid.OneOf(&s.APIGroup, at.Child("apiGroup"), rbacv1.GroupName)...)
	default:
		errs = append(errs, valid.OneOf(&s.Kind, at.Child("kind"), rbacv1.ServiceAccountKind, rbacv1.UserKind, rbacv1.GroupKind)...)
	}
	return errs
}
