package registry

import (
	"maps"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema"
)

// The labels by which the pods of a job know it, old form and new.
var (
	jobNameLabels = []string{"job-name", batchv1.JobNameLabel}
	jobUIDLabels  = []string{"controller-uid", batchv1.ControllerUidLabel}
)

func jobRules(rules map[*schema.Resource]*rule) {
	rules[schema.ResourceFor[*batchv1.Job]()] = &rule{
		generation:   true,
		ownImmutable: true,
		create:       func(o schema.Object) { selectJob(o.(*batchv1.Job)) },
		validate:     func(o schema.Object) field.ErrorList { return jobErrors(o.(*batchv1.Job)) },
		validateUpdate: func(o, old schema.Object) field.ErrorList {
			return jobUpdateErrors(o.(*batchv1.Job), old.(*batchv1.Job))
		},
	}
	rules[schema.ResourceFor[*batchv1.CronJob]()] = &rule{
		generation: true,
		validate: func(o schema.Object) field.ErrorList {
			c := o.(*batchv1.CronJob)
			errs := jobSpecErrors(&c.Spec.JobTemplate.Spec, field.NewPath("spec", "jobTemplate", "spec"))
			if len(c.Name) > 52 {
				errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), c.Name, "must be no more than 52 characters"))
			}
			return errs
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

func jobErrors(job *batchv1.Job) field.ErrorList {
	at := field.NewPath("spec")
	errs := jobSpecErrors(&job.Spec, at)
	sel, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	switch {
	case job.Spec.Selector == nil:
		errs = append(errs, field.Required(at.Child("selector"), ""))
	case err != nil:
		errs = append(errs, field.Invalid(at.Child("selector"), job.Spec.Selector, err.Error()))
	case !sel.Matches(labels.Set(job.Spec.Template.Labels)):
		errs = append(errs, field.Invalid(at.Child("template", "metadata", "labels"), job.Spec.Template.Labels, "`selector` does not match template `labels`"))
	}
	return errs
}

func jobSpecErrors(spec *batchv1.JobSpec, at *field.Path) field.ErrorList {
	errs := podSpecErrors(&spec.Template.Spec, at.Child("template", "spec"))
	switch p := spec.Template.Spec.RestartPolicy; p {
	case corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure:
	case "", corev1.RestartPolicyAlways:
		errs = append(errs, field.Required(at.Child("template", "spec", "restartPolicy"), `valid values: "OnFailure", "Never"`))
	}
	return errs
}

// jobUpdateErrors: what a job is cannot change once it is made, but a suspended
// job that has not started may get other nodes to run on.
func jobUpdateErrors(job, old *batchv1.Job) field.ErrorList {
	at := field.NewPath("spec")
	var errs field.ErrorList
	keep := func(name string, is, was any) {
		if !apiequality.Semantic.DeepEqual(is, was) {
			errs = append(errs, field.Invalid(at.Child(name), is, immutableField))
		}
	}
	indexed := old.Spec.CompletionMode != nil && *old.Spec.CompletionMode == batchv1.IndexedCompletion
	if !indexed {
		keep("completions", job.Spec.Completions, old.Spec.Completions)
	}
	keep("selector", job.Spec.Selector, old.Spec.Selector)
	keep("completionMode", job.Spec.CompletionMode, old.Spec.CompletionMode)
	keep("podFailurePolicy", job.Spec.PodFailurePolicy, old.Spec.PodFailurePolicy)
	keep("successPolicy", job.Spec.SuccessPolicy, old.Spec.SuccessPolicy)
	keep("backoffLimitPerIndex", job.Spec.BackoffLimitPerIndex, old.Spec.BackoffLimitPerIndex)
	keep("managedBy", job.Spec.ManagedBy, old.Spec.ManagedBy)

	template := job.Spec.Template.DeepCopy()
	if old.Spec.Suspend != nil && *old.Spec.Suspend && old.Status.StartTime == nil {
		was := &old.Spec.Template
		template.Labels, template.Annotations = was.Labels, was.Annotations
		template.Spec.NodeSelector, template.Spec.Tolerations = was.Spec.NodeSelector, was.Spec.Tolerations
		template.Spec.Affinity, template.Spec.SchedulingGates = was.Spec.Affinity, was.Spec.SchedulingGates
	}
	keep("template", *template, old.Spec.Template)
	return errs
}
