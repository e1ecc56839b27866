package replicaset

import (
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/writ-os/writ/controlplane/controller/podset"
)

// decision is what to do about the number of pods: one or the other.
type decision struct {
	create int
	remove []*corev1.Pod
}

// plan decides how many pods to create or which to end, at most a burst.
func plan(rs *appsv1.ReplicaSet, pods []*corev1.Pod, related func() []*corev1.Pod, now time.Time) decision {
	active := podset.ActiveOf(pods)
	diff := int(replicas(rs)) - len(active)
	switch {
	case diff > 0:
		return decision{create: min(diff, podset.Burst)}
	case diff < 0:
		podset.SortForDeletion(active, related(), now)
		return decision{remove: active[:min(-diff, podset.Burst)]}
	}
	return decision{}
}

// replicas is the number asked for; one where nothing is said.
func replicas(rs *appsv1.ReplicaSet) int32 {
	if rs.Spec.Replicas == nil {
		return 1
	}
	return *rs.Spec.Replicas
}

// nextAvailable is when the next ready pod will have been so for long enough;
// 0 when none is on the way.
func nextAvailable(rs *appsv1.ReplicaSet, pods []*corev1.Pod, now time.Time) time.Duration {
	var next time.Duration
	for _, p := range pods {
		wait, ready := podset.UntilAvailable(p, rs.Spec.MinReadySeconds, now)
		if ready && podset.Active(p) && wait > 0 && (next == 0 || wait < next) {
			next = wait
		}
	}
	return next
}

// statusOf counts the pods.
func statusOf(rs *appsv1.ReplicaSet, pods []*corev1.Pod, manageErr error, now time.Time) appsv1.ReplicaSetStatus {
	s := appsv1.ReplicaSetStatus{ObservedGeneration: rs.Generation, TerminatingReplicas: new(int32)}
	template := labels.Set(rs.Spec.Template.Labels).AsSelectorPreValidated()
	for _, p := range pods {
		if podset.Terminating(p) {
			*s.TerminatingReplicas++
		}
		if !podset.Active(p) {
			continue
		}
		s.Replicas++
		if template.Matches(labels.Set(p.Labels)) {
			s.FullyLabeledReplicas++
		}
		if podset.Ready(p) {
			s.ReadyReplicas++
			if podset.Available(p, rs.Spec.MinReadySeconds, now) {
				s.AvailableReplicas++
			}
		}
	}
	s.Conditions = conditions(rs, int(replicas(rs))-int(s.Replicas), manageErr, now)
	return s
}

// conditions sets ReplicaFailure while creating or deleting fails.
func conditions(rs *appsv1.ReplicaSet, diff int, manageErr error, now time.Time) []appsv1.ReplicaSetCondition {
	var out []appsv1.ReplicaSetCondition
	var failure *appsv1.ReplicaSetCondition
	for i := range rs.Status.Conditions {
		if rs.Status.Conditions[i].Type == appsv1.ReplicaSetReplicaFailure {
			failure = &rs.Status.Conditions[i]
			continue
		}
		out = append(out, rs.Status.Conditions[i])
	}
	if manageErr == nil {
		return out
	}
	if failure != nil {
		return append(out, *failure)
	}
	reason := "FailedCreate"
	if diff < 0 {
		reason = "FailedDelete"
	}
	return append(out, appsv1.ReplicaSetCondition{
		Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now),
		Reason: reason, Message: manageErr.Error(),
	})
}
