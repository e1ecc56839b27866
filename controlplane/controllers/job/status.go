package job

import (
	"slices"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func suspended(job *batchv1.Job) bool { return job.Spec.Suspend != nil && *job.Spec.Suspend }

// finished says that a Job has ended for good.
func finished(conds []batchv1.JobCondition) bool {
	for _, t := range []batchv1.JobConditionType{batchv1.JobComplete, batchv1.JobFailed} {
		if c := condition(conds, t); c != nil && c.Status == corev1.ConditionTrue {
			return true
		}
	}
	return false
}

// setSuspended stops the Job's clock.
func setSuspended(s *batchv1.JobStatus, now time.Time) {
	s.StartTime = nil
	s.Conditions = setCondition(s.Conditions, batchv1.JobSuspended, corev1.ConditionTrue, "JobSuspended", "Job suspended", now)
}

// resume starts the Job's clock.
func resume(job *batchv1.Job, s *batchv1.JobStatus, now time.Time) {
	at := metav1.NewTime(now)
	if c := condition(s.Conditions, batchv1.JobSuspended); c != nil && c.Status == corev1.ConditionTrue {
		s.Conditions = setCondition(s.Conditions, batchv1.JobSuspended, corev1.ConditionFalse, "JobResumed", "Job resumed", now)
		s.StartTime = &at
	}
	if s.StartTime == nil {
		s.StartTime = &at
	}
}

func pastDeadline(job *batchv1.Job, now time.Time) bool {
	if job.Spec.ActiveDeadlineSeconds == nil || job.Status.StartTime == nil || suspended(job) {
		return false
	}
	return !now.Before(job.Status.StartTime.Add(time.Duration(*job.Spec.ActiveDeadlineSeconds) * time.Second))
}

// untilDeadline is how long the Job may still run; 0 for no limit.
func untilDeadline(job *batchv1.Job, start *metav1.Time, now time.Time) time.Duration {
	if job.Spec.ActiveDeadlineSeconds == nil || start == nil {
		return 0
	}
	return max(start.Add(time.Duration(*job.Spec.ActiveDeadlineSeconds)*time.Second).Sub(now), time.Millisecond)
}

// earliest is the shorter of two waits, where 0 is none.
func earliest(a, b time.Duration) time.Duration {
	if a == 0 || b != 0 && b < a {
		return b
	}
	return a
}

func condition(conds []batchv1.JobCondition, t batchv1.JobConditionType) *batchv1.JobCondition {
	for i := range conds {
		if conds[i].Type == t {
			return &conds[i]
		}
	}
	return nil
}

func setCondition(conds []batchv1.JobCondition, t batchv1.JobConditionType, status corev1.ConditionStatus, reason, message string, now time.Time) []batchv1.JobCondition {
	at := metav1.NewTime(now)
	next := batchv1.JobCondition{Type: t, Status: status, Reason: reason, Message: message, LastProbeTime: at, LastTransitionTime: at}
	if c := condition(conds, t); c != nil {
		if c.Status == status && c.Reason == reason && c.Message == message {
			return conds
		}
		if c.Status == status {
			next.LastTransitionTime = c.LastTransitionTime
		}
		conds = slices.Clone(conds)
		*condition(conds, t) = next
		return conds
	}
	return append(slices.Clone(conds), next)
}
