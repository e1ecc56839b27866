package autoscaling

import (
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/api/validate/content"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema/kind/valid"
)

// metricErrors checks what a metric is measured on: one source, that of its
// type. Of several sources the first is looked at.
func metricErrors(m *autoscalingv2.MetricSpec, lenient bool, at *field.Path) field.ErrorList {
	words := []autoscalingv2.MetricSourceType{"ContainerResource", "External", "Object", "Pods", "Resource"}
	var errs field.ErrorList
	if m.Type == "" {
		errs = append(errs, field.Required(at.Child("type"), "must specify a metric source type"))
	}
	kind := valid.OneOf(&m.Type, at.Child("type"), "ContainerResource", "External", "Object", "Pods", "Resource")
	errs = append(errs, kind...)
	sources := []struct {
		kind  autoscalingv2.MetricSourceType
		name  string
		has   bool
		check func(*field.Path) field.ErrorList
	}{
		{words[2], "object", m.Object != nil, func(at *field.Path) field.ErrorList { return objectMetricErrors(m.Object, lenient, at) }},
		{words[1], "external", m.External != nil, func(at *field.Path) field.ErrorList { return externalMetricErrors(m.External, at) }},
		{words[3], "pods", m.Pods != nil, func(at *field.Path) field.ErrorList { return podsMetricErrors(m.Pods, at) }},
		{words[4], "resource", m.Resource != nil, func(at *field.Path) field.ErrorList { return resourceMetricErrors(m.Resource, at) }},
		{words[0], "containerResource", m.ContainerResource != nil, func(at *field.Path) field.ErrorList {
			return containerMetricErrors(m.ContainerResource, at)
		}},
	}
	n := 0
	for _, s := range sources {
		if !s.has {
			continue
		}
		if n++; n == 1 {
			errs = append(errs, s.check(at.Child(s.name))...)
		}
	}
	for _, s := range sources {
		if s.kind == m.Type && !s.has {
			errs = append(errs, field.Required(at.Child(s.name), "must populate information for the given metric source"))
		}
	}
	errs = append(errs, kind...) // upstream says it twice
	for _, s := range sources {
		if n > 1 && s.has && s.kind != m.Type {
			errs = append(errs, field.Forbidden(at.Child(s.name), "must populate the given metric source only"))
		}
	}
	return errs
}

func objectMetricErrors(s *autoscalingv2.ObjectMetricSource, lenient bool, at *field.Path) field.ErrorList {
	errs := targetRefErrors(s.DescribedObject, lenient, true, at.Child("describedObject"))
	errs = append(errs, metricNameErrors(s.Metric.Name, at)...)
	errs = append(errs, metricTargetErrors(&s.Target, at.Child("target"))...)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		errs = append(errs, field.Required(at.Child("target", "averageValue"), "must set either a target value or averageValue"))
	}
	return errs
}

func externalMetricErrors(s *autoscalingv2.ExternalMetricSource, at *field.Path) field.ErrorList {
	errs := metricNameErrors(s.Metric.Name, at)
	errs = append(errs, metricTargetErrors(&s.Target, at.Child("target"))...)
	if s.Target.Value == nil && s.Target.AverageValue == nil {
		errs = append(errs, field.Required(at.Child("target", "averageValue"), "must set either a target value for metric or a per-pod target"))
	}
	if s.Target.Value != nil && s.Target.AverageValue != nil {
		errs = append(errs, field.Forbidden(at.Child("target", "value"), "may not set both a target value for metric and a per-pod target"))
	}
	return errs
}

func podsMetricErrors(s *autoscalingv2.PodsMetricSource, at *field.Path) field.ErrorList {
	errs := metricNameErrors(s.Metric.Name, at)
	errs = append(errs, metricTargetErrors(&s.Target, at.Child("target"))...)
	if s.Target.AverageValue == nil {
		errs = append(errs, field.Required(at.Child("target", "averageValue"), "must specify a positive target averageValue"))
	}
	return errs
}

func resourceMetricErrors(s *autoscalingv2.ResourceMetricSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), "must specify a resource name"))
	}
	errs = append(errs, metricTargetErrors(&s.Target, at.Child("target"))...)
	return append(errs, oneTargetErrors(&s.Target, at.Child("target"))...)
}

func containerMetricErrors(s *autoscalingv2.ContainerResourceMetricSource, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Name == "" {
		errs = append(errs, field.Required(at.Child("name"), "must specify a resource name"))
	} else {
		errs = append(errs, valid.InvalidAll(at.Child("name"), s.Name, content.IsLabelKey(string(s.Name)))...)
	}
	if s.Container == "" {
		errs = append(errs, field.Required(at.Child("container"), "must specify a container"))
	} else {
		errs = append(errs, valid.InvalidAll(at.Child("container"), s.Container, validation.IsDNS1123Label(s.Container))...)
	}
	errs = append(errs, metricTargetErrors(&s.Target, at.Child("target"))...)
	return append(errs, oneTargetErrors(&s.Target, at.Child("target"))...)
}

func oneTargetErrors(t *autoscalingv2.MetricTarget, at *field.Path) field.ErrorList {
	switch raw, part := t.AverageValue != nil, t.AverageUtilization != nil; {
	case !raw && !part:
		return field.ErrorList{field.Required(at.Child("averageUtilization"), "must set either a target raw value or a target utilization")}
	case raw && part:
		return field.ErrorList{field.Forbidden(at.Child("averageValue"), "may not set both a target raw value and a target utilization")}
	}
	return nil
}

func metricNameErrors(name string, at *field.Path) field.ErrorList {
	at = at.Child("metric", "name")
	if name == "" {
		return field.ErrorList{field.Required(at, "must specify a metric name")}
	}
	return valid.InvalidAll(at, name, content.IsPathSegmentName(name))
}

func metricTargetErrors(t *autoscalingv2.MetricTarget, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	switch t.Type {
	case autoscalingv2.UtilizationMetricType, autoscalingv2.ValueMetricType, autoscalingv2.AverageValueMetricType:
	default:
		if t.Type == "" {
			errs = append(errs, field.Required(at.Child("type"), "must specify a metric target type"))
		}
		errs = append(errs, field.Invalid(at.Child("type"), t.Type, "must be either Utilization, Value, or AverageValue"))
	}
	positive := func(q *resource.Quantity, name string) {
		if q != nil && q.Sign() != 1 {
			errs = append(errs, field.Invalid(at.Child(name), q, "must be positive"))
		}
	}
	positive(t.Value, "value")
	positive(t.AverageValue, "averageValue")
	if n := t.AverageUtilization; n != nil && *n < 1 {
		errs = append(errs, field.Invalid(at.Child("averageUtilization"), *n, "must be greater than 0"))
	}
	return errs
}
