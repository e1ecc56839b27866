package registry

import (
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
)

// belowTemplate is where the rules of workloads leave what there is to know to
// the schema of pods.
const belowTemplate = "spec.template."

func workloadRules(rules map[*schema.Resource]*rule) {
	rules[schema.ResourceFor[*appsv1.Deployment]()] = &rule{
		generation: true, annotations: true, ownImmutable: true, schemaBelow: belowTemplate,
		validate: func(o schema.Object) field.ErrorList { return deploymentErrors(&o.(*appsv1.Deployment).Spec) },
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return keepField(field.NewPath("spec", "selector"), o.(*appsv1.Deployment).Spec.Selector, old.(*appsv1.Deployment).Spec.Selector)
		},
		validateDoor: func(_ string, o, old schema.Object) field.ErrorList {
			return deploymentStatusErrors(&o.(*appsv1.Deployment).Status, &old.(*appsv1.Deployment).Status)
		},
	}
	rules[schema.ResourceFor[*appsv1.ReplicaSet]()] = &rule{
		generation: true, ownImmutable: true, schemaBelow: belowTemplate,
		validate: func(o schema.Object) field.ErrorList { return replicaSetErrors(&o.(*appsv1.ReplicaSet).Spec) },
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return keepField(field.NewPath("spec", "selector"), o.(*appsv1.ReplicaSet).Spec.Selector, old.(*appsv1.ReplicaSet).Spec.Selector)
		},
		validateDoor: func(_ string, o, _ schema.Object) field.ErrorList {
			return replicaSetStatusErrors(&o.(*appsv1.ReplicaSet).Status)
		},
	}
	rules[schema.ResourceFor[*appsv1.DaemonSet]()] = &rule{
		generation: true, ownImmutable: true, schemaBelow: belowTemplate,
		normal: func(o schema.Object) { noteGeneration(o.(*appsv1.DaemonSet)) },
		create: func(o schema.Object) {
			setGeneration(o.(*appsv1.DaemonSet), max(1, generationOf(o.(*appsv1.DaemonSet))))
		},
		update: func(o, old schema.Object) { countTemplate(o.(*appsv1.DaemonSet), old.(*appsv1.DaemonSet)) },
		validate: func(o schema.Object) field.ErrorList {
			return daemonSetErrors(&o.(*appsv1.DaemonSet).Spec)
		},
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return keepField(field.NewPath("spec", "selector"), o.(*appsv1.DaemonSet).Spec.Selector, old.(*appsv1.DaemonSet).Spec.Selector)
		},
		validateDoor: func(_ string, o, old schema.Object) field.ErrorList {
			return daemonSetStatusErrors(&o.(*appsv1.DaemonSet).Status, &old.(*appsv1.DaemonSet).Status)
		},
	}
	rules[schema.ResourceFor[*appsv1.StatefulSet]()] = &rule{
		generation: true, ownImmutable: true, schemaBelow: belowTemplate, name: validation.NameIsDNSLabel,
		normal:      func(o schema.Object) { nameClaimKinds(o.(*appsv1.StatefulSet)) },
		validateNew: func(o schema.Object) field.ErrorList { return statefulSetErrors(&o.(*appsv1.StatefulSet).Spec, true) },
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return append(statefulSetErrors(&o.(*appsv1.StatefulSet).Spec, false), statefulSetUpdateErrors(o, old)...)
		},
		validateDoor: func(_ string, o, old schema.Object) field.ErrorList {
			return statefulSetStatusErrors(&o.(*appsv1.StatefulSet).Status, &old.(*appsv1.StatefulSet).Status)
		},
	}
	rules[schema.ResourceFor[*corev1.ReplicationController]()] = &rule{
		generation: true, orphans: true, ownImmutable: true, schemaBelow: belowTemplate,
		validate: func(o schema.Object) field.ErrorList {
			return replicationErrors(&o.(*corev1.ReplicationController).Spec)
		},
		validateDoor: func(_ string, o, _ schema.Object) field.ErrorList {
			return replicationStatusErrors(&o.(*corev1.ReplicationController).Status)
		},
	}
	rules[schema.ResourceFor[*policyv1.PodDisruptionBudget]()] = budgetRule()
	rules[schema.ResourceFor[*autoscalingv2.HorizontalPodAutoscaler]()] = autoscalerRule()
	rules[schema.ResourceFor[*appsv1.ControllerRevision]()] = &rule{
		ownImmutable: true, ownSchema: true,
		validateNew: func(o schema.Object) field.ErrorList { return revisionErrors(o.(*appsv1.ControllerRevision)) },
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			is, was := o.(*appsv1.ControllerRevision), old.(*appsv1.ControllerRevision)
			errs := nonNegative(is.Revision, field.NewPath("revision"))
			return append(errs, keepField(field.NewPath("data"), is.Data, was.Data)...)
		},
	}
}

// templateGeneration is the annotation in which v1 keeps a field of older
// versions: how often the template has changed.
const templateGeneration = appsv1.DeprecatedTemplateGeneration

// noteGeneration gives a daemon set the annotation. What a client says in it
// counts for nothing, but is the client's.
func noteGeneration(d *appsv1.DaemonSet) { setGeneration(d, generationOf(d)) }

func generationOf(d *appsv1.DaemonSet) int64 {
	n, err := strconv.ParseInt(d.Annotations[templateGeneration], 10, 64)
	if err != nil {
		return 0
	}
	return n
}

func setGeneration(d *appsv1.DaemonSet, n int64) {
	d.Annotations = maps.Clone(d.Annotations)
	if d.Annotations == nil {
		d.Annotations = map[string]string{}
	}
	d.Annotations[templateGeneration] = strconv.FormatInt(n, 10)
}

// countTemplate counts a change of the template. Nobody else may.
func countTemplate(d, old *appsv1.DaemonSet) {
	n := generationOf(old)
	if !apiequality.Semantic.DeepEqual(d.Spec.Template, old.Spec.Template) {
		n++
	}
	setGeneration(d, n)
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

// nameClaimKinds writes down what the claim templates are.
func nameClaimKinds(s *appsv1.StatefulSet) {
	for i := range s.Spec.VolumeClaimTemplates {
		s.Spec.VolumeClaimTemplates[i].TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolumeClaim"}
	}
}
