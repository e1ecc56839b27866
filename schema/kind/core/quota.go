package core

import (
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// QuotaErrors are what is wrong with a quota, besides its metadata.
func QuotaErrors(o *corev1.ResourceQuota) field.ErrorList {
	c, at := &check{}, field.NewPath("spec")
	c.quotaList(o.Spec.Hard, at.Child("hard"))
	scopes := sets.New[corev1.ResourceQuotaScope]()
	for _, s := range o.Spec.Scopes {
		if !knownScope(s) {
			c.invalid(at.Child("scopes"), o.Spec.Scopes, "unsupported scope")
		}
		c.scoped(&o.Spec, s, at.Child("scopes"), o.Spec.Scopes)
		scopes.Insert(s)
	}
	c.conflicts(scopes, at.Child("scopes"), o.Spec.Scopes)
	if o.Spec.ScopeSelector != nil {
		c.scopeSelector(&o.Spec, at.Child("scopeSelector", "matchExpressions"))
	}
	return c.errs
}

// QuotaStatusErrors are what is wrong with the status of a quota.
func QuotaStatusErrors(o *corev1.ResourceQuota) field.ErrorList {
	c, at := &check{}, field.NewPath("status")
	c.quotaList(o.Status.Hard, at.Child("hard"))
	c.quotaList(o.Status.Used, at.Child("used"))
	return c.errs
}

// QuotaUpdateErrors are what is wrong with a change of a quota.
func QuotaUpdateErrors(o, old *corev1.ResourceQuota) field.ErrorList {
	if sets.New(o.Spec.Scopes...).Equal(sets.New(old.Spec.Scopes...)) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "scopes"), o.Spec.Scopes, apivalidation.FieldImmutableErrorMsg)}
}

func (c *check) quotaList(list corev1.ResourceList, at *field.Path) {
	for _, n := range sorted(list) {
		at := at.Key(string(n))
		quotaResource(c, n, at)
		c.quantity(n, list[n], at)
	}
}

func knownScope(s corev1.ResourceQuotaScope) bool {
	switch s {
	case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort,
		corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeVolumeAttributesClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
		return true
	}
	return false
}

var (
	podQuota   = sets.New(corev1.ResourcePods, corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory, corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory)
	claimQuota = sets.New(corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage)
)

// scoped wants a scope to be about what the quota counts.
func (c *check) scoped(s *corev1.ResourceQuotaSpec, scope corev1.ResourceQuotaScope, at *field.Path, shown any) {
	for _, n := range sorted(s.Hard) {
		if !quotaResources.Has(n) && !quotaHugePage(n) {
			continue
		}
		fits := true
		switch scope {
		case corev1.ResourceQuotaScopeBestEffort:
			fits = n == corev1.ResourcePods
		case corev1.ResourceQuotaScopeVolumeAttributesClass:
			fits = claimQuota.Has(n)
		case corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeNotBestEffort,
			corev1.ResourceQuotaScopePriorityClass, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
			fits = podQuota.Has(n)
		}
		if !fits {
			c.invalid(at, shown, "unsupported scope applied to resource")
		}
	}
}

func (c *check) conflicts(s sets.Set[corev1.ResourceQuotaScope], at *field.Path, shown any) {
	if s.HasAll(corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort) {
		c.invalid(at, shown, "conflicting scopes")
	}
	if s.HasAll(corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating) {
		c.invalid(at, shown, "conflicting scopes")
	}
}

func (c *check) scopeSelector(s *corev1.ResourceQuotaSpec, at *field.Path) {
	seen := sets.New[corev1.ResourceQuotaScope]()
	for _, r := range s.ScopeSelector.MatchExpressions {
		if !knownScope(r.ScopeName) {
			c.invalid(at.Child("scopeName"), r.ScopeName, "unsupported scope")
		}
		c.scoped(s, r.ScopeName, at, Internal(s.ScopeSelector))
		switch r.ScopeName {
		case corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort, corev1.ResourceQuotaScopeTerminating,
			corev1.ResourceQuotaScopeNotTerminating, corev1.ResourceQuotaScopeCrossNamespacePodAffinity:
			if r.Operator != corev1.ScopeSelectorOpExists {
				c.invalid(at.Child("operator"), r.Operator, "must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, "+
					"ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity")
			}
		}
		switch r.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			if len(r.Values) == 0 {
				c.required(at.Child("values"), "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector")
			}
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
			if len(r.Values) != 0 {
				c.invalid(at.Child("values"), r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector")
			}
		default:
			c.invalid(at.Child("operator"), r.Operator, "not a valid selector operator")
		}
		seen.Insert(r.ScopeName)
	}
	c.conflicts(seen, at, s.Scopes)
}
