package batch

import (
	"fmt"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema/kind/apps"
	"github.com/writ-os/writ/schema/kind/valid"
)

func jobIs(job *batchv1.Job, kind batchv1.JobConditionType) bool {
	return jobHas(job, kind, corev1.ConditionTrue)
}

func jobHas(job *batchv1.Job, kind batchv1.JobConditionType, status corev1.ConditionStatus) bool {
	for _, c := range job.Status.Conditions {
		if c.Type == kind && c.Status == status {
			return true
		}
	}
	return false
}

func jobFinished(job *batchv1.Job) bool {
	return jobIs(job, batchv1.JobComplete) || jobIs(job, batchv1.JobFailed)
}

// jobStatusErrors is what upstream has against a change of the status of a job,
// in its order. Most of it is asked only of what has changed: the user may have
// changed the spec meanwhile (KEP-4368).
func jobStatusErrors(job, old *batchv1.Job) field.ErrorList {
	is, was := &job.Status, &old.Status
	errs := valid.Counts(valid.Count{Name: "active", N: int64(is.Active)}, valid.Count{Name: "succeeded", N: int64(is.Succeeded)}, valid.Count{Name: "failed", N: int64(is.Failed)},
		valid.Count{Name: "ready", N: apps.Wide(is.Ready)}, valid.Count{Name: "terminating", N: apps.Wide(is.Terminating)})
	errs = append(errs, uncountedErrors(is.UncountedTerminatedPods)...)
	c := jobChange{job: job, old: old}
	c.turned = func(kind batchv1.JobConditionType) bool { return jobIs(job, kind) != jobIs(old, kind) }
	c.conditions()
	c.finished()
	c.indexes()
	c.active()
	c.criteria()
	errs = append(errs, c.errs...)
	return append(errs, jobStepErrors(job, old, is, was)...)
}

// jobChange collects the errors of one change.
type jobChange struct {
	job, old *batchv1.Job
	turned   func(batchv1.JobConditionType) bool
	errs     field.ErrorList
}

func (c *jobChange) no(when bool, name string, value any, text string) {
	if when {
		c.errs = append(c.errs, field.Invalid(field.NewPath("status", name), value, text))
	}
}

func (c *jobChange) required(when bool, name, text string) {
	if when {
		c.errs = append(c.errs, field.Required(field.NewPath("status", name), text))
	}
}

func (c *jobChange) conditions() {
	s, was := &c.job.Status, &c.old.Status
	complete, failed := jobIs(c.job, batchv1.JobComplete), jobIs(c.job, batchv1.JobFailed)
	completed := c.turned(batchv1.JobComplete)
	timed := completed || !s.CompletionTime.Equal(was.CompletionTime)
	c.no((completed || c.turned(batchv1.JobFailed)) && complete && failed,
		"conditions", field.OmitValueType{}, "cannot set Complete=True and Failed=true conditions")
	c.no((completed || c.turned(batchv1.JobFailureTarget)) && complete && jobIs(c.job, batchv1.JobFailureTarget),
		"conditions", field.OmitValueType{}, "cannot set Complete=True and FailureTarget=true conditions")
	c.no(timed && s.CompletionTime != nil && !complete,
		"completionTime", s.CompletionTime, "cannot set completionTime when there is no Complete=True condition")
	c.required(timed && s.CompletionTime == nil && complete, "completionTime", "completionTime is required for Complete jobs")
	started := !s.StartTime.Equal(was.StartTime) || !s.CompletionTime.Equal(was.CompletionTime)
	c.no(started && s.StartTime != nil && s.CompletionTime != nil && s.CompletionTime.Before(s.StartTime),
		"completionTime", s.CompletionTime, "must be equal to or after `startTime`")
	c.no((c.turned(batchv1.JobFailed) || valid.Deref(s.FailedIndexes) != valid.Deref(was.FailedIndexes)) && failed && !jobIs(c.job, batchv1.JobFailureTarget),
		"conditions", field.OmitValueType{}, "cannot set Failed=True condition without the FailureTarget=true condition")
	c.no((completed || c.turned(batchv1.JobSuccessCriteriaMet)) && complete && !jobIs(c.job, batchv1.JobSuccessCriteriaMet),
		"conditions", field.OmitValueType{}, "cannot set Complete=True condition without the SuccessCriteriaMet=true condition")
}

func (c *jobChange) finished() {
	s, was := &c.job.Status, &c.old.Status
	ended := jobFinished(c.job)
	turned := ended != jobFinished(c.old)
	c.no((turned || s.Active != was.Active) && s.Active > 0 && ended, "active", s.Active, "active>0 is invalid for finished job")
	never := valid.Deref(c.job.Spec.Suspend) && c.job.Spec.Completions != nil && *c.job.Spec.Completions == 0
	c.required((turned || !s.StartTime.Equal(was.StartTime)) && !never && s.StartTime == nil && ended, "startTime", "startTime is required for finished job")
	u := s.UncountedTerminatedPods
	c.no((turned || !apiequality.Semantic.DeepEqual(u, was.UncountedTerminatedPods)) && ended && u != nil && len(u.Failed)+len(u.Succeeded) > 0,
		"uncountedTerminatedPods", u, "must be empty for finished job")
}

func (c *jobChange) indexes() {
	s, was, spec := &c.job.Status, &c.old.Status, &c.job.Spec
	completed := s.CompletedIndexes != was.CompletedIndexes
	failed := (s.FailedIndexes == nil) != (was.FailedIndexes == nil) || valid.Deref(s.FailedIndexes) != valid.Deref(was.FailedIndexes)
	if completed && spec.Completions != nil {
		if _, err := countIndexes(s.CompletedIndexes, *spec.Completions); err != nil {
			c.no(true, "completedIndexes", s.CompletedIndexes, fmt.Sprintf("error parsing completedIndexes: %s", err))
		}
	}
	if failed && spec.Completions != nil && spec.BackoffLimitPerIndex != nil && s.FailedIndexes != nil {
		if _, err := countIndexes(*s.FailedIndexes, *spec.Completions); err != nil {
			c.no(true, "failedIndexes", *s.FailedIndexes, fmt.Sprintf("error parsing failedIndexes: %s", err))
		}
	}
	c.no(completed && s.CompletedIndexes != "" && valid.Deref(spec.CompletionMode) != batchv1.IndexedCompletion,
		"completedIndexes", s.CompletedIndexes, "cannot set non-empty completedIndexes when non-indexed completion mode")
	c.no(failed && spec.BackoffLimitPerIndex == nil && s.FailedIndexes != nil,
		"failedIndexes", valid.Deref(s.FailedIndexes), "cannot set non-null failedIndexes when backoffLimitPerIndex is null")
	if (failed || completed) && spec.Completions != nil && s.FailedIndexes != nil {
		if i, both := indexInBoth(s.CompletedIndexes, *s.FailedIndexes, *spec.Completions); both {
			c.no(true, "failedIndexes", *s.FailedIndexes, fmt.Sprintf("failedIndexes and completedIndexes overlap at index: %d", i))
		}
	}
}

func (c *jobChange) active() {
	s, was := &c.job.Status, &c.old.Status
	ended := jobFinished(c.job)
	c.no((ended != jobFinished(c.old) || apps.Wide(s.Terminating) != apps.Wide(was.Terminating)) && valid.Deref(s.Terminating) > 0 && ended,
		"terminating", s.Terminating, "terminating>0 is invalid for finished job")
	c.no(s.Ready != nil && (apps.Wide(s.Ready) != apps.Wide(was.Ready) || s.Active != was.Active) && valid.Deref(s.Ready) > s.Active,
		"ready", valid.Deref(s.Ready), "cannot set more ready pods than active")
}

func (c *jobChange) criteria() {
	met := jobIs(c.job, batchv1.JobSuccessCriteriaMet)
	c.no(met && jobIs(c.job, batchv1.JobFailed), "conditions", field.OmitValueType{}, "cannot set SuccessCriteriaMet=True and Failed=true conditions")
	c.no(met && jobIs(c.job, batchv1.JobFailureTarget), "conditions", field.OmitValueType{}, "cannot set SuccessCriteriaMet=True and FailureTarget=true conditions")
	c.no(c.job.Spec.SuccessPolicy != nil && !met && jobIs(c.job, batchv1.JobComplete),
		"conditions", field.OmitValueType{}, "cannot set Complete=True for Job with SuccessPolicy unless SuccessCriteriaMet=True")
}

// jobStepErrors: what has happened to a job stays.
func jobStepErrors(job, old *batchv1.Job, is, was *batchv1.JobStatus) field.ErrorList {
	c := jobChange{job: job, old: old}
	for _, kind := range []batchv1.JobConditionType{batchv1.JobFailed, batchv1.JobComplete, batchv1.JobFailureTarget} {
		c.no(jobIs(old, kind) && !jobIs(job, kind), "conditions", field.OmitValueType{}, fmt.Sprintf("cannot disable the terminal %s=True condition", kind))
	}
	c.no(is.Failed < was.Failed, "failed", is.Failed, "cannot decrease the failed counter")
	scales := valid.Deref(job.Spec.CompletionMode) == batchv1.IndexedCompletion && apiequality.Semantic.DeepEqual(job.Spec.Completions, job.Spec.Parallelism)
	c.no(!scales && is.Succeeded < was.Succeeded, "succeeded", is.Succeeded, "cannot decrease the succeeded counter")
	c.no(is.CompletionTime != nil && was.CompletionTime != nil && !is.CompletionTime.Equal(was.CompletionTime), "completionTime", is.CompletionTime, valid.Immutable)
	resumes := jobIs(old, batchv1.JobSuspended) && jobHas(job, batchv1.JobSuspended, corev1.ConditionFalse)
	c.no(!resumes && was.StartTime != nil && !is.StartTime.Equal(was.StartTime) && !valid.Deref(job.Spec.Suspend),
		"startTime", is.StartTime, "field is immutable for unsuspended job once set")
	met, had := jobIs(job, batchv1.JobSuccessCriteriaMet), jobIs(old, batchv1.JobSuccessCriteriaMet)
	c.no(had && !met, "conditions", field.OmitValueType{}, "cannot disable the SuccessCriteriaMet=True condition")
	c.no(jobIs(old, batchv1.JobComplete) && !had && met,
		"conditions", field.OmitValueType{}, "cannot set SuccessCriteriaMet=True for Job already has Complete=true conditions")
	return c.errs
}

func uncountedErrors(u *batchv1.UncountedTerminatedPods) field.ErrorList {
	if u == nil {
		return nil
	}
	var errs field.ErrorList
	seen := map[types.UID]bool{}
	check := func(ids []types.UID, name string) {
		for i, id := range ids {
			at := field.NewPath("status", "uncountedTerminatedPods", name).Index(i)
			switch {
			case id == "":
				errs = append(errs, field.Invalid(at, id, "must not be empty"))
			case seen[id]:
				errs = append(errs, field.Duplicate(at, id))
			}
			seen[id] = true
		}
	}
	check(u.Succeeded, "succeeded")
	check(u.Failed, "failed")
	return errs
}

// countIndexes counts the indexes of a list like "1,3-5".
func countIndexes(list string, completions int32) (int32, error) {
	if list == "" {
		return 0, nil
	}
	total, last := int32(0), int32(-1)
	for interval := range strings.SplitSeq(list, ",") {
		from, to, err := indexInterval(interval, completions)
		if err != nil {
			return 0, err
		}
		if last >= from {
			return 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", last, from)
		}
		total += to - from + 1
		last = to
	}
	return total, nil
}

func indexInterval(s string, completions int32) (from, to int32, err error) {
	ends := strings.Split(s, "-")
	if len(ends) > 2 {
		return 0, 0, fmt.Errorf("the fragment %q violates the requirement that an index interval can have at most two parts separated by '-'", s)
	}
	index := func(s string) (int32, error) {
		n, err := strconv.Atoi(s)
		switch {
		case err != nil:
			return 0, fmt.Errorf("cannot convert string to integer for index: %q", s)
		case n >= int(completions):
			return 0, fmt.Errorf("too large index: %q", s)
		}
		return int32(n), nil //nolint:gosec // it is below an int32
	}
	if from, err = index(ends[0]); err != nil || len(ends) == 1 {
		return from, from, err
	}
	if to, err = index(ends[1]); err != nil {
		return 0, 0, err
	}
	if from >= to {
		return 0, 0, fmt.Errorf("non-increasing order, previous: %d, current: %d", from, to)
	}
	return from, to, nil
}

// indexInBoth finds an index that two lists have, the first in their order.
func indexInBoth(completed, failed string, completions int32) (int32, bool) {
	if completed == "" || failed == "" {
		return 0, false
	}
	type interval struct{ from, to int32 }
	parse := func(list string) (out []interval) {
		for s := range strings.SplitSeq(list, ",") {
			if from, to, err := indexInterval(s, completions); err == nil { // an error is told elsewhere
				out = append(out, interval{from, to})
			}
		}
		return out
	}
	a, b := parse(completed), parse(failed)
	for len(a) > 0 && len(b) > 0 {
		if a[0].from <= b[0].to && b[0].from <= a[0].to {
			return max(a[0].from, b[0].from), true
		}
		if a[0].from <= b[0].from {
			a = a[1:]
		} else {
			b = b[1:]
		}
	}
	return 0, false
}
