package registry

import (
	"context"
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/warning"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/core"
)

// The labels by which the pods of a job know it, old form and new.
var (
	jobNameLabels = []string{"job-name", batchv1.JobNameLabel}
	jobUIDLabels  = []string{"controller-uid", batchv1.ControllerUidLabel}
)

func jobRules(rules map[*schema.Resource]*rule) {
	rules[schema.ResourceFor[*batchv1.Job]()] = &rule{
		generation: true, orphans: true, ownImmutable: true, schemaBelow: belowTemplate,
		create:      func(o schema.Object) { selectJob(o.(*batchv1.Job)) },
		validateNew: func(o schema.Object) field.ErrorList { return jobErrors(o.(*batchv1.Job), true) },
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			job, was := o.(*batchv1.Job), old.(*batchv1.Job)
			_, named := was.Spec.Template.Labels[batchv1.JobNameLabel]
			_, owned := was.Spec.Template.Labels[batchv1.ControllerUidLabel]
			errs := jobErrors(job, named && owned)
			errs = append(errs, jobSpecErrors(&job.Spec, field.NewPath("spec"))...) // upstream asks twice
			errs = append(errs, jobSelectorErrors(&job.Spec, field.NewPath("spec"))...)
			return append(errs, jobUpdateErrors(job, was)...)
		},
		validateDoor: func(_ string, o, old schema.Object) field.ErrorList {
			return jobStatusErrors(o.(*batchv1.Job), old.(*batchv1.Job))
		},
	}
	rules[schema.ResourceFor[*batchv1.CronJob]()] = &rule{
		generation: true, schemaBelow: "spec.jobTemplate.spec.template.",
		validateNew: func(o schema.Object) field.ErrorList {
			c := o.(*batchv1.CronJob)
			errs := cronJobErrors(&c.Spec, nil)
			if len(c.Name) > longestCronJob {
				errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), c.Name, "must be no more than 52 characters"))
			}
			return errs
		},
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return cronJobErrors(&o.(*batchv1.CronJob).Spec, &old.(*batchv1.CronJob).Spec)
		},
	}
}

// selectJob gives a job the selector that nothing but its own pods match.
func selectJob(job *batchv1.Job) {
	if job.Spec.ManualSelector != nil && *job.Spec.ManualSelector {
		return
	}
	l := maps.Clone(job.Spec.Template.Labels)
	if l == nil {
		l = map[string]string{}
	}
	set := func(names []string, value string) {
		for _, name := range names {
			if _, found := l[name]; !found {
				l[name] = value
			}
		}
	}
	set(jobNameLabels, job.Name)
	set(jobUIDLabels, string(job.UID))
	job.Spec.Template.Labels = l
	if len(job.Labels) == 0 { // a job without labels has those of its pods
		job.Labels = maps.Clone(l)
	}
	if job.Spec.Selector == nil {
		job.Spec.Selector = &metav1.LabelSelector{}
	}
	if job.Spec.Selector.MatchLabels == nil {
		job.Spec.Selector.MatchLabels = map[string]string{}
	}
	if _, found := job.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel]; !found {
		job.Spec.Selector.MatchLabels[batchv1.ControllerUidLabel] = string(job.UID)
	}
}

// orphaned is what upstream says of a deletion that leaves a job's pods behind
// without having been told to.
const orphaned = "child pods are preserved by default when jobs are deleted; " +
	"set propagationPolicy=Background to remove them or set propagationPolicy=Orphan to suppress this warning"

// warnOrphans says it, whether or not there is such a job.
func warnOrphans(ctx context.Context, r *schema.Resource, d client.DeleteOptions) {
	if d.Propagation == "" && r == schema.ResourceFor[*batchv1.Job]() {
		warning.AddWarning(ctx, "", orphaned)
	}
}

// jobUpdateErrors: what a job is cannot change once it is made, but a suspended
// job that has no pods may get other nodes to run on, and other resources.
func jobUpdateErrors(job, old *batchv1.Job) field.ErrorList {
	at := field.NewPath("spec")
	is, was := &job.Spec, &old.Spec
	var errs field.ErrorList
	keep := func(name string, is, was any) { errs = append(errs, keepField(at.Child(name), is, was)...) }
	switch {
	case deref(is.CompletionMode) != batchv1.IndexedCompletion:
		keep("completions", is.Completions, was.Completions)
	case is.Completions != nil && !apiequality.Semantic.DeepEqual(is.Completions, was.Completions) && *is.Completions != deref(is.Parallelism):
		errs = append(errs, field.Invalid(at.Child("completions"), is.Completions, "can only be modified in tandem with spec.parallelism"))
	}
	keep("selector", is.Selector, was.Selector)
	errs = append(errs, jobTemplateUpdateErrors(job, old, at)...)
	keep("completionMode", is.CompletionMode, was.CompletionMode)
	keep("podFailurePolicy", is.PodFailurePolicy, was.PodFailurePolicy)
	keep("backoffLimitPerIndex", is.BackoffLimitPerIndex, was.BackoffLimitPerIndex)
	keep("managedBy", is.ManagedBy, was.ManagedBy)
	keep("successPolicy", is.SuccessPolicy, was.SuccessPolicy)
	return errs
}

// jobTemplateUpdateErrors: KEP-2926 of directives for the scheduler, KEP-5440 of
// resources.
func jobTemplateUpdateErrors(job, old *batchv1.Job, at *field.Path) field.ErrorList {
	suspended := old.Spec.Suspend != nil && *old.Spec.Suspend
	idle := suspended && old.Status.Active == 0 && (old.Status.StartTime == nil || jobIs(old, batchv1.JobSuspended))
	is, was := &job.Spec.Template, old.Spec.Template.DeepCopy()
	if idle {
		was.Labels, was.Annotations = is.Labels, is.Annotations
		was.Spec.NodeSelector, was.Spec.Tolerations, was.Spec.SchedulingGates = is.Spec.NodeSelector, is.Spec.Tolerations, is.Spec.SchedulingGates
		followNodeAffinity(&is.Spec, &was.Spec)
	}
	if !idle {
		return keepTemplate(at.Child("template"), is, was)
	}
	followResources(is.Spec.Containers, was.Spec.Containers)
	followResources(is.Spec.InitContainers, was.Spec.InitContainers)
	return keepTemplate(at.Child("template.spec"), &is.Spec, &was.Spec)
}

// keepTemplate refuses a change of what pods are made from. The text shows it in
// the form of upstream's internal types.
func keepTemplate(at *field.Path, is, was any) field.ErrorList {
	if apiequality.Semantic.DeepEqual(is, was) {
		return nil
	}
	return field.ErrorList{field.Invalid(at, core.Internal(is), immutableField)}
}

// followNodeAffinity makes the affinity to nodes what it has become.
func followNodeAffinity(is, was *corev1.PodSpec) {
	switch {
	case is.Affinity == nil && was.Affinity != nil:
		was.Affinity.NodeAffinity = nil
		if *was.Affinity == (corev1.Affinity{}) {
			was.Affinity = nil
		}
	case is.Affinity != nil && was.Affinity == nil:
		was.Affinity = &corev1.Affinity{NodeAffinity: is.Affinity.NodeAffinity}
	case is.Affinity != nil:
		was.Affinity.NodeAffinity = is.Affinity.NodeAffinity
	}
}

func followResources(is, was []corev1.Container) {
	if len(is) != len(was) {
		return
	}
	for i := range is {
		if is[i].Name == was[i].Name {
			was[i].Resources = is[i].Resources
		}
	}
}
