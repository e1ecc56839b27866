package batch

import (
	"fmt"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema/kind/apps"
	"github.com/writ-os/writ/schema/kind/core"
	"github.com/writ-os/writ/schema/kind/valid"
)

// jobErrors is what upstream has against a job, in its order. prefixed demands
// the labels with a prefix on its pods, which jobs of old have not.
func jobErrors(job *batchv1.Job, prefixed bool) field.ErrorList {
	at := field.NewPath("spec")
	errs := generatedErrors(job, prefixed)
	errs = append(errs, jobSpecErrors(&job.Spec, at)...)
	errs = append(errs, jobSelectorErrors(&job.Spec, at)...)
	if n := job.Spec.Completions; valid.Deref(job.Spec.CompletionMode) == batchv1.IndexedCompletion && n != nil && *n > 0 {
		host := fmt.Sprintf("%s-%d", job.Name, *n-1)
		if len(validation.IsDNS1123Label(host)) > 0 {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), job.Name, "will not able to create pod with invalid DNS label: "+host))
		}
	}
	return errs
}

// generatedErrors checks that nobody stands in the way of the selector that the
// server makes.
func generatedErrors(job *batchv1.Job, prefixed bool) field.ErrorList {
	if job.Spec.ManualSelector != nil && *job.Spec.ManualSelector || job.Spec.Selector == nil {
		return nil
	}
	var errs field.ErrorList
	if job.UID == "" {
		errs = append(errs, field.Required(field.NewPath("metadata", "uid"), ""))
	}
	at := field.NewPath("spec", "template", "metadata", "labels")
	want := labels.Set{}
	demand := func(name, value string) {
		want[name] = value
		switch got, is := job.Spec.Template.Labels[name]; {
		case !is:
			errs = append(errs, field.Required(at.Key(name), "must be '"+value+"'"))
		case got != value:
			errs = append(errs, field.Invalid(at.Key(name), job.Spec.Template.Labels, "must be '"+value+"'"))
		}
	}
	demand(jobUIDLabels[0], string(job.UID))
	demand(jobNameLabels[0], job.Name)
	if prefixed {
		demand(jobUIDLabels[1], string(job.UID))
		demand(jobNameLabels[1], job.Name)
	}
	if sel, err := metav1.LabelSelectorAsSelector(job.Spec.Selector); err == nil && !sel.Matches(want) {
		errs = append(errs, field.Invalid(field.NewPath("spec", "selector"), job.Spec.Selector, "`selector` not auto-generated"))
	}
	return errs
}

func jobSelectorErrors(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	if s.Selector == nil {
		errs = append(errs, field.Required(at.Child("selector"), ""))
	}
	errs = append(errs, valid.LabelSelector(s.Selector, at.Child("selector"))...)
	if sel, err := metav1.LabelSelectorAsSelector(s.Selector); err == nil && !sel.Matches(labels.Set(s.Template.Labels)) {
		errs = append(errs, field.Invalid(at.Child("template", "metadata", "labels"), s.Template.Labels, apps.NoMatch))
	}
	return errs
}

func jobSpecErrors(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	errs := valid.NonNegativeIf(s.Parallelism, at.Child("parallelism"))
	errs = append(errs, valid.NonNegativeIf(s.Completions, at.Child("completions"))...)
	errs = append(errs, valid.NonNegativeIf(s.ActiveDeadlineSeconds, at.Child("activeDeadlineSeconds"))...)
	errs = append(errs, valid.NonNegativeIf(s.BackoffLimit, at.Child("backoffLimit"))...)
	errs = append(errs, valid.NonNegativeIf(s.TTLSecondsAfterFinished, at.Child("ttlSecondsAfterFinished"))...)
	errs = append(errs, valid.NonNegativeIf(s.BackoffLimitPerIndex, at.Child("backoffLimitPerIndex"))...)
	errs = append(errs, valid.NonNegativeIf(s.MaxFailedIndexes, at.Child("maxFailedIndexes"))...)
	if s.MaxFailedIndexes != nil && s.BackoffLimitPerIndex == nil {
		errs = append(errs, field.Required(at.Child("backoffLimitPerIndex"), "when maxFailedIndexes is specified"))
	}
	if s.ManagedBy != nil {
		errs = append(errs, validation.IsDomainPrefixedPath(at.Child("managedBy"), *s.ManagedBy)...)
		if len(*s.ManagedBy) > 63 {
			errs = append(errs, field.TooLong(at.Child("managedBy"), "", 63))
		}
	}
	errs = append(errs, completionErrors(s, at)...)
	if s.PodFailurePolicy != nil {
		errs = append(errs, failurePolicyErrors(s, at.Child("podFailurePolicy", "rules"))...)
	}
	if s.SuccessPolicy != nil {
		if valid.Deref(s.CompletionMode) != batchv1.IndexedCompletion {
			errs = append(errs, field.Invalid(at.Child("successPolicy"), *s.SuccessPolicy, "requires indexed completion mode"))
		} else {
			errs = append(errs, successPolicyErrors(s, at.Child("successPolicy", "rules"))...)
		}
	}
	if s.PodFailurePolicy != nil {
		errs = append(errs, valid.OneOf(s.PodReplacementPolicy, at.Child("podReplacementPolicy"), "Failed")...)
	} else {
		errs = append(errs, valid.OneOf(s.PodReplacementPolicy, at.Child("podReplacementPolicy"), "Failed", "TerminatingOrFailed")...)
	}
	errs = append(errs, core.TemplateErrors(&s.Template, at.Child("template"))...)
	return append(errs, jobRestartErrors(s, at.Child("template", "spec", "restartPolicy"))...)
}

func jobRestartErrors(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	switch p := s.Template.Spec.RestartPolicy; {
	case p == "" || p == corev1.RestartPolicyAlways:
		return field.ErrorList{field.Required(at, `valid values: "OnFailure", "Never"`)}
	case p != corev1.RestartPolicyOnFailure && p != corev1.RestartPolicyNever:
		return field.ErrorList{field.NotSupported(at, p, []corev1.RestartPolicy{corev1.RestartPolicyOnFailure, corev1.RestartPolicyNever})}
	case s.PodFailurePolicy != nil && p != corev1.RestartPolicyNever:
		return field.ErrorList{field.Invalid(at, p, `only "Never" is supported when podFailurePolicy is specified`)}
	}
	return nil
}

// Bounds of jobs with indexes: the status lists indexes.
const (
	mostIndexes       = 100_000
	mostIndexesBeyond = 10_000
)

// completionErrors checks how a job counts its pods.
func completionErrors(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	var errs field.ErrorList
	no := func(name string, value any, format string, args ...any) {
		errs = append(errs, field.Invalid(at.Child(name), value, fmt.Sprintf(format, args...)))
	}
	errs = append(errs, valid.OneOf(s.CompletionMode, at.Child("completionMode"), "NonIndexed", "Indexed")...)
	if s.CompletionMode == nil || *s.CompletionMode == batchv1.NonIndexedCompletion {
		if s.BackoffLimitPerIndex != nil {
			no("backoffLimitPerIndex", *s.BackoffLimitPerIndex, "requires indexed completion mode")
		}
		if s.MaxFailedIndexes != nil {
			no("maxFailedIndexes", *s.MaxFailedIndexes, "requires indexed completion mode")
		}
	}
	if valid.Deref(s.CompletionMode) != batchv1.IndexedCompletion {
		return errs
	}
	if s.Completions == nil {
		errs = append(errs, field.Required(at.Child("completions"), "when completion mode is Indexed"))
	}
	parallel, failed := valid.Deref(s.Parallelism), valid.Deref(s.MaxFailedIndexes)
	if parallel > mostIndexes {
		no("parallelism", parallel, "must be less than or equal to %d when completion mode is %s", mostIndexes, batchv1.IndexedCompletion)
	}
	if s.Completions != nil && failed > *s.Completions {
		no("maxFailedIndexes", failed, "must be less than or equal to completions")
	}
	if failed > mostIndexes {
		no("maxFailedIndexes", failed, "must be less than or equal to %d", mostIndexes)
	}
	if valid.Deref(s.Completions) <= mostIndexes || s.BackoffLimitPerIndex == nil {
		return errs
	}
	const beyond = "must be less than or equal to %d when completions are above %d and used with backoff limit per index"
	if s.MaxFailedIndexes == nil {
		errs = append(errs, field.Required(at.Child("maxFailedIndexes"), fmt.Sprintf("must be specified when completions is above %d", mostIndexes)))
	}
	if parallel > mostIndexesBeyond {
		no("parallelism", parallel, beyond, mostIndexesBeyond, mostIndexes)
	}
	if failed > mostIndexesBeyond {
		no("maxFailedIndexes", failed, beyond, mostIndexesBeyond, mostIndexes)
	}
	return errs
}

func failurePolicyErrors(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	const most = 20
	rules := s.PodFailurePolicy.Rules
	var errs field.ErrorList
	if len(rules) > most {
		errs = append(errs, field.TooMany(at, len(rules), most))
	}
	names := map[string]bool{}
	for _, list := range [][]corev1.Container{s.Template.Spec.Containers, s.Template.Spec.InitContainers} {
		for i := range list {
			names[list[i].Name] = true
		}
	}
	for i := range rules {
		errs = append(errs, failureRuleErrors(&rules[i], s.BackoffLimitPerIndex != nil, names, at.Index(i))...)
	}
	return errs
}

func failureRuleErrors(r *batchv1.PodFailurePolicyRule, perIndex bool, names map[string]bool, at *field.Path) field.ErrorList {
	const most = 20
	var errs field.ErrorList
	switch action := at.Child("action"); {
	case r.Action == "":
		errs = append(errs, field.Required(action, `valid values: ["Count" "FailIndex" "FailJob" "Ignore"]`))
	case r.Action == batchv1.PodFailurePolicyActionFailIndex:
		if !perIndex {
			errs = append(errs, field.Invalid(action, r.Action, "requires the backoffLimitPerIndex to be set"))
		}
	default:
		errs = append(errs, valid.OneOf(&r.Action, action, "Count", "FailIndex", "FailJob", "Ignore")...)
	}
	if r.OnExitCodes != nil {
		errs = append(errs, exitCodeErrors(r.OnExitCodes, names, at.Child("onExitCodes"))...)
	}
	on := at.Child("onPodConditions")
	if len(r.OnPodConditions) > most {
		errs = append(errs, field.TooMany(on, len(r.OnPodConditions), most))
	}
	for i := range r.OnPodConditions {
		p, at := &r.OnPodConditions[i], on.Index(i)
		errs = append(errs, valid.InvalidAll(at.Child("type"), string(p.Type), content.IsLabelKey(string(p.Type)))...)
		if p.Status == "" {
			errs = append(errs, field.Required(at.Child("status"), `valid values: ["False" "True" "Unknown"]`))
			continue
		}
		errs = append(errs, valid.OneOf(&p.Status, at.Child("status"), "False", "True", "Unknown")...)
	}
	switch codes, conditions := r.OnExitCodes != nil, len(r.OnPodConditions) > 0; {
	case codes && conditions:
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, "specifying both OnExitCodes and OnPodConditions is not supported"))
	case !codes && !conditions:
		errs = append(errs, field.Invalid(at, field.OmitValueType{}, "specifying one of OnExitCodes and OnPodConditions is required"))
	}
	return errs
}

func exitCodeErrors(r *batchv1.PodFailurePolicyOnExitCodesRequirement, names map[string]bool, at *field.Path) field.ErrorList {
	const most = 255
	var errs field.ErrorList
	if r.Operator == "" {
		errs = append(errs, field.Required(at.Child("operator"), `valid values: ["In" "NotIn"]`))
	} else {
		errs = append(errs, valid.OneOf(&r.Operator, at.Child("operator"), "In", "NotIn")...)
	}
	if r.ContainerName != nil && !names[*r.ContainerName] {
		errs = append(errs, field.Invalid(at.Child("containerName"), *r.ContainerName, "must be one of the container or initContainer names in the pod template"))
	}
	at = at.Child("values")
	if len(r.Values) == 0 {
		errs = append(errs, field.Invalid(at, r.Values, "at least one value is required"))
	} else if len(r.Values) > most {
		errs = append(errs, field.TooMany(at, len(r.Values), most))
	}
	for i, v := range r.Values {
		if r.Operator == batchv1.PodFailurePolicyOnExitCodesOpIn && v == 0 {
			errs = append(errs, field.Invalid(at.Index(i), v, "must not be 0 for the In operator"))
		}
		if slices.Contains(r.Values[:i], v) {
			errs = append(errs, field.Duplicate(at.Index(i), v))
		}
	}
	if !slices.IsSorted(r.Values) {
		errs = append(errs, field.Invalid(at, r.Values, "must be ordered"))
	}
	return errs
}

func successPolicyErrors(s *batchv1.JobSpec, at *field.Path) field.ErrorList {
	const most, longest = 20, 64 * 1024
	rules := s.SuccessPolicy.Rules
	var errs field.ErrorList
	if len(rules) == 0 {
		errs = append(errs, field.Required(at, "at least one rules must be specified when the successPolicy is specified"))
	}
	if len(rules) > most {
		errs = append(errs, field.TooMany(at, len(rules), most))
	}
	completions := valid.Deref(s.Completions)
	for i := range rules {
		r, at := &rules[i], at.Index(i)
		if r.SucceededCount == nil && r.SucceededIndexes == nil {
			errs = append(errs, field.Required(at, "at least one of succeededCount or succeededIndexes must be specified"))
		}
		total := int32(0)
		if r.SucceededIndexes != nil {
			if len(*r.SucceededIndexes) > longest {
				errs = append(errs, field.TooLong(at.Child("succeededIndexes"), "", longest))
			}
			var err error
			if total, err = countIndexes(*r.SucceededIndexes, completions); err != nil {
				errs = append(errs, field.Invalid(at.Child("succeededIndexes"), *r.SucceededIndexes, fmt.Sprintf("error parsing succeededIndexes: %s", err)))
			}
		}
		if n := r.SucceededCount; n != nil {
			at := at.Child("succeededCount")
			errs = append(errs, valid.NonNegative(*n, at)...)
			if *n > completions {
				errs = append(errs, field.Invalid(at, *n, fmt.Sprintf("must be less than or equal to %d (the number of specified completions)", completions)))
			}
			if r.SucceededIndexes != nil && *n > total {
				errs = append(errs, field.Invalid(at, *n, fmt.Sprintf("must be less than or equal to %d (the number of indexes in the specified succeededIndexes field)", total)))
			}
		}
	}
	return errs
}
