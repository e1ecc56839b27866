package policy

import (
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/valid"
)

// PodDisruptionBudget is the judge of its kind.
var PodDisruptionBudget = &kind.Kind{
	Resource:   schema.ResourceFor[*policyv1.PodDisruptionBudget](),
	Generation: true, Conditional: true, OwnSchema: true,
	// Upstream checks no name of a budget.
	Name: valid.PathSegment,
	Validate: func(o schema.Object) field.ErrorList {
		return budgetErrors(&o.(*policyv1.PodDisruptionBudget).Spec)
	},
	ValidateDoor: func(_ string, o, _ schema.Object) field.ErrorList {
		s := &o.(*policyv1.PodDisruptionBudget).Status
		errs := metav1validation.ValidateConditions(s.Conditions, field.NewPath("status", "conditions"))
		return append(errs, valid.Counts(valid.Count{Name: "disruptionsAllowed", N: int64(s.DisruptionsAllowed)}, valid.Count{Name: "currentHealthy", N: int64(s.CurrentHealthy)},
			valid.Count{Name: "desiredHealthy", N: int64(s.DesiredHealthy)}, valid.Count{Name: "expectedPods", N: int64(s.ExpectedPods)})...)
	},
}

func budgetErrors(s *policyv1.PodDisruptionBudgetSpec) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	if s.MinAvailable != nil && s.MaxUnavailable != nil {
		internal := struct { // as upstream's texts show it
			MinAvailable               *intstr.IntOrString
			Selector                   *metav1.LabelSelector
			MaxUnavailable             *intstr.IntOrString
			UnhealthyPodEvictionPolicy *policyv1.UnhealthyPodEvictionPolicyType
		}{s.MinAvailable, s.Selector, s.MaxUnavailable, s.UnhealthyPodEvictionPolicy}
		errs = append(errs, field.Invalid(at, internal, "minAvailable and maxUnavailable cannot be both set"))
	}
	share := func(v *intstr.IntOrString, name string) {
		if v != nil {
			errs = append(errs, valid.Portion(*v, at.Child(name))...)
			errs = append(errs, valid.AtMostAll(*v, at.Child(name))...)
		}
	}
	share(s.MinAvailable, "minAvailable")
	share(s.MaxUnavailable, "maxUnavailable")
	errs = append(errs, valid.LabelSelector(s.Selector, at.Child("selector"))...)
	return append(errs, valid.OneOf(s.UnhealthyPodEvictionPolicy, at.Child("unhealthyPodEvictionPolicy"), "AlwaysAllow", "IfHealthyBudget")...)
}
