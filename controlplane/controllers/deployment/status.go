package deployment

import (
	"fmt"
	"math"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statusOf counts what the ReplicaSets report, on top of what acting noted.
func statusOf(w world, noted appsv1.DeploymentStatus, now time.Time) appsv1.DeploymentStatus {
	all := w.all()
	s := appsv1.DeploymentStatus{
		ObservedGeneration: w.d.Generation,
		Replicas:           total(all, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.Replicas }),
		ReadyReplicas:      total(all, func(rs *appsv1.ReplicaSet) int32 { return rs.Status.ReadyReplicas }),
		AvailableReplicas:  total(all, available),
		CollisionCount:     noted.CollisionCount,
		Conditions:         slices.Clone(noted.Conditions),
	}
	s.UnavailableReplicas = max(total(all, size)-s.AvailableReplicas, 0)
	if w.current != nil {
		s.UpdatedReplicas = w.current.Status.Replicas
	}
	s.TerminatingReplicas = terminating(all)
	if s.AvailableReplicas >= wanted(w.d)-maxUnavailable(w.d) {
		setCondition(&s, appsv1.DeploymentAvailable, corev1.ConditionTrue, "MinimumReplicasAvailable", "Deployment has minimum availability.", now)
	} else {
		setCondition(&s, appsv1.DeploymentAvailable, corev1.ConditionFalse, "MinimumReplicasUnavailable", "Deployment does not have minimum availability.", now)
	}
	return s
}

// terminating sums the pods that are ending; nil while a ReplicaSet has not
// counted its own.
func terminating(sets []*appsv1.ReplicaSet) *int32 {
	n := int32(0)
	for _, rs := range sets {
		if rs.Status.TerminatingReplicas == nil {
			return nil
		}
		n += *rs.Status.TerminatingReplicas
	}
	return &n
}

// progress sets the Progressing and ReplicaFailure conditions of a rollout.
func progress(w world, s appsv1.DeploymentStatus, now time.Time) appsv1.DeploymentStatus {
	cur := condition(w.d.Status, appsv1.DeploymentProgressing)
	if !hasDeadline(w.d) {
		dropCondition(&s, appsv1.DeploymentProgressing)
	}
	settled := s.Replicas == s.UpdatedReplicas && cur != nil && cur.Reason == "NewReplicaSetAvailable"
	if hasDeadline(w.d) && !settled {
		name := fmt.Sprintf("Deployment %q", w.d.Name)
		if w.current != nil {
			name = fmt.Sprintf("ReplicaSet %q", w.current.Name)
		}
		switch {
		case complete(w.d, s):
			setCondition(&s, appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetAvailable", name+" has successfully progressed.", now)
		case progressed(w.d.Status, s):
			// A new update time each step: the deadline counts from the last one.
			since := metav1.NewTime(now)
			if cur != nil && cur.Status == corev1.ConditionTrue {
				since = cur.LastTransitionTime
			}
			dropCondition(&s, appsv1.DeploymentProgressing)
			setCondition(&s, appsv1.DeploymentProgressing, corev1.ConditionTrue, "ReplicaSetUpdated", name+" is progressing.", now)
			condition(s, appsv1.DeploymentProgressing).LastTransitionTime = since
		case timedOut(w.d, s, now):
			setCondition(&s, appsv1.DeploymentProgressing, corev1.ConditionFalse, "ProgressDeadlineExceeded", name+" has timed out progressing.", now)
		}
	}
	dropFailure := true
	for _, rs := range slices.Backward(w.all()) { // the current one first
		for _, c := range rs.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure && dropFailure {
				setCondition(&s, appsv1.DeploymentReplicaFailure, c.Status, c.Reason, c.Message, now)
				dropFailure = false
			}
		}
	}
	if dropFailure {
		dropCondition(&s, appsv1.DeploymentReplicaFailure)
	}
	return s
}

// complete says that all pods are of the current template and available.
func complete(d *appsv1.Deployment, s appsv1.DeploymentStatus) bool {
	n := wanted(d)
	return s.UpdatedReplicas == n && s.Replicas == n && s.AvailableReplicas == n && s.ObservedGeneration >= d.Generation
}

// progressed says that a status is nearer to completion than the one before.
func progressed(before, s appsv1.DeploymentStatus) bool {
	return s.UpdatedReplicas > before.UpdatedReplicas ||
		s.Replicas-s.UpdatedReplicas < before.Replicas-before.UpdatedReplicas ||
		s.ReadyReplicas > before.ReadyReplicas ||
		s.AvailableReplicas > before.AvailableReplicas
}

func hasDeadline(d *appsv1.Deployment) bool {
	return d.Spec.ProgressDeadlineSeconds != nil && *d.Spec.ProgressDeadlineSeconds != math.MaxInt32
}

func timedOut(d *appsv1.Deployment, s appsv1.DeploymentStatus, now time.Time) bool {
	c := condition(s, appsv1.DeploymentProgressing)
	if c == nil || c.Reason == "NewReplicaSetAvailable" {
		return false
	}
	return c.Reason == "ProgressDeadlineExceeded" || deadline(d, c).Before(now)
}

func deadline(d *appsv1.Deployment, c *appsv1.DeploymentCondition) time.Time {
	return c.LastUpdateTime.Add(time.Duration(*d.Spec.ProgressDeadlineSeconds) * time.Second)
}

// untilDeadline is when to look whether a rollout is stuck; 0 for never.
func untilDeadline(d *appsv1.Deployment, s appsv1.DeploymentStatus, now time.Time) time.Duration {
	c := condition(s, appsv1.DeploymentProgressing)
	if !hasDeadline(d) || c == nil || d.Spec.Paused || complete(d, s) || c.Reason == "ProgressDeadlineExceeded" || c.Reason == "NewReplicaSetAvailable" {
		return 0
	}
	// Times of the API are whole seconds: look when the second is over.
	return max(deadline(d, c).Sub(now)+time.Second, time.Second)
}

// notePause tells in the Progressing condition that a pause began or ended, so
// that the time of the pause does not count against the deadline.
func notePause(d *appsv1.Deployment, s *appsv1.DeploymentStatus, now time.Time) {
	if !hasDeadline(d) {
		return
	}
	c := condition(*s, appsv1.DeploymentProgressing)
	if c != nil && c.Reason == "ProgressDeadlineExceeded" {
		return
	}
	paused := c != nil && c.Reason == "DeploymentPaused"
	switch {
	case d.Spec.Paused && !paused:
		setCondition(s, appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentPaused", "Deployment is paused", now)
	case !d.Spec.Paused && paused:
		setCondition(s, appsv1.DeploymentProgressing, corev1.ConditionUnknown, "DeploymentResumed", "Deployment is resumed", now)
	}
}

func condition(s appsv1.DeploymentStatus, t appsv1.DeploymentConditionType) *appsv1.DeploymentCondition {
	for i := range s.Conditions {
		if s.Conditions[i].Type == t {
			return &s.Conditions[i]
		}
	}
	return nil
}

func dropCondition(s *appsv1.DeploymentStatus, t appsv1.DeploymentConditionType) {
	s.Conditions = slices.DeleteFunc(slices.Clone(s.Conditions), func(c appsv1.DeploymentCondition) bool { return c.Type == t })
}

// setCondition sets a condition. One with the same status and reason stays as
// it is; one with the same status keeps the time of its last transition.
func setCondition(s *appsv1.DeploymentStatus, t appsv1.DeploymentConditionType, status corev1.ConditionStatus, reason, message string, now time.Time) {
	at := metav1.NewTime(now)
	next := appsv1.DeploymentCondition{Type: t, Status: status, Reason: reason, Message: message, LastUpdateTime: at, LastTransitionTime: at}
	if cur := condition(*s, t); cur != nil {
		if cur.Status == status && cur.Reason == reason {
			return
		}
		if cur.Status == status {
			next.LastTransitionTime = cur.LastTransitionTime
		}
	}
	dropCondition(s, t)
	s.Conditions = append(s.Conditions, next)
}
