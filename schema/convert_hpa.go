package schema

import (
	"encoding/json"
	"fmt"
	"maps"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// What autoscaling/v1 has no fields for travels in annotations.
const (
	metricsAnnotation        = "autoscaling.alpha.kubernetes.io/metrics"
	currentMetricsAnnotation = "autoscaling.alpha.kubernetes.io/current-metrics"
	conditionsAnnotation     = "autoscaling.alpha.kubernetes.io/conditions"
	behaviorAnnotation       = "autoscaling.alpha.kubernetes.io/behavior"
)

var autoscalerAnnotations = []string{
	metricsAnnotation, currentMetricsAnnotation, conditionsAnnotation, behaviorAnnotation,
	"autoscaling.alpha.kubernetes.io/scale-down-tolerance", "autoscaling.alpha.kubernetes.io/scale-up-tolerance",
}

// defaultUtilization is what an autoscaler aims at that names no metric.
const defaultUtilization = 80

// convertAutoscaler converts between autoscaling/v1 and autoscaling/v2.
func convertAutoscaler(o Object, to schema.GroupVersionKind) (Object, error) {
	switch h := o.(type) {
	case *autoscalingv1.HorizontalPodAutoscaler:
		return autoscalerToV2(h.DeepCopy(), metav1.TypeMeta{APIVersion: to.GroupVersion().String(), Kind: to.Kind}), nil
	case *autoscalingv2.HorizontalPodAutoscaler:
		return autoscalerToV1(h.DeepCopy(), metav1.TypeMeta{APIVersion: to.GroupVersion().String(), Kind: to.Kind})
	}
	return nil, fmt.Errorf("%T is no autoscaler", o)
}

func autoscalerToV2(in *autoscalingv1.HorizontalPodAutoscaler, meta metav1.TypeMeta) *autoscalingv2.HorizontalPodAutoscaler {
	out := &autoscalingv2.HorizontalPodAutoscaler{TypeMeta: meta, ObjectMeta: in.ObjectMeta}
	out.Spec.ScaleTargetRef = autoscalingv2.CrossVersionObjectReference(in.Spec.ScaleTargetRef)
	out.Spec.MinReplicas, out.Spec.MaxReplicas = in.Spec.MinReplicas, in.Spec.MaxReplicas
	// An annotation that cannot be read is ignored, as upstream does.
	var metrics []autoscalingv1.MetricSpec
	if json.Unmarshal([]byte(in.Annotations[metricsAnnotation]), &metrics) == nil {
		for i := range metrics {
			out.Spec.Metrics = append(out.Spec.Metrics, metricToV2(&metrics[i]))
		}
	}
	if p := in.Spec.TargetCPUUtilizationPercentage; p != nil {
		out.Spec.Metrics = append(out.Spec.Metrics, cpuMetric(*p))
	}
	if len(out.Spec.Metrics) == 0 {
		out.Spec.Metrics = []autoscalingv2.MetricSpec{cpuMetric(defaultUtilization)}
	}
	var behavior scalingBehavior
	if json.Unmarshal([]byte(in.Annotations[behaviorAnnotation]), &behavior) == nil {
		out.Spec.Behavior = behavior.v2()
	}
	autoscalerStatusToV2(in, out)
	dropAutoscalerAnnotations(&out.ObjectMeta)
	return out
}

func autoscalerStatusToV2(in *autoscalingv1.HorizontalPodAutoscaler, out *autoscalingv2.HorizontalPodAutoscaler) {
	s := &out.Status
	s.ObservedGeneration, s.LastScaleTime = in.Status.ObservedGeneration, in.Status.LastScaleTime
	s.CurrentReplicas, s.DesiredReplicas = in.Status.CurrentReplicas, in.Status.DesiredReplicas
	if p := in.Status.CurrentCPUUtilizationPercentage; p != nil {
		s.CurrentMetrics = []autoscalingv2.MetricStatus{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricStatus{
				Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{AverageUtilization: p},
			},
		}}
	}
	var metrics []autoscalingv1.MetricStatus
	if json.Unmarshal([]byte(in.Annotations[currentMetricsAnnotation]), &metrics) == nil {
		s.CurrentMetrics = make([]autoscalingv2.MetricStatus, len(metrics))
		for i := range metrics {
			s.CurrentMetrics[i] = statusToV2(&metrics[i])
		}
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	if json.Unmarshal([]byte(in.Annotations[conditionsAnnotation]), &conditions) == nil {
		s.Conditions = make([]autoscalingv2.HorizontalPodAutoscalerCondition, len(conditions))
		for i, c := range conditions {
			s.Conditions[i] = autoscalingv2.HorizontalPodAutoscalerCondition{
				Type: autoscalingv2.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
				LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
			}
		}
	}
}

func autoscalerToV1(in *autoscalingv2.HorizontalPodAutoscaler, meta metav1.TypeMeta) (*autoscalingv1.HorizontalPodAutoscaler, error) {
	out := &autoscalingv1.HorizontalPodAutoscaler{TypeMeta: meta, ObjectMeta: in.ObjectMeta}
	dropAutoscalerAnnotations(&out.ObjectMeta)
	out.Spec.ScaleTargetRef = autoscalingv1.CrossVersionObjectReference(in.Spec.ScaleTargetRef)
	out.Spec.MinReplicas, out.Spec.MaxReplicas = in.Spec.MinReplicas, in.Spec.MaxReplicas
	var others []autoscalingv1.MetricSpec
	for i := range in.Spec.Metrics {
		m := &in.Spec.Metrics[i]
		if p := cpuUtilization(m); p == nil {
			others = append(others, metricToV1(m))
		} else if out.Spec.TargetCPUUtilizationPercentage == nil {
			out.Spec.TargetCPUUtilizationPercentage = p
		}
	}
	s := &out.Status
	s.ObservedGeneration, s.LastScaleTime = in.Status.ObservedGeneration, in.Status.LastScaleTime
	s.CurrentReplicas, s.DesiredReplicas = in.Status.CurrentReplicas, in.Status.DesiredReplicas
	var current []autoscalingv1.MetricStatus
	for i := range in.Status.CurrentMetrics {
		m := &in.Status.CurrentMetrics[i]
		if r := m.Resource; m.Type == autoscalingv2.ResourceMetricSourceType && r != nil && r.Name == corev1.ResourceCPU && r.Current.AverageUtilization != nil {
			s.CurrentCPUUtilizationPercentage = r.Current.AverageUtilization
		}
		current = append(current, statusToV1(m))
	}
	var conditions []autoscalingv1.HorizontalPodAutoscalerCondition
	for _, c := range in.Status.Conditions {
		conditions = append(conditions, autoscalingv1.HorizontalPodAutoscalerCondition{
			Type: autoscalingv1.HorizontalPodAutoscalerConditionType(c.Type), Status: c.Status,
			LastTransitionTime: c.LastTransitionTime, Reason: c.Reason, Message: c.Message,
		})
	}
	var err error
	note := func(key string, have bool, v any) {
		if !have || err != nil {
			return
		}
		var data []byte
		if data, err = json.Marshal(v); err != nil {
			return
		}
		if out.Annotations == nil {
			out.Annotations = map[string]string{}
		}
		out.Annotations[key] = string(data)
	}
	note(metricsAnnotation, len(others) > 0, others)
	note(currentMetricsAnnotation, len(current) > 0, current)
	note(behaviorAnnotation, in.Spec.Behavior != nil, behaviorOf(in.Spec.Behavior))
	note(conditionsAnnotation, len(conditions) > 0, conditions)
	return out, err
}

// cpuUtilization is the wanted utilization of a metric of the CPU, which is
// all that autoscaling/v1 has a field for; nil for others.
func cpuUtilization(m *autoscalingv2.MetricSpec) *int32 {
	if m.Type != autoscalingv2.ResourceMetricSourceType || m.Resource == nil || m.Resource.Name != corev1.ResourceCPU {
		return nil
	}
	return m.Resource.Target.AverageUtilization
}

func cpuMetric(percent int32) autoscalingv2.MetricSpec {
	return autoscalingv2.MetricSpec{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricSource{
			Name:   corev1.ResourceCPU,
			Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: &percent},
		},
	}
}

func dropAutoscalerAnnotations(m *metav1.ObjectMeta) {
	for _, key := range autoscalerAnnotations {
		if _, ok := m.Annotations[key]; ok {
			m.Annotations = maps.Clone(m.Annotations)
			for _, key := range autoscalerAnnotations {
				delete(m.Annotations, key)
			}
			return
		}
	}
}

// scalingBehavior is the behavior as the annotation spells it: upstream wrote a
// type without JSON names into it, and keeps to that.
type scalingBehavior struct{ ScaleUp, ScaleDown *scalingRules }

type scalingRules struct {
	StabilizationWindowSeconds *int32
	SelectPolicy               *autoscalingv2.ScalingPolicySelect
	Policies                   []scalingPolicy
	Tolerance                  *resource.Quantity
}

type scalingPolicy struct {
	Type          autoscalingv2.HPAScalingPolicyType
	Value         int32
	PeriodSeconds int32
}

func behaviorOf(b *autoscalingv2.HorizontalPodAutoscalerBehavior) *scalingBehavior {
	if b == nil {
		return nil
	}
	return &scalingBehavior{ScaleUp: rulesOf(b.ScaleUp), ScaleDown: rulesOf(b.ScaleDown)}
}

func rulesOf(r *autoscalingv2.HPAScalingRules) *scalingRules {
	if r == nil {
		return nil
	}
	out := &scalingRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, scalingPolicy(p))
	}
	return out
}

func (b scalingBehavior) v2() *autoscalingv2.HorizontalPodAutoscalerBehavior {
	if b.ScaleUp == nil && b.ScaleDown == nil {
		return nil
	}
	return &autoscalingv2.HorizontalPodAutoscalerBehavior{ScaleUp: b.ScaleUp.v2(), ScaleDown: b.ScaleDown.v2()}
}

func (r *scalingRules) v2() *autoscalingv2.HPAScalingRules {
	if r == nil {
		return nil
	}
	out := &autoscalingv2.HPAScalingRules{StabilizationWindowSeconds: r.StabilizationWindowSeconds, SelectPolicy: r.SelectPolicy, Tolerance: r.Tolerance}
	for _, p := range r.Policies {
		out.Policies = append(out.Policies, autoscalingv2.HPAScalingPolicy(p))
	}
	return out
}
