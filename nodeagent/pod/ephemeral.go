package pod

import (
	corev1 "k8s.io/api/core/v1"
)

// ephemerals returns the containers that were added to a running pod to look
// into it, as containers that never run twice.
func ephemerals(pod *corev1.Pod) []corev1.Container {
	if len(pod.Spec.EphemeralContainers) == 0 {
		return nil
	}
	out := make([]corev1.Container, 0, len(pod.Spec.EphemeralContainers))
	for i := range pod.Spec.EphemeralContainers {
		c := corev1.Container(pod.Spec.EphemeralContainers[i].EphemeralContainerCommon)
		c.RestartPolicy = new(corev1.ContainerRestartPolicyNever)
		out = append(out, c)
	}
	return out
}

// runEphemerals starts those that have never run. They do not wait for the
// init containers: what holds those up may be what somebody looks for.
func (s *step) runEphemerals() {
	list := ephemerals(s.Pod)
	for i := range list {
		c, last := s.container(list[i].Name), find(s.Last.EphemeralContainerStatuses, list[i].Name)
		ran := last != nil && (last.State.Running != nil || last.State.Terminated != nil)
		if s.stale(c) || c.Current == nil && ran {
			continue // it has ended with an earlier sandbox
		}
		s.runOne(&list[i], shouldRestart)
	}
}

// ephemeralStatuses are those of the ephemeral containers. They are never
// ready: nothing counts on them.
func (s *step) ephemeralStatuses() []corev1.ContainerStatus {
	out := s.containerStatuses(ephemerals(s.Pod), s.Last.EphemeralContainerStatuses, false)
	for i := range out {
		out[i].Ready, out[i].Started = false, nil
	}
	return out
}

// target returns the container whose processes an ephemeral one shall see, and
// the ID of its newest attempt, "" if there is none.
func (w *worker) target(name string) (target, id string) {
	for i := range w.pod.Spec.EphemeralContainers {
		if c := &w.pod.Spec.EphemeralContainers[i]; c.Name == name {
			target = c.TargetContainerName
		}
	}
	if t := w.containers[target]; target != "" && t != nil && t.Current != nil {
		id = t.Current.ID
	}
	return target, id
}
