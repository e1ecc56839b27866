package custom

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"

	structural "k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/listtype"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/objectmeta"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
)

// Validate implements schema.Custom. Metadata of the object itself is checked
// by whoever checks it for all kinds.
func (v *Version) Validate(ctx context.Context, o, old *unstructured.Unstructured) field.ErrorList {
	if errs := v.typeMeta(o); len(errs) > 0 {
		return errs
	}
	s, c := v.checks()
	if c.err != nil {
		return field.ErrorList{field.InternalError(nil, c.err)}
	}
	var errs field.ErrorList
	var options []cel.Option
	if old == nil {
		errs = validation.ValidateCustomResource(nil, o.Object, c.whole)
	} else {
		same := correlate(s, o, old)
		errs = validation.ValidateCustomResourceUpdate(nil, o.Object, old.Object, c.whole, validation.WithRatcheting(same))
		options = append(options, cel.WithRatcheting(same))
	}
	byField(errs)
	errs = append(errs, v.scaleSpec(o)...)
	errs = append(errs, v.scaleStatus(o)...)
	errs = append(errs, objectmeta.Validate(nil, o.Object, s, false)...)
	if old == nil || len(listtype.ValidateListSetsAndMaps(nil, s, old.Object)) == 0 {
		errs = append(errs, listtype.ValidateListSetsAndMaps(nil, s, o.Object)...)
	}
	return append(errs, c.cel(ctx, s, errs, o, old, options...)...)
}

// ValidateStatus checks a change that came by the status door: of the schema
// only the part of the status counts.
func (v *Version) ValidateStatus(ctx context.Context, o, old *unstructured.Unstructured) field.ErrorList {
	if errs := v.typeMeta(o); len(errs) > 0 {
		return errs
	}
	s, c := v.checks()
	if c.err != nil {
		return field.ErrorList{field.InternalError(nil, c.err)}
	}
	same := correlate(s, o, old)
	var errs field.ErrorList
	if status, ok := o.Object["status"]; ok && c.status != nil {
		var options []validation.ValidationOption
		if s != nil {
			options = append(options, validation.WithRatcheting(same.Key("status")))
		}
		errs = validation.ValidateCustomResourceUpdate(field.NewPath("status"), status, old.Object["status"], c.status, options...)
	}
	byField(errs)
	errs = append(errs, v.scaleStatus(o)...)
	if fresh := listtype.ValidateListSetsAndMaps(nil, s, o.Object); len(fresh) > 0 &&
		len(listtype.ValidateListSetsAndMaps(nil, s, old.Object)) == 0 {
		errs = append(errs, fresh...)
	}
	return append(errs, c.cel(ctx, s, errs, o, old, cel.WithRatcheting(same))...)
}

// byField puts errors of the schema in an order that is the same every time:
// upstream's is that of a map.
func byField(errs field.ErrorList) {
	slices.SortStableFunc(errs, func(a, b *field.Error) int { return strings.Compare(a.Field, b.Field) })
}

// correlate pairs what is in both states, so that what did not change is not
// held against who changes something else (KEP-4008).
func correlate(s *structural.Structural, o, old *unstructured.Unstructured) *common.CorrelatedObject {
	return common.NewCorrelatedObject(o.Object, old.Object, &model.Structural{Structural: s})
}

// cel runs the rules, unless the object is so wrong that they could not be
// trusted to end in time.
func (c *checks) cel(ctx context.Context, s *structural.Structural, before field.ErrorList, o, old *unstructured.Unstructured, options ...cel.Option) field.ErrorList {
	if c.rules == nil {
		return nil
	}
	for _, e := range before {
		switch e.Type {
		case field.ErrorTypeNotSupported, field.ErrorTypeRequired, field.ErrorTypeTooLong, field.ErrorTypeTooMany, field.ErrorTypeTypeInvalid:
			return field.ErrorList{field.Invalid(nil, nil,
				"some validation rules were not checked because the object was invalid; correct the existing errors to complete validation")}
		}
	}
	var was any
	if old != nil {
		was = old.Object
	}
	errs, _ := c.rules.Validate(ctx, nil, s, o.Object, was, celconfig.RuntimeCELCostBudget, options...)
	return errs
}

func (v *Version) typeMeta(o *unstructured.Unstructured) field.ErrorList {
	var errs field.ErrorList
	if kind := acceptedNames(v.d.def).Kind; o.GetKind() != kind {
		errs = append(errs, field.Invalid(field.NewPath("kind"), o.GetKind(), "must be "+kind))
	}
	if o.GetAPIVersion() != v.apiVersion {
		errs = append(errs, field.Invalid(field.NewPath("apiVersion"), o.GetAPIVersion(), "must be "+v.apiVersion))
	}
	return errs
}

func (v *Version) scaleSpec(o *unstructured.Unstructured) field.ErrorList {
	spec, _, _ := v.ScalePaths()
	if spec == "" {
		return nil
	}
	return replicas(o, spec)
}

func (v *Version) scaleStatus(o *unstructured.Unstructured) field.ErrorList {
	_, status, selector := v.ScalePaths()
	var errs field.ErrorList
	if status != "" {
		errs = replicas(o, status)
	}
	if selector != "" {
		if text, _, err := unstructured.NestedString(o.Object, steps(selector)...); err != nil {
			errs = append(errs, field.Invalid(field.NewPath(selector), text, err.Error()))
		}
	}
	return errs
}

func replicas(o *unstructured.Unstructured, path string) field.ErrorList {
	n, _, err := unstructured.NestedInt64(o.Object, steps(path)...)
	at := field.NewPath(path)
	switch {
	case err != nil:
		return field.ErrorList{field.Invalid(at, n, err.Error())}
	case n < 0:
		return field.ErrorList{field.Invalid(at, n, "should be a non-negative integer")}
	case n > math.MaxInt32:
		return field.ErrorList{field.Invalid(at, n, fmt.Sprintf("should be less than or equal to %v", math.MaxInt32))}
	}
	return nil
}

func steps(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }
