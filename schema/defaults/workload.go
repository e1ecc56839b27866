package defaults

import (
	"maps"
	"math"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func setDeploymentStrategy(o *appsv1.DeploymentStrategy) {
	if o.Type == "" {
		o.Type = appsv1.RollingUpdateDeploymentStrategyType
	}
	if o.Type != appsv1.RollingUpdateDeploymentStrategyType {
		return
	}
	if o.RollingUpdate == nil {
		o.RollingUpdate = &appsv1.RollingUpdateDeployment{}
	}
	orElse(&o.RollingUpdate.MaxUnavailable, intstr.FromString("25%"))
	orElse(&o.RollingUpdate.MaxSurge, intstr.FromString("25%"))
}

func setDaemonSetUpdateStrategy(o *appsv1.DaemonSetUpdateStrategy) {
	if o.Type == "" {
		o.Type = appsv1.RollingUpdateDaemonSetStrategyType
	}
	if o.Type != appsv1.RollingUpdateDaemonSetStrategyType {
		return
	}
	if o.RollingUpdate == nil {
		o.RollingUpdate = &appsv1.RollingUpdateDaemonSet{}
	}
	orElse(&o.RollingUpdate.MaxUnavailable, intstr.FromInt32(1))
	orElse(&o.RollingUpdate.MaxSurge, intstr.FromInt32(0))
}

func setStatefulSetUpdateStrategy(o *appsv1.StatefulSetUpdateStrategy) {
	if o.Type == "" {
		o.Type = appsv1.RollingUpdateStatefulSetStrategyType
		if o.RollingUpdate == nil {
			o.RollingUpdate = &appsv1.RollingUpdateStatefulSetStrategy{}
		}
	}
	if o.Type == appsv1.RollingUpdateStatefulSetStrategyType && o.RollingUpdate != nil && o.RollingUpdate.Partition == nil {
		o.RollingUpdate.Partition = new(int32(0))
	}
}

func setStatefulSetSpec(o *appsv1.StatefulSetSpec) {
	if o.PersistentVolumeClaimRetentionPolicy == nil {
		o.PersistentVolumeClaimRetentionPolicy = &appsv1.StatefulSetPersistentVolumeClaimRetentionPolicy{}
	}
}

func orElse(p **intstr.IntOrString, v intstr.IntOrString) {
	if *p == nil {
		*p = &v
	}
}

// setJob sets the defaults of a job. Those of a template (of a cron job) stay
// left out until there is a job.
func setJob(o *batchv1.Job) {
	if len(o.Labels) == 0 && o.Spec.Template.Labels != nil {
		o.Labels = maps.Clone(o.Spec.Template.Labels)
	}
	s := &o.Spec
	if s.Parallelism == nil {
		if s.Completions == nil {
			s.Completions = new(int32(1))
		}
		s.Parallelism = new(int32(1))
	}
	if s.BackoffLimit == nil {
		s.BackoffLimit = new(int32(6))
		if s.BackoffLimitPerIndex != nil {
			*s.BackoffLimit = math.MaxInt32
		}
	}
	if s.CompletionMode == nil {
		s.CompletionMode = new(batchv1.NonIndexedCompletion)
	}
	if s.Suspend == nil {
		s.Suspend = new(false)
	}
	if s.ManualSelector == nil {
		s.ManualSelector = new(false)
	}
	if s.PodReplacementPolicy == nil {
		s.PodReplacementPolicy = new(batchv1.TerminatingOrFailed)
		if s.PodFailurePolicy != nil {
			*s.PodReplacementPolicy = batchv1.Failed
		}
	}
}

// setHorizontalPodAutoscaler scales by CPU if nothing is said, and completes
// the rules of scaling if some are.
func setHorizontalPodAutoscaler(o *autoscalingv2.HorizontalPodAutoscaler) {
	if len(o.Spec.Metrics) == 0 {
		o.Spec.Metrics = []autoscalingv2.MetricSpec{{
			Type: autoscalingv2.ResourceMetricSourceType,
			Resource: &autoscalingv2.ResourceMetricSource{
				Name:   corev1.ResourceCPU,
				Target: autoscalingv2.MetricTarget{Type: autoscalingv2.UtilizationMetricType, AverageUtilization: new(int32(80))},
			},
		}}
	}
	if b := o.Spec.Behavior; b != nil {
		b.ScaleUp = scalingRules(b.ScaleUp, autoscalingv2.HPAScalingRules{
			StabilizationWindowSeconds: new(int32(0)),
			SelectPolicy:               new(autoscalingv2.MaxChangePolicySelect),
			Policies: []autoscalingv2.HPAScalingPolicy{
				{Type: autoscalingv2.PodsScalingPolicy, Value: 4, PeriodSeconds: 15},
				{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15},
			},
		})
		b.ScaleDown = scalingRules(b.ScaleDown, autoscalingv2.HPAScalingRules{
			SelectPolicy: new(autoscalingv2.MaxChangePolicySelect),
			Policies:     []autoscalingv2.HPAScalingPolicy{{Type: autoscalingv2.PercentScalingPolicy, Value: 100, PeriodSeconds: 15}},
		})
	}
}

// scalingRules fills what is left out of the rules of one direction.
func scalingRules(have *autoscalingv2.HPAScalingRules, r autoscalingv2.HPAScalingRules) *autoscalingv2.HPAScalingRules {
	if have == nil {
		return &r
	}
	if have.SelectPolicy == nil {
		have.SelectPolicy = r.SelectPolicy
	}
	if have.StabilizationWindowSeconds == nil {
		have.StabilizationWindowSeconds = r.StabilizationWindowSeconds
	}
	if have.Policies == nil {
		have.Policies = r.Policies
	}
	return have
}

// setNetworkPolicySpec derives the directions from the rules.
func setNetworkPolicySpec(o *networkingv1.NetworkPolicySpec) {
	if len(o.PolicyTypes) > 0 {
		return
	}
	o.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	if len(o.Egress) > 0 {
		o.PolicyTypes = append(o.PolicyTypes, networkingv1.PolicyTypeEgress)
	}
}

func setIngressClassParametersReference(o *networkingv1.IngressClassParametersReference) {
	if o.Scope == nil {
		o.Scope = new(networkingv1.IngressClassParametersReferenceScopeCluster)
	}
}

func setSubject(o *rbacv1.Subject) {
	if o.APIGroup == "" && (o.Kind == rbacv1.UserKind || o.Kind == rbacv1.GroupKind) {
		o.APIGroup = rbacv1.GroupName
	}
}
