package core

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// LimitRangeErrors are what is wrong with a range of limits, besides its
// metadata.
func LimitRangeErrors(o *corev1.LimitRange) field.ErrorList {
	c := &check{}
	seen := sets.New[corev1.LimitType]()
	for i := range o.Spec.Limits {
		l, at := &o.Spec.Limits[i], field.NewPath("spec", "limits").Index(i)
		c.limitType(l.Type, at.Child("type"))
		if seen.Has(l.Type) {
			c.add(field.Duplicate(at.Child("type"), l.Type))
		}
		seen.Insert(l.Type)
		c.limit(l, at)
	}
	return c.errs
}

func (c *check) limitType(t corev1.LimitType, at *field.Path) {
	if msgs := validation.IsQualifiedName(string(t)); len(msgs) > 0 {
		c.each(at, t, msgs)
		return
	}
	if !strings.Contains(string(t), "/") && t != corev1.LimitTypePod && t != corev1.LimitTypeContainer && t != corev1.LimitTypePersistentVolumeClaim {
		c.invalid(at, t, "must be a standard limit type or fully qualified")
	}
}

func (c *check) limit(l *corev1.LimitRangeItem, at *field.Path) {
	keys := sets.New[corev1.ResourceName]()
	names := func(list corev1.ResourceList, at *field.Path) {
		for _, n := range sorted(list) {
			if l.Type == corev1.LimitTypePod || l.Type == corev1.LimitTypeContainer {
				containerResource(c, n, at.Key(string(n)))
			} else {
				resourceName(c, n, at.Key(string(n)))
			}
			keys.Insert(n)
		}
	}
	names(l.Max, at.Child("max"))
	names(l.Min, at.Child("min"))
	defaults, requests := l.Default, l.DefaultRequest
	if l.Type == corev1.LimitTypePod {
		if len(defaults) > 0 {
			c.forbid(at.Child("default"), "may not be specified when `type` is 'Pod'")
		}
		if len(requests) > 0 {
			c.forbid(at.Child("defaultRequest"), "may not be specified when `type` is 'Pod'")
		}
		defaults, requests = nil, nil
	}
	names(defaults, at.Child("default"))
	names(requests, at.Child("defaultRequest"))
	if l.Type == corev1.LimitTypePersistentVolumeClaim {
		_, lo := l.Min[corev1.ResourceStorage]
		_, hi := l.Max[corev1.ResourceStorage]
		if !lo && !hi {
			c.required(at.Child("limits"), "either minimum or maximum storage value is required, but neither was provided")
		}
	}
	names(l.MaxLimitRequestRatio, at.Child("maxLimitRequestRatio"))
	for _, n := range sets.List(keys) {
		c.order(n, l, defaults, requests, at)
	}
}

// amount is a quantity that may not be there.
type amount struct {
	resource.Quantity
	set bool
}

func amountOf(list corev1.ResourceList, n corev1.ResourceName) amount {
	q, ok := list[n]
	return amount{q, ok}
}

func (a amount) above(b amount) bool { return a.set && b.set && a.Cmp(b.Quantity) > 0 }

// order wants min <= default request <= default <= max.
func (c *check) order(n corev1.ResourceName, l *corev1.LimitRangeItem, defaults, requests corev1.ResourceList, at *field.Path) {
	lo, hi, def, req, ratio := amountOf(l.Min, n), amountOf(l.Max, n), amountOf(defaults, n), amountOf(requests, n), amountOf(l.MaxLimitRequestRatio, n)
	wrong := func(f string, shown amount, format string, args ...any) {
		c.invalid(at.Child(f).Key(string(n)), shown.Quantity, fmt.Sprintf(format, args...))
	}
	if lo.above(hi) {
		wrong("min", lo, "min value %s is greater than max value %s", lo.String(), hi.String())
	}
	if lo.above(req) {
		wrong("defaultRequest", req, "min value %s is greater than default request value %s", lo.String(), req.String())
	}
	if req.above(hi) {
		wrong("defaultRequest", req, "default request value %s is greater than max value %s", req.String(), hi.String())
	}
	if req.above(def) {
		wrong("defaultRequest", req, "default request value %s is greater than default limit value %s", req.String(), def.String())
	}
	if lo.above(def) {
		wrong("default", lo, "min value %s is greater than default value %s", lo.String(), def.String())
	}
	if def.above(hi) {
		wrong("default", hi, "default value %s is greater than max value %s", def.String(), hi.String())
	}
	if ratio.set && ratio.Cmp(resource.MustParse("1")) < 0 {
		wrong("maxLimitRequestRatio", ratio, "ratio %s is less than 1", ratio.String())
	}
	if ratio.set && lo.set && hi.set {
		if most := hi.AsApproximateFloat64() / lo.AsApproximateFloat64(); ratio.AsApproximateFloat64() > most {
			wrong("maxLimitRequestRatio", ratio, "ratio %s is greater than max/min = %f", ratio.String(), most)
		}
	}
	if !overcommitted(n) && def.set && req.set && def.Cmp(req.Quantity) != 0 {
		wrong("defaultRequest", req, "default value %s must equal to defaultRequest value %s in %s", def.String(), req.String(), n)
	}
}
