package autoscaling

import (
	"fmt"

	autoscalingv2 "k8s.io/api/autoscaling/v2"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/valid"
)

// HorizontalPodAutoscaler is the judge of its kind.
var HorizontalPodAutoscaler = &kind.Kind{
	Resource:  schema.ResourceFor[*autoscalingv2.HorizontalPodAutoscaler](),
	OwnSchema: true,
	ValidateCreate: func(o schema.Object) field.ErrorList {
		return autoscalerErrors(&o.(*autoscalingv2.HorizontalPodAutoscaler).Spec, nil)
	},
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return autoscalerErrors(&o.(*autoscalingv2.HorizontalPodAutoscaler).Spec, &old.(*autoscalingv2.HorizontalPodAutoscaler).Spec)
	},
	ValidateDoor: func(_ string, o, _ schema.Object) field.ErrorList {
		s := &o.(*autoscalingv2.HorizontalPodAutoscaler).Status
		return valid.Counts(valid.Count{Name: "currentReplicas", N: int64(s.CurrentReplicas)}, valid.Count{Name: "desiredReplicas", N: int64(s.DesiredReplicas)})
	},
}

func autoscalerErrors(s, old *autoscalingv2.HorizontalPodAutoscalerSpec) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	lowest := int32(1)
	if old != nil && old.MinReplicas != nil && *old.MinReplicas == 0 {
		lowest = 0
	}
	if n := s.MinReplicas; n != nil && *n < lowest {
		errs = append(errs, field.Invalid(at.Child("minReplicas"), *n, fmt.Sprintf("must be greater than or equal to %d", lowest)))
	}
	switch n := s.MaxReplicas; {
	case n == 0:
		errs = append(errs, field.Required(at.Child("maxReplicas"), "must be set and greater than 0"))
	case n < 0:
		errs = append(errs, field.Invalid(at.Child("maxReplicas"), n, "must be greater than or equal to 1"))
	}
	if s.MinReplicas != nil && s.MaxReplicas < *s.MinReplicas {
		errs = append(errs, field.Invalid(at.Child("maxReplicas"), s.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	lenient := old != nil && targetVersion(old.ScaleTargetRef, false) != nil
	errs = append(errs, targetRefErrors(s.ScaleTargetRef, lenient, false, at.Child("scaleTargetRef"))...)
	errs = append(errs, metricsErrors(s, old, at.Child("metrics"))...)
	if s.Behavior != nil {
		errs = append(errs, scalingErrors(s.Behavior.ScaleUp, at.Child("behavior", "scaleUp"))...)
		errs = append(errs, scalingErrors(s.Behavior.ScaleDown, at.Child("behavior", "scaleDown"))...)
	}
	return errs
}

// targetRefErrors checks the reference to what is scaled or measured. lenient
// lets the version be what it has been.
func targetRefErrors(r autoscalingv2.CrossVersionObjectReference, lenient, core bool, at *field.Path) field.ErrorList {
	errs := valid.Segment(r.Kind, at.Child("kind"))
	errs = append(errs, valid.Segment(r.Name, at.Child("name"))...)
	if err := targetVersion(r, core); err != nil && !lenient {
		errs = append(errs, field.Invalid(at.Child("apiVersion"), r.APIVersion, err.Error()))
	}
	return errs
}

func targetVersion(r autoscalingv2.CrossVersionObjectReference, core bool) error {
	gv, err := kschema.ParseGroupVersion(r.APIVersion)
	if err == nil && !core && gv.Group == "" {
		return fmt.Errorf("apiVersion must specify API group")
	}
	return err
}

func metricsErrors(s, old *autoscalingv2.HorizontalPodAutoscalerSpec, at *field.Path) field.ErrorList {
	lenient := false
	if old != nil {
		for _, m := range old.Metrics {
			lenient = lenient || m.Object != nil && targetVersion(m.Object.DescribedObject, true) != nil
		}
	}
	var errs field.ErrorList
	elsewhere := false
	for i := range s.Metrics {
		m := &s.Metrics[i]
		errs = append(errs, metricErrors(m, lenient, at.Index(i))...)
		elsewhere = elsewhere || m.Type == autoscalingv2.ObjectMetricSourceType || m.Type == autoscalingv2.ExternalMetricSourceType
	}
	if s.MinReplicas != nil && *s.MinReplicas == 0 && !elsewhere {
		errs = append(errs, field.Forbidden(at, "must specify at least one Object or External metric to support scaling to zero replicas"))
	}
	return errs
}

func scalingErrors(r *autoscalingv2.HPAScalingRules, at *field.Path) field.ErrorList {
	const longestWindow, longestPeriod = 3600, 1800
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	if n := r.StabilizationWindowSeconds; n != nil {
		if *n < 0 {
			errs = append(errs, field.Invalid(at.Child("stabilizationWindowSeconds"), *n, "must be greater than or equal to zero"))
		}
		if *n > longestWindow {
			errs = append(errs, field.Invalid(at.Child("stabilizationWindowSeconds"), *n, fmt.Sprintf("must be less than or equal to %v", longestWindow)))
		}
	}
	errs = append(errs, valid.OneOf(r.SelectPolicy, at.Child("selectPolicy"), "Disabled", "Max", "Min")...)
	if len(r.Policies) == 0 {
		errs = append(errs, field.Required(at.Child("policies"), "must specify at least one Policy"))
	}
	for i := range r.Policies {
		p, at := &r.Policies[i], at.Child("policies").Index(i)
		errs = append(errs, valid.OneOf(&p.Type, at.Child("type"), "Percent", "Pods")...)
		if p.Value <= 0 {
			errs = append(errs, field.Invalid(at.Child("value"), p.Value, "must be greater than zero"))
		}
		if p.PeriodSeconds <= 0 {
			errs = append(errs, field.Invalid(at.Child("periodSeconds"), p.PeriodSeconds, "must be greater than zero"))
		}
		if p.PeriodSeconds > longestPeriod {
			errs = append(errs, field.Invalid(at.Child("periodSeconds"), p.PeriodSeconds, fmt.Sprintf("must be less than or equal to %v", longestPeriod)))
		}
	}
	if r.Tolerance != nil && r.Tolerance.Sign() < 0 {
		errs = append(errs, field.Invalid(at.Child("tolerance"), r.Tolerance.String(), "must be greater than or equal to 0"))
	}
	return errs
}
