package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/controller/podset"
)

// The pause before a failed pod is replaced: 10 s, doubling, at most 10 min.
const (
	backoffFirst = 10 * time.Second
	backoffMost  = 10 * time.Minute
)

// decision is what to do about one Job.
type decision struct {
	status  batchv1.JobStatus
	release []*corev1.Pod // from the finalizer, once the status is stored
	remove  []*corev1.Pod
	create  []int // completion indexes; -1 each for a Job without
	again   time.Duration
}

// plan decides the next step.
func plan(job *batchv1.Job, pods []*corev1.Pod, now time.Time) decision {
	d := decision{status: *job.Status.DeepCopy()}
	if finished(job.Status.Conditions) {
		d.release = pods
		return d
	}
	t := tally(job, pods, &d.status)
	d.release = t.release
	d.status.Active, d.status.Ready, d.status.Terminating = int32(len(t.active)), &t.ready, &t.terminating
	if job.DeletionTimestamp != nil {
		d.release = pods // garbage collection ends them
		return d
	}
	verdict := judge(job, t, now)
	switch {
	case verdict != nil:
		d.remove = t.active
		conclude(&d.status, *verdict, len(t.active) == 0 && t.terminating == 0 && t.uncounted == 0, now)
	case suspended(job):
		d.remove = t.active
		setSuspended(&d.status, now)
	default:
		resume(job, &d.status, now)
		d.adjust(job, t, now)
		d.again = earliest(d.again, untilDeadline(job, d.status.StartTime, now))
	}
	return d
}

// counts is what the pods of a Job come to.
type counts struct {
	active             []*corev1.Pod
	ready, terminating int32
	succeeded, failed  int32 // with those whose finalizer is still on
	uncounted          int
	completed          indexes // Indexed only
	release            []*corev1.Pod
	failures           int // in a row, since the last success
	lastFailure        time.Time
	restarts           int32
}

// tally counts the pods, and moves their UIDs through the status: in when they
// have ended, out, and into the sums, when they are let go.
func tally(job *batchv1.Job, pods []*corev1.Pod, s *batchv1.JobStatus) counts {
	var t counts
	un := s.UncountedTerminatedPods
	if un == nil {
		un = &batchv1.UncountedTerminatedPods{}
	}
	held := map[types.UID]bool{}
	for _, p := range pods {
		if tracked(p) {
			held[p.UID] = true
		}
	}
	settle := func(list []types.UID, sum *int32) []types.UID {
		return slices.DeleteFunc(slices.Clone(list), func(uid types.UID) bool {
			if !held[uid] {
				*sum++
				return true
			}
			return false
		})
	}
	un = &batchv1.UncountedTerminatedPods{Succeeded: settle(un.Succeeded, &s.Succeeded), Failed: settle(un.Failed, &s.Failed)}
	t.completed = parseIndexes(s.CompletedIndexes)
	var lastSuccess time.Time
	for _, p := range pods {
		switch {
		case p.Status.Phase == corev1.PodSucceeded:
			lastSuccess = later(lastSuccess, ended(p))
			if !tracked(p) {
				continue
			}
			t.release = append(t.release, p)
			if indexed(job) {
				t.completed.add(indexOf(p), completions(job))
			} else if !slices.Contains(un.Succeeded, p.UID) {
				un.Succeeded = append(un.Succeeded, p.UID)
			}
		case failedPod(job, p):
			if podset.Terminating(p) {
				t.terminating++
			}
			if !tracked(p) {
				continue
			}
			t.release = append(t.release, p)
			if !slices.Contains(un.Failed, p.UID) {
				un.Failed = append(un.Failed, p.UID)
			}
		case podset.Terminating(p):
			t.terminating++
		default:
			t.active = append(t.active, p)
			if podset.Ready(p) {
				t.ready++
			}
			for _, cs := range slices.Concat(p.Status.InitContainerStatuses, p.Status.ContainerStatuses) {
				t.restarts += cs.RestartCount
			}
		}
	}
	for _, p := range pods {
		if p.Status.Phase == corev1.PodFailed && ended(p).After(lastSuccess) {
			t.failures++
			t.lastFailure = later(t.lastFailure, ended(p))
		}
	}
	t.uncounted = len(un.Succeeded) + len(un.Failed)
	s.UncountedTerminatedPods = un
	if indexed(job) {
		s.CompletedIndexes = t.completed.String()
		s.Succeeded = int32(t.completed.count())
	}
	t.succeeded = s.Succeeded + int32(len(un.Succeeded))
	t.failed = s.Failed + int32(len(un.Failed))
	return t
}

// failedPod says that a pod counts as a failure. One that is being deleted by
// another does: it may never come to say how it ended.
func failedPod(job *batchv1.Job, p *corev1.Pod) bool {
	if p.Status.Phase == corev1.PodFailed {
		return true
	}
	if r := job.Spec.PodReplacementPolicy; r != nil && *r == batchv1.Failed {
		return p.DeletionTimestamp != nil && p.Status.Phase == corev1.PodPending
	}
	return p.DeletionTimestamp != nil && tracked(p)
}

// judge says whether the Job has come to its end, and how.
func judge(job *batchv1.Job, t counts, now time.Time) *batchv1.JobCondition {
	for _, c := range job.Status.Conditions { // said before; the pods are still ending
		if (c.Type == batchv1.JobFailureTarget || c.Type == batchv1.JobSuccessCriteriaMet) && c.Status == corev1.ConditionTrue {
			return &c
		}
	}
	failure := func(reason, message string) *batchv1.JobCondition {
		return &batchv1.JobCondition{Type: batchv1.JobFailureTarget, Reason: reason, Message: message}
	}
	limit := int32(6)
	if job.Spec.BackoffLimit != nil {
		limit = *job.Spec.BackoffLimit
	}
	onFailure := job.Spec.Template.Spec.RestartPolicy == corev1.RestartPolicyOnFailure
	switch {
	case t.failed > limit || onFailure && (limit == 0 && t.restarts > 0 || limit > 0 && t.restarts >= limit):
		return failure(batchv1.JobReasonBackoffLimitExceeded, "Job has reached the specified backoff limit")
	case pastDeadline(job, now):
		return failure(batchv1.JobReasonDeadlineExceeded, "Job was active longer than specified deadline")
	case succeededEnough(job, t):
		return &batchv1.JobCondition{Type: batchv1.JobSuccessCriteriaMet, Reason: batchv1.JobReasonCompletionsReached, Message: "Reached expected number of succeeded pods"}
	}
	return nil
}

// succeededEnough: all completions, or, where none are asked for (a work
// queue), one success and nobody at work.
func succeededEnough(job *batchv1.Job, t counts) bool {
	if job.Spec.Completions == nil {
		return t.succeeded > 0 && len(t.active) == 0
	}
	return t.succeeded >= *job.Spec.Completions && (*job.Spec.Completions > 0 || len(t.active) == 0)
}

// conclude notes the verdict, and when nothing is left to wait for, the end.
func conclude(s *batchv1.JobStatus, verdict batchv1.JobCondition, over bool, now time.Time) {
	s.Conditions = setCondition(s.Conditions, verdict.Type, corev1.ConditionTrue, verdict.Reason, verdict.Message, now)
	if !over {
		return
	}
	if verdict.Type == batchv1.JobSuccessCriteriaMet {
		at := metav1.NewTime(now)
		s.CompletionTime = &at
		s.Conditions = setCondition(s.Conditions, batchv1.JobComplete, corev1.ConditionTrue, verdict.Reason, verdict.Message, now)
	} else {
		s.Conditions = setCondition(s.Conditions, batchv1.JobFailed, corev1.ConditionTrue, verdict.Reason, verdict.Message, now)
	}
	s.UncountedTerminatedPods = &batchv1.UncountedTerminatedPods{}
}

// adjust decides how many pods to create or end.
func (d *decision) adjust(job *batchv1.Job, t counts, now time.Time) {
	parallelism := int32(1)
	if job.Spec.Parallelism != nil {
		parallelism = *job.Spec.Parallelism
	}
	want := parallelism
	if job.Spec.Completions != nil {
		want = min(max(*job.Spec.Completions-t.succeeded, 0), parallelism)
	} else if t.succeeded > 0 {
		want = min(int32(len(t.active)), parallelism)
	}
	active := t.active
	if indexed(job) {
		var double []*corev1.Pod
		active, double = uniqueIndexes(active, t.completed, completions(job))
		d.remove = append(d.remove, double...)
	}
	n := int32(len(active))
	if n > want {
		podset.SortForDeletion(active, active, now)
		d.remove = append(d.remove, active[:n-want]...)
		return
	}
	if r := job.Spec.PodReplacementPolicy; r != nil && *r == batchv1.Failed {
		n += t.terminating
	}
	missing := min(int(want-n), podset.Burst)
	if missing <= 0 {
		return
	}
	if wait := backoff(t, now); wait > 0 {
		d.again = wait
		return
	}
	if indexed(job) {
		d.create = freeIndexes(missing, active, t.completed, completions(job))
		return
	}
	d.create = slices.Repeat([]int{-1}, missing)
}

// backoff is how long to wait before a failed pod is replaced.
func backoff(t counts, now time.Time) time.Duration {
	if t.failures == 0 {
		return 0
	}
	pause := backoffMost
	if t.failures < 10 {
		pause = min(backoffFirst<<(t.failures-1), backoffMost)
	}
	return max(t.lastFailure.Add(pause).Sub(now), 0)
}
