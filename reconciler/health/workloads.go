package health

import (
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

const notSeen = "the change has not been seen by its controller yet"

// wanted is how many replicas a spec asks for; none said means one.
func wanted(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func deployment(d *appsv1.Deployment) Health {
	if d.Status.ObservedGeneration < d.Generation {
		return progressing(notSeen)
	}
	want := wanted(d.Spec.Replicas)
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing && c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded" {
			return degraded("does not get on: %s", c.Message)
		}
	}
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentReplicaFailure && c.Status == corev1.ConditionTrue {
			return degraded("cannot make pods: %s", c.Message)
		}
	}
	if d.Spec.Paused {
		return Health{Status: Healthy, Message: "is paused"} // waits for its author and holds nobody up
	}
	switch s := d.Status; {
	case s.UpdatedReplicas < want:
		return progressing("%d of %d pods are updated", s.UpdatedReplicas, want)
	case s.Replicas > s.UpdatedReplicas:
		return progressing("%d old pods are ending", s.Replicas-s.UpdatedReplicas)
	case s.AvailableReplicas < want:
		return progressing("%d of %d pods are available", s.AvailableReplicas, want)
	}
	return healthy()
}

func replicaSet(r *appsv1.ReplicaSet) Health {
	if r.Status.ObservedGeneration >= r.Generation {
		for _, c := range r.Status.Conditions {
			if c.Type == appsv1.ReplicaSetReplicaFailure && c.Status == corev1.ConditionTrue {
				return degraded("cannot make pods: %s", c.Message)
			}
		}
	}
	return replicas(r.Generation, r.Status.ObservedGeneration, r.Spec.Replicas, r.Status.ReadyReplicas, r.Status.Replicas)
}

func replicas(generation, observed int64, spec *int32, ready, have int32) Health {
	want := wanted(spec)
	switch {
	case observed < generation:
		return progressing(notSeen)
	case have > want:
		return progressing("%d pods are ending", have-want)
	case ready < want:
		return progressing("%d of %d pods are ready", ready, want)
	}
	return healthy()
}

func statefulSet(s *appsv1.StatefulSet) Health {
	if h := replicas(s.Generation, s.Status.ObservedGeneration, s.Spec.Replicas, s.Status.ReadyReplicas, s.Status.Replicas); h.Status != Healthy {
		return h
	}
	if s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType {
		return healthy()
	}
	want := wanted(s.Spec.Replicas)
	if r := s.Spec.UpdateStrategy.RollingUpdate; r != nil && r.Partition != nil {
		want = max(want-*r.Partition, 0)
	}
	if s.Status.UpdatedReplicas < want {
		return progressing("%d of %d pods are updated", s.Status.UpdatedReplicas, want)
	}
	return healthy()
}

func daemonSet(d *appsv1.DaemonSet) Health {
	want := d.Status.DesiredNumberScheduled
	switch s := d.Status; {
	case s.ObservedGeneration < d.Generation:
		return progressing(notSeen)
	case d.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType && s.UpdatedNumberScheduled < want:
		return progressing("the pods on %d of %d nodes are updated", s.UpdatedNumberScheduled, want)
	case s.NumberAvailable < want:
		return progressing("the pods on %d of %d nodes are available", s.NumberAvailable, want)
	}
	return healthy()
}

// job is healthy when it has completed; one that is suspended waits for its
// author and holds nobody up.
func job(j *batchv1.Job) Health {
	for _, c := range j.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case batchv1.JobComplete:
			return healthy()
		case batchv1.JobFailed, batchv1.JobFailureTarget:
			return degraded("has failed: %s", c.Message)
		case batchv1.JobSuspended:
			return healthy()
		}
	}
	return progressing("%d pods run, %d have succeeded", j.Status.Active, j.Status.Succeeded)
}
