package pod

import (
	corev1 "k8s.io/api/core/v1"
)

// phase computes a pod's phase from its containers, as upstream: Pending until
// all init containers are through and every container has run, then Running
// while one runs or will run again, then Succeeded or Failed.
func phase(pod *corev1.Pod, st *corev1.PodStatus) corev1.PodPhase {
	pending, failed := initPhase(pod, st)
	if failed {
		return corev1.PodFailed
	}
	var n counts
	for i := range pod.Spec.Containers {
		n.add(pod, &pod.Spec.Containers[i], find(st.ContainerStatuses, pod.Spec.Containers[i].Name))
	}
	anyStarted := n.running > 0 || n.stopped > 0 || n.again > 0
	switch {
	case pending && !anyStarted:
		return corev1.PodPending
	case n.waiting > 0:
		return corev1.PodPending
	case n.running > 0 || n.again > 0:
		return corev1.PodRunning
	case n.stopped == 0:
		return corev1.PodPending
	case n.stopped == n.succeeded:
		return corev1.PodSucceeded
	}
	return corev1.PodFailed
}

// initPhase says whether init containers are still to be waited for, and
// whether one has failed for good.
func initPhase(pod *corev1.Pod, st *corev1.PodStatus) (pending, failed bool) {
	for i := range pod.Spec.InitContainers {
		spec := &pod.Spec.InitContainers[i]
		cs := find(st.InitContainerStatuses, spec.Name)
		if cs == nil {
			pending = true
			continue
		}
		if sidecar(spec) {
			pending = pending || cs.State.Running == nil || cs.Started == nil || !*cs.Started
			continue
		}
		t := cs.State.Terminated
		if t == nil {
			pending = true
			t = cs.LastTerminationState.Terminated
			if cs.State.Waiting == nil || t == nil {
				continue
			}
		}
		if t.ExitCode != 0 {
			pending = true
			failed = failed || !shouldRestartInit(pod, spec, int(t.ExitCode))
		}
	}
	return pending, failed
}

// counts are the containers of a pod by what they do.
type counts struct {
	waiting   int // never ran
	running   int
	again     int // ended, will run again
	stopped   int // ended for good
	succeeded int
}

func (n *counts) add(pod *corev1.Pod, spec *corev1.Container, cs *corev1.ContainerStatus) {
	switch {
	case cs == nil:
		n.waiting++
	case cs.State.Running != nil:
		n.running++
	case cs.State.Terminated != nil:
		n.ended(pod, spec, cs.State.Terminated)
	case cs.LastTerminationState.Terminated != nil:
		n.again++
	default:
		n.waiting++
	}
}

func (n *counts) ended(pod *corev1.Pod, spec *corev1.Container, t *corev1.ContainerStateTerminated) {
	if pod.DeletionTimestamp == nil && shouldRestart(pod, spec, int(t.ExitCode)) {
		n.again++
		return
	}
	n.stopped++
	if t.ExitCode == 0 {
		n.succeeded++
	}
}
