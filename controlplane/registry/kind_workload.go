package registry

import (
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
)

func workloadRules(rules map[*schema.Resource]*rule) {
	rules[schema.ResourceFor[*appsv1.Deployment]()] = &rule{generation: true, annotations: true, validate: templateRule}
	rules[schema.ResourceFor[*appsv1.ReplicaSet]()] = &rule{generation: true, validate: templateRule}
	rules[schema.ResourceFor[*appsv1.DaemonSet]()] = &rule{generation: true, validate: templateRule}
	rules[schema.ResourceFor[*appsv1.StatefulSet]()] = &rule{
		generation: true, validate: templateRule, ownImmutable: true, validateUpdate: statefulSetUpdateErrors,
		name:   validation.NameIsDNSLabel,
		normal: func(o schema.Object) { nameClaimKinds(o.(*appsv1.StatefulSet)) },
	}
	rules[schema.ResourceFor[*corev1.ReplicationController]()] = &rule{generation: true, validate: templateRule}
	rules[schema.ResourceFor[*policyv1.PodDisruptionBudget]()] = &rule{generation: true, validate: budgetErrors}
	rules[schema.ResourceFor[*autoscalingv2.HorizontalPodAutoscaler]()] = &rule{validate: autoscalerErrors}
	rules[schema.ResourceFor[*appsv1.ControllerRevision]()] = &rule{}
}

// templateOf returns the selector and the pod template of a workload.
func templateOf(o schema.Object) (*metav1.LabelSelector, *corev1.PodTemplateSpec) {
	switch t := o.(type) {
	case *appsv1.Deployment:
		return t.Spec.Selector, &t.Spec.Template
	case *appsv1.ReplicaSet:
		return t.Spec.Selector, &t.Spec.Template
	case *appsv1.DaemonSet:
		return t.Spec.Selector, &t.Spec.Template
	case *appsv1.StatefulSet:
		return t.Spec.Selector, &t.Spec.Template
	case *corev1.ReplicationController:
		if t.Spec.Template == nil {
			return nil, nil
		}
		return metav1.SetAsLabelSelector(t.Spec.Selector), t.Spec.Template
	}
	return nil, nil
}

// templateRule: the selector selects the pods that the template makes, and
// these are valid.
func templateRule(o schema.Object) field.ErrorList {
	selector, template := templateOf(o)
	at := field.NewPath("spec")
	if template == nil {
		return field.ErrorList{field.Required(at.Child("template"), "")}
	}
	var errs field.ErrorList
	sel, err := metav1.LabelSelectorAsSelector(selector)
	switch {
	case selector == nil:
		errs = append(errs, field.Required(at.Child("selector"), ""))
	case err != nil:
		errs = append(errs, field.Invalid(at.Child("selector"), selector, "invalid label selector"))
	case sel.Empty():
		errs = append(errs, field.Invalid(at.Child("selector"), selector, "empty selector is invalid for "+kindWord(o)))
	case !sel.Matches(labels.Set(template.Labels)):
		errs = append(errs, field.Invalid(at.Child("template", "metadata", "labels"), template.Labels, "`selector` does not match template `labels`"))
	}
	errs = append(errs, podSpecErrors(&template.Spec, at.Child("template", "spec"))...)
	if p := template.Spec.RestartPolicy; p != "" && p != corev1.RestartPolicyAlways {
		errs = append(errs, field.NotSupported(at.Child("template", "spec", "restartPolicy"), p, []corev1.RestartPolicy{corev1.RestartPolicyAlways}))
	}
	return errs
}

// kindWord is how upstream names a kind in the middle of a sentence.
func kindWord(o schema.Object) string {
	switch o.(type) {
	case *appsv1.ReplicaSet, *appsv1.Deployment:
		return "deployment"
	case *appsv1.DaemonSet:
		return "daemonset"
	case *appsv1.StatefulSet:
		return "statefulset"
	}
	return "controller"
}

func statefulSetUpdateErrors(o, old schema.Object) field.ErrorList {
	is, was := o.(*appsv1.StatefulSet).Spec, old.(*appsv1.StatefulSet).Spec
	is.Replicas, is.Template, is.UpdateStrategy = was.Replicas, was.Template, was.UpdateStrategy
	is.MinReadySeconds, is.Ordinals, is.RevisionHistoryLimit = was.MinReadySeconds, was.Ordinals, was.RevisionHistoryLimit
	is.PersistentVolumeClaimRetentionPolicy = was.PersistentVolumeClaimRetentionPolicy
	if apiequality.Semantic.DeepEqual(is, was) {
		return nil
	}
	return field.ErrorList{field.Forbidden(field.NewPath("spec"),
		"updates to statefulset spec for fields other than 'replicas', 'ordinals', 'template', 'updateStrategy', 'revisionHistoryLimit', 'persistentVolumeClaimRetentionPolicy' and 'minReadySeconds' are forbidden")}
}

func budgetErrors(o schema.Object) field.ErrorList {
	spec, at := o.(*policyv1.PodDisruptionBudget).Spec, field.NewPath("spec")
	if spec.MinAvailable != nil && spec.MaxUnavailable != nil {
		return field.ErrorList{field.Invalid(at, spec, "minAvailable and maxUnavailable cannot be both set")}
	}
	return nil
}

func autoscalerErrors(o schema.Object) field.ErrorList {
	spec, at := o.(*autoscalingv2.HorizontalPodAutoscaler).Spec, field.NewPath("spec")
	var errs field.ErrorList
	if spec.MaxReplicas < 1 {
		errs = append(errs, field.Invalid(at.Child("maxReplicas"), spec.MaxReplicas, "must be greater than 0"))
	}
	if spec.MinReplicas != nil && spec.MaxReplicas < *spec.MinReplicas {
		errs = append(errs, field.Invalid(at.Child("maxReplicas"), spec.MaxReplicas, "must be greater than or equal to `minReplicas`"))
	}
	return errs
}

// nameClaimKinds writes down what the claim templates are.
func nameClaimKinds(s *appsv1.StatefulSet) {
	for i := range s.Spec.VolumeClaimTemplates {
		s.Spec.VolumeClaimTemplates[i].TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
	}
}
