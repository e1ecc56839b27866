package registry

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// count is a number of a status, by the name of its field.
type count struct {
	name string
	n    int64
}

// countErrors checks the numbers of a status: none is negative.
func countErrors(counts ...count) field.ErrorList {
	var errs field.ErrorList
	for _, c := range counts {
		errs = append(errs, nonNegative(c.n, field.NewPath("status", c.name))...)
	}
	return errs
}

// partErrors checks parts of a whole.
func partErrors(whole int32, parts ...count) field.ErrorList {
	var errs field.ErrorList
	for _, c := range parts {
		if c.n > int64(whole) {
			errs = append(errs, field.Invalid(field.NewPath("status", c.name), c.n, "cannot be greater than status.replicas"))
		}
	}
	return errs
}

func readyErrors(available, ready int32, text string) field.ErrorList {
	if available <= ready {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("status", "availableReplicas"), available, "cannot be greater than "+text)}
}

func collisionErrors(is, was *int32) field.ErrorList {
	if was == nil || is != nil && *is >= *was {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("status", "collisionCount"), deref(is), "cannot be decremented")}
}

func wide(n *int32) int64 { return int64(deref(n)) }

func deploymentStatusErrors(s, old *appsv1.DeploymentStatus) field.ErrorList {
	errs := countErrors(count{"observedGeneration", s.ObservedGeneration}, count{"replicas", int64(s.Replicas)},
		count{"updatedReplicas", int64(s.UpdatedReplicas)}, count{"readyReplicas", int64(s.ReadyReplicas)},
		count{"availableReplicas", int64(s.AvailableReplicas)}, count{"unavailableReplicas", int64(s.UnavailableReplicas)},
		count{"terminatingReplicas", wide(s.TerminatingReplicas)}, count{"collisionCount", wide(s.CollisionCount)})
	errs = append(errs, partErrors(s.Replicas, count{"updatedReplicas", int64(s.UpdatedReplicas)},
		count{"readyReplicas", int64(s.ReadyReplicas)}, count{"availableReplicas", int64(s.AvailableReplicas)})...)
	errs = append(errs, readyErrors(s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")...)
	return append(errs, collisionErrors(s.CollisionCount, old.CollisionCount)...)
}

func replicaSetStatusErrors(s *appsv1.ReplicaSetStatus) field.ErrorList {
	errs := countErrors(count{"replicas", int64(s.Replicas)}, count{"fullyLabeledReplicas", int64(s.FullyLabeledReplicas)},
		count{"readyReplicas", int64(s.ReadyReplicas)}, count{"availableReplicas", int64(s.AvailableReplicas)},
		count{"observedGeneration", s.ObservedGeneration}, count{"terminatingReplicas", wide(s.TerminatingReplicas)})
	errs = append(errs, partErrors(s.Replicas, count{"fullyLabeledReplicas", int64(s.FullyLabeledReplicas)},
		count{"readyReplicas", int64(s.ReadyReplicas)}, count{"availableReplicas", int64(s.AvailableReplicas)})...)
	return append(errs, readyErrors(s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")...)
}

func replicationStatusErrors(s *corev1.ReplicationControllerStatus) field.ErrorList {
	return replicaSetStatusErrors(&appsv1.ReplicaSetStatus{
		Replicas: s.Replicas, FullyLabeledReplicas: s.FullyLabeledReplicas, ReadyReplicas: s.ReadyReplicas,
		AvailableReplicas: s.AvailableReplicas, ObservedGeneration: s.ObservedGeneration,
	})
}

func daemonSetStatusErrors(s, old *appsv1.DaemonSetStatus) field.ErrorList {
	errs := countErrors(count{"currentNumberScheduled", int64(s.CurrentNumberScheduled)}, count{"numberMisscheduled", int64(s.NumberMisscheduled)},
		count{"desiredNumberScheduled", int64(s.DesiredNumberScheduled)}, count{"numberReady", int64(s.NumberReady)},
		count{"observedGeneration", s.ObservedGeneration}, count{"updatedNumberScheduled", int64(s.UpdatedNumberScheduled)},
		count{"numberAvailable", int64(s.NumberAvailable)}, count{"numberUnavailable", int64(s.NumberUnavailable)},
		count{"collisionCount", wide(s.CollisionCount)})
	return append(errs, collisionErrors(s.CollisionCount, old.CollisionCount)...)
}

func statefulSetStatusErrors(s, old *appsv1.StatefulSetStatus) field.ErrorList {
	errs := countErrors(count{"replicas", int64(s.Replicas)}, count{"readyReplicas", int64(s.ReadyReplicas)},
		count{"currentReplicas", int64(s.CurrentReplicas)}, count{"updatedReplicas", int64(s.UpdatedReplicas)},
		count{"availableReplicas", int64(s.AvailableReplicas)}, count{"observedGeneration", s.ObservedGeneration},
		count{"collisionCount", wide(s.CollisionCount)})
	errs = append(errs, partErrors(s.Replicas, count{"readyReplicas", int64(s.ReadyReplicas)}, count{"currentReplicas", int64(s.CurrentReplicas)},
		count{"updatedReplicas", int64(s.UpdatedReplicas)}, count{"availableReplicas", int64(s.AvailableReplicas)})...)
	errs = append(errs, readyErrors(s.AvailableReplicas, s.ReadyReplicas, "status.readyReplicas")...)
	return append(errs, collisionErrors(s.CollisionCount, old.CollisionCount)...)
}
