package pod

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// end stops the containers, then takes the pod down, then lets the server
// forget it. Sidecars go last, in reverse order, each when those after it have
// ended.
func (s *step) end() {
	if s.stopAll() || s.Busy {
		return
	}
	if !s.Released {
		if s.Fault != nil && s.Now.Before(s.Fault.RetryAt) {
			s.wake(s.Fault.RetryAt)
			return
		}
		s.act(Action{Kind: Release})
		return
	}
	if s.Pod.DeletionTimestamp != nil && s.StatusSent {
		if s.Fault != nil && s.Now.Before(s.Fault.RetryAt) {
			s.wake(s.Fault.RetryAt)
			return
		}
		s.act(Action{Kind: Delete})
	}
}

// stopAll says whether anything still lives.
func (s *step) stopAll() bool {
	grace := s.grace()
	alive := false
	stop := func(name string) bool {
		c := s.container(name)
		if !running(c) && c.Op == OpNone {
			return false
		}
		s.stop(name, c, grace, "Stopping container "+name)
		return true
	}
	for i := range s.Pod.Spec.Containers {
		alive = stop(s.Pod.Spec.Containers[i].Name) || alive
	}
	for i := range s.Pod.Spec.EphemeralContainers {
		alive = stop(s.Pod.Spec.EphemeralContainers[i].Name) || alive
	}
	inits := slices.Clone(s.Pod.Spec.InitContainers)
	slices.Reverse(inits)
	for i := range inits {
		if !sidecar(&inits[i]) {
			alive = stop(inits[i].Name) || alive
		}
	}
	for i := range inits {
		if alive {
			return true
		}
		if sidecar(&inits[i]) {
			alive = stop(inits[i].Name)
		}
	}
	return alive
}

// sidecar says whether an init container runs beside the others.
func sidecar(c *corev1.Container) bool {
	return c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways
}
