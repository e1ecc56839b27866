package coordination

import (
	"strings"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/valid"
)

// Lease is the judge of its kind.
var Lease = &kind.Kind{
	Resource:    schema.ResourceFor[*coordinationv1.Lease](),
	Conditional: true, CreateOnUpdate: true, OwnSchema: true,
	PrepareCreate: func(o schema.Object) { dropStrategy(&o.(*coordinationv1.Lease).Spec, &coordinationv1.LeaseSpec{}) },
	PrepareUpdate: func(o, old schema.Object) {
		dropStrategy(&o.(*coordinationv1.Lease).Spec, &old.(*coordinationv1.Lease).Spec)
	},
	Validate: func(o schema.Object) field.ErrorList { return leaseErrors(&o.(*coordinationv1.Lease).Spec) },
}

// dropStrategy takes away what coordinated leader election (KEP-4355) says in a
// lease: upstream's gate of it is off. What is stored stays.
func dropStrategy(s, old *coordinationv1.LeaseSpec) {
	if old.Strategy == nil {
		s.Strategy = nil
	}
	if old.PreferredHolder == nil {
		s.PreferredHolder = nil
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
	if valid.Deref(s.PreferredHolder) != "" && valid.Deref(s.Strategy) == "" {
		errs = append(errs, field.Forbidden(at.Child("preferredHolder"), "may only be specified if `strategy` is defined"))
	}
	return errs
}

// strategyErrors checks how the holder of a lease is chosen: as Kubernetes knows
// it, or as somebody else does, by a name with a domain. The path is upstream's.
func strategyErrors(s coordinationv1.CoordinatedLeaseStrategy, at *field.Path) field.ErrorList {
	at = at.Child("strategy")
	if !strings.Contains(string(s), "/") {
		if s == coordinationv1.OldestEmulationVersion {
			return nil
		}
		return field.ErrorList{field.NotSupported(at, s, []coordinationv1.CoordinatedLeaseStrategy{coordinationv1.OldestEmulationVersion})}
	}
	var errs field.ErrorList
	for _, text := range validation.IsQualifiedName(string(s)) {
		errs = append(errs, field.Invalid(at, s, text))
	}
	return errs
}
