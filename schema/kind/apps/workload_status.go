package apps

import (
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/schema/kind/valid"
)

// partErrors checks parts of a whole.
func partErrors(whole int32, parts ...valid.Count) field.ErrorList {
	var errs field.ErrorList
	for _, c := range parts {
		if c.N > int64(whole) {
			errs = append(errs, field.Invalid(field.NewPath("status", c.Name), c.N, "cannot be greater than status.replicas"))
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
	return field.ErrorList{field.Invalid(field.NewPath("status", "collisionCount"), valid.Deref(is), "cannot be decremented")}
}

// Wide is a count that may be left out.
func Wide(n *int32) int64 { return int64(valid.Deref(n)) }

func deploymentStatusErrors(s, old *appsv1.DeploymentStatus) field.ErrorList {
	errs := valid.Counts(valid.Count{Name: "observedGeneration", N: s.ObservedGeneration}, valid.Count{Name: "replicas", N: int64(s.Replicas)},
		valid.Count{Name: "updatedReplicas", N: int64(s.UpdatedReplicas)}, valid.Count{Name: "readyReplicas", N: int64(s.ReadyReplicas)},
		valid.Count{Name: "availableReplicas", N: int64(s.AvailableReplicas)}, valid.Count{Name: "unavailableReplicas", N: int64(s.UnavailableReplicas)},
		valid.Count{Name: "terminatingReplicas", N: Wide(s.TerminatingReplicas)}, valid.Count{Name: "collisionCount", N: Wide(s.CollisionCount)})
	errs = append(errs, partErrors(s.Replicas, valid.Count{Name: "updatedReplicas", N: int64(s.UpdatedReplicas)},
		valid.Count{Name: "readyReplicas", N: int64(s.ReadyReplicas)}, valid.Count{Name: "availableReplicas", N: int64(s.AvailableReplicas)})...)
	errs = append(errs, readyErrors(s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")...)
	return append(errs, collisionErrors(s.CollisionCount, old.CollisionCount)...)
}

func replicaSetStatusErrors(s *appsv1.ReplicaSetStatus) field.ErrorList {
	errs := valid.Counts(valid.Count{Name: "replicas", N: int64(s.Replicas)}, valid.Count{Name: "fullyLabeledReplicas", N: int64(s.FullyLabeledReplicas)},
		valid.Count{Name: "readyReplicas", N: int64(s.ReadyReplicas)}, valid.Count{Name: "availableReplicas", N: int64(s.AvailableReplicas)},
		valid.Count{Name: "observedGeneration", N: s.ObservedGeneration}, valid.Count{Name: "terminatingReplicas", N: Wide(s.TerminatingReplicas)})
	errs = append(errs, partErrors(s.Replicas, valid.Count{Name: "fullyLabeledReplicas", N: int64(s.FullyLabeledReplicas)},
		valid.Count{Name: "readyReplicas", N: int64(s.ReadyReplicas)}, valid.Count{Name: "availableReplicas", N: int64(s.AvailableReplicas)})...)
	return append(errs, readyErrors(s.AvailableReplicas, s.ReadyReplicas, "readyReplicas")...)
}

func replicationStatusErrors(s *corev1.ReplicationControllerStatus) field.ErrorList {
	return replicaSetStatusErrors(&appsv1.ReplicaSetStatus{
		Replicas: s.Replicas, FullyLabeledReplicas: s.FullyLabeledReplicas, ReadyReplicas: s.ReadyReplicas,
		AvailableReplicas: s.AvailableReplicas, ObservedGeneration: s.ObservedGeneration,
	})
}

func daemonSetStatusErrors(s, old *appsv1.DaemonSetStatus) field.ErrorList {
	errs := valid.Counts(valid.Count{Name: "currentNumberScheduled", N: int64(s.CurrentNumberScheduled)}, valid.Count{Name: "numberMisscheduled", N: int64(s.NumberMisscheduled)},
		valid.Count{Name: "desiredNumberScheduled", N: int64(s.DesiredNumberScheduled)}, valid.Count{Name: "numberReady", N: int64(s.NumberReady)},
		valid.Count{Name: "observedGeneration", N: s.ObservedGeneration}, valid.Count{Name: "updatedNumberScheduled", N: int64(s.UpdatedNumberScheduled)},
		valid.Count{Name: "numberAvailable", N: int64(s.NumberAvailable)}, valid.Count{Name: "numberUnavailable", N: int64(s.NumberUnavailable)},
		valid.Count{Name: "collisionCount", N: Wide(s.CollisionCount)})
	return append(errs, collisionErrors(s.CollisionCount, old.CollisionCount)...)
}

func statefulSetStatusErrors(s, old *appsv1.StatefulSetStatus) field.ErrorList {
	errs := valid.Counts(valid.Count{Name: "replicas", N: int64(s.Replicas)}, valid.Count{Name: "readyReplicas", N: int64(s.ReadyReplicas)},
		valid.Count{Name: "currentReplicas", N: int64(s.CurrentReplicas)}, valid.Count{Name: "updatedReplicas", N: int64(s.UpdatedReplicas)},
		valid.Count{Name: "availableReplicas", N: int64(s.AvailableReplicas)}, valid.Count{Name: "observedGeneration", N: s.ObservedGeneration},
		valid.Count{Name: "collisionCount", N: Wide(s.CollisionCount)})
	errs = append(errs, partErrors(s.Replicas, valid.Count{Name: "readyReplicas", N: int64(s.ReadyReplicas)}, valid.Count{Name: "currentReplicas", N: int64(s.CurrentReplicas)},
		valid.Count{Name: "updatedReplicas", N: int64(s.UpdatedReplicas)}, valid.Count{Name: "availableReplicas", N: int64(s.AvailableReplicas)})...)
	errs = append(errs, readyErrors(s.AvailableReplicas, s.ReadyReplicas, "status.readyReplicas")...)
	return append(errs, collisionErrors(s.CollisionCount, old.CollisionCount)...)
}
