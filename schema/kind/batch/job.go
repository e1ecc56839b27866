package batch

import (
	"maps"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/kind"
	"github.com/writ-os/writ/schema/kind/apps"
	"github.com/writ-os/writ/schema/kind/core"
	"github.com/writ-os/writ/schema/kind/valid"
)

// The labels by which the pods of a job know it, old form and new.
var (
	jobNameLabels = []string{"job-name", batchv1.JobNameLabel}
	jobUIDLabels  = []string{"controller-uid", batchv1.ControllerUidLabel}
)

// Job is the judge of its kind.
var Job = &kind.Kind{
	Resource:   schema.ResourceFor[*batchv1.Job](),
	Generation: true, Orphans: true, OwnImmutable: true, SchemaBelow: apps.BelowTemplate,
	PrepareCreate:  func(o schema.Object) { SelectJob(o.(*batchv1.Job)) },
	ValidateCreate: func(o schema.Object) field.ErrorList { return jobErrors(o.(*batchv1.Job), true) },
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		job, was := o.(*batchv1.Job), old.(*batchv1.Job)
		_, named := was.Spec.Template.Labels[batchv1.JobNameLabel]
		_, owned := was.Spec.Template.Labels[batchv1.ControllerUidLabel]
		errs := jobErrors(job, named && owned)
		errs = append(errs, jobSpecErrors(&job.Spec, field.NewPath("spec"))...) // upstream asks twice
		errs = append(errs, jobSelectorErrors(&job.Spec, field.NewPath("spec"))...)
		return append(errs, jobUpdateErrors(job, was)...)
	},
	ValidateDoor: func(_ string, o, old schema.Object) field.ErrorList {
		return jobStatusErrors(o.(*batchv1.Job), old.(*batchv1.Job))
	},
	Warnings: func(o, old schema.Object) []string {
		return jobWarnings(o, old, &o.(*batchv1.Job).Spec, field.NewPath("spec"))
	},
}

// CronJob is the judge of its kind.
var CronJob = &kind.Kind{
	Resource:   schema.ResourceFor[*batchv1.CronJob](),
	Generation: true, SchemaBelow: "spec.jobTemplate.spec.template.",
	ValidateCreate: func(o schema.Object) field.ErrorList {
		c := o.(*batchv1.CronJob)
		errs := cronJobErrors(&c.Spec, nil)
		if len(c.Name) > longestCronJob {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), c.Name, "must be no more than 52 characters"))
		}
		return errs
	},
	ValidateUpdate: func(o, old schema.Object) field.ErrorList {
		return cronJobErrors(&o.(*batchv1.CronJob).Spec, &old.(*batchv1.CronJob).Spec)
	},
	Warnings: func(o, old schema.Object) []string {
		s := &o.(*batchv1.CronJob).Spec
		texts := jobWarnings(o, old, &s.JobTemplate.Spec, field.NewPath("spec", "jobTemplate", "spec"))
		if old != nil && strings.Contains(s.Schedule, "TZ") {
			texts = append(texts, "cannot use TZ or CRON_TZ in spec.spec.schedule, use timeZone instead, see https://kubernetes.io/docs/concepts/workloads/controllers/cron-jobs/ for more details")
		}
		return texts
	},
}

// SelectJob gives a job the selector that nothing but its own pods match.
func SelectJob(job *batchv1.Job) {
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

// jobUpdateErrors: what a job is cannot change once it is made, but a suspended
// job that has no pods may get other nodes to run on, and other resources.
func jobUpdateErrors(job, old *batchv1.Job) field.ErrorList {
	at := field.NewPath("spec")
	is, was := &job.Spec, &old.Spec
	var errs field.ErrorList
	keep := func(name string, is, was any) { errs = append(errs, valid.Keep(at.Child(name), is, was)...) }
	switch {
	case valid.Deref(is.CompletionMode) != batchv1.IndexedCompletion:
		keep("completions", is.Completions, was.Completions)
	case is.Completions != nil && !apiequality.Semantic.DeepEqual(is.Completions, was.Completions) && *is.Completions != valid.Deref(is.Parallelism):
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
	return field.ErrorList{field.Invalid(at, core.Internal(is), valid.Immutable)}
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

// jobWarnings are those of a Job, or of the Jobs that o makes.
func jobWarnings(o, old schema.Object, s *batchv1.JobSpec, at *field.Path) []string {
	if old != nil && o.GetGeneration() == old.GetGeneration() {
		return nil
	}
	var texts []string
	if old == nil {
		texts = core.NameWarnings(o, "Pod names and hostnames")
	}
	if valid.Deref(s.CompletionMode) == batchv1.IndexedCompletion && valid.Deref(s.Completions) > 100_000 && valid.Deref(s.Parallelism) > 10_000 {
		texts = append(texts, at.String()+": In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail")
	}
	return append(texts, core.TemplateWarnings(&s.Template, at.Child("template"))...)
}
