package registry

import (
	"slices"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
)

// leaseRule: who renews a lease must have seen the newest one.
func leaseRule() *rule {
	return &rule{
		conditional: true, createOnUpdate: true, ownSchema: true,
		validate: func(o schema.Object) field.ErrorList { return leaseErrors(&o.(*coordinationv1.Lease).Spec) },
	}
}

func leaseErrors(s *coordinationv1.LeaseSpec) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	if n := s.LeaseDurationSeconds; n != nil && *n <= 0 {
		errs = append(errs, field.Invalid(at.Child("leaseDurationSeconds"), *n, "must be greater than 0"))
	}
	if n := s.LeaseTransitions; n != nil && *n < 0 {
		errs = append(errs, field.Invalid(at.Child("leaseTransitions"), *n, "must be greater than or equal to 0"))
	}
	if s.Strategy != nil {
		errs = append(errs, strategyErrors(*s.Strategy, at.Child("strategy"))...)
	}
	if deref(s.PreferredHolder) != "" && deref(s.Strategy) == "" {
		errs = append(errs, field.Forbidden(at.Child("preferredHolder"), "may only be specified if `strategy` is defined"))
	}
	return errs
}

// strategyErrors checks how the holder of a lease is chosen: as Kubernetes knows
// it, or as somebody else does, by a name with a domain.
func strategyErrors(s coordinationv1.CoordinatedLeaseStrategy, at *field.Path) field.ErrorList {
	if slices.Contains([]coordinationv1.CoordinatedLeaseStrategy{coordinationv1.OldestEmulationVersion}, s) {
		return nil
	}
	return validation.IsDomainPrefixedKey(at, string(s))
}
