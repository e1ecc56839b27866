package apps

import (
	"maps"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/core"
	"github.com/writ-os/writ/schema/kind/valid"
)

// BelowTemplate is where the rules of workloads leave what there is to know to
// the schema of pods.
const BelowTemplate = "spec.template."

// Deployment is the judge of its kind.
var Deployment = &kind.Kind{
	Resource:   schema.ResourceFor[*appsv1.Deployment](),
	Generation: true, Annotations: true, OwnImmutable: true, SchemaBelow: BelowTemplate,
	Validate: func(o schema.Object) field.ErrorList { return deploymentErrors(&o.(*appsv1.Deployment).Spec) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return valid.Keep(field.NewPath("spec", "selector"), o.(*appsv1.Deployment).Spec.Selector, old.(*appsv1.Deployment).Spec.Selector)
	},
	ValidateDoor: func(_ string, o, old schema.Object) field.ErrorList {
		return deploymentStatusErrors(&o.(*appsv1.Deployment).Status, &old.(*appsv1.Deployment).Status)
	},
	Warnings: core.TemplateChangeWarnings(true, func(o schema.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.Deployment).Spec.Template }),
}

// ReplicaSet is the judge of its kind.
var ReplicaSet = &kind.Kind{
	Resource:   schema.ResourceFor[*appsv1.ReplicaSet](),
	Generation: true, OwnImmutable: true, SchemaBelow: BelowTemplate,
	Validate: func(o schema.Object) field.ErrorList { return replicaSetErrors(&o.(*appsv1.ReplicaSet).Spec) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return valid.Keep(field.NewPath("spec", "selector"), o.(*appsv1.ReplicaSet).Spec.Selector, old.(*appsv1.ReplicaSet).Spec.Selector)
	},
	ValidateDoor: func(_ string, o, _ schema.Object) field.ErrorList {
		return replicaSetStatusErrors(&o.(*appsv1.ReplicaSet).Status)
	},
	Warnings: core.TemplateChangeWarnings(true, func(o schema.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.ReplicaSet).Spec.Template }),
}

// DaemonSet is the judge of its kind.
var DaemonSet = &kind.Kind{
	Resource:   schema.ResourceFor[*appsv1.DaemonSet](),
	Generation: true, OwnImmutable: true, SchemaBelow: BelowTemplate,
	Normalize: func(o schema.Object) { noteGeneration(o.(*appsv1.DaemonSet)) },
	PrepareCreate: func(o schema.Object) {
		setGeneration(o.(*appsv1.DaemonSet), max(1, generationOf(o.(*appsv1.DaemonSet))))
	},
	PrepareUpdate: func(o, old schema.Object) { countTemplate(o.(*appsv1.DaemonSet), old.(*appsv1.DaemonSet)) },
	Validate: func(o schema.Object) field.ErrorList {
		return daemonSetErrors(&o.(*appsv1.DaemonSet).Spec)
	},
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return valid.Keep(field.NewPath("spec", "selector"), o.(*appsv1.DaemonSet).Spec.Selector, old.(*appsv1.DaemonSet).Spec.Selector)
	},
	ValidateDoor: func(_ string, o, old schema.Object) field.ErrorList {
		return daemonSetStatusErrors(&o.(*appsv1.DaemonSet).Status, &old.(*appsv1.DaemonSet).Status)
	},
	Warnings: core.TemplateChangeWarnings(false, func(o schema.Object) *corev1.PodTemplateSpec { return &o.(*appsv1.DaemonSet).Spec.Template }),
}

// StatefulSet is the judge of its kind.
var StatefulSet = &kind.Kind{
	Resource:   schema.ResourceFor[*appsv1.StatefulSet](),
	Generation: true, OwnImmutable: true, SchemaBelow: BelowTemplate, Name: validation.NameIsDNSLabel,
	Normalize:      func(o schema.Object) { nameClaimKinds(o.(*appsv1.StatefulSet)) },
	ValidateCreate: func(o schema.Object) field.ErrorList { return statefulSetErrors(&o.(*appsv1.StatefulSet).Spec, true) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return append(statefulSetErrors(&o.(*appsv1.StatefulSet).Spec, false), statefulSetUpdateErrors(o, old)...)
	},
	ValidateDoor: func(_ string, o, old schema.Object) field.ErrorList {
		return statefulSetStatusErrors(&o.(*appsv1.StatefulSet).Status, &old.(*appsv1.StatefulSet).Status)
	},
	Warnings: statefulSetWarnings,
}

// ReplicationController is the judge of its kind.
var ReplicationController = &kind.Kind{
	Resource:   schema.ResourceFor[*corev1.ReplicationController](),
	Generation: true, Orphans: true, OwnImmutable: true, SchemaBelow: BelowTemplate,
	Validate: func(o schema.Object) field.ErrorList {
		return replicationErrors(&o.(*corev1.ReplicationController).Spec)
	},
	ValidateDoor: func(_ string, o, _ schema.Object) field.ErrorList {
		return replicationStatusErrors(&o.(*corev1.ReplicationController).Status)
	},
	Warnings: core.TemplateChangeWarnings(true, func(o schema.Object) *corev1.PodTemplateSpec {
		if t := o.(*corev1.ReplicationController).Spec.Template; t != nil {
			return t
		}
		return &corev1.PodTemplateSpec{}
	}),
}

// ControllerRevision is the judge of its kind.
var ControllerRevision = &kind.Kind{
	Resource:     schema.ResourceFor[*appsv1.ControllerRevision](),
	OwnImmutable: true, OwnSchema: true,
	ValidateCreate: func(o schema.Object) field.ErrorList { return revisionErrors(o.(*appsv1.ControllerRevision)) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		is, was := o.(*appsv1.ControllerRevision), old.(*appsv1.ControllerRevision)
		errs := valid.NonNegative(is.Revision, field.NewPath("revision"))
		return append(errs, valid.Keep(field.NewPath("data"), is.Data, was.Data)...)
	},
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
