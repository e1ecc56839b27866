package pod

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Reasons of conditions, as upstream.
const (
	reasonPodCompleted    = "PodCompleted"
	reasonPodFailed       = "PodFailed"
	reasonNotReady        = "ContainersNotReady"
	reasonNotInitialized  = "ContainersNotInitialized"
	reasonGatesNotReady   = "ReadinessGatesNotReady"
	conditionSandboxReady = corev1.PodReadyToStartContainers
)

// conditions sets the conditions that are the agent's, and keeps all others.
func (s *step) conditions(st *corev1.PodStatus) {
	ours := map[corev1.PodConditionType]corev1.PodCondition{}
	set := func(c corev1.PodCondition) { ours[c.Type] = c }
	set(truth(conditionSandboxReady, !s.Sandbox.Since.IsZero() && !s.Released))
	set(s.initializedCondition(st))
	ready := s.containersReady(st)
	set(ready)
	set(s.podReady(st, ready))
	set(truth(corev1.PodScheduled, true))
	resize := s.resizeConditions()
	for _, c := range resize {
		set(c)
	}
	for _, old := range s.Last.Conditions {
		c, ok := ours[old.Type]
		if !ok && (old.Type == corev1.PodResizePending || old.Type == corev1.PodResizeInProgress) {
			continue // it is over
		}
		if !ok {
			st.Conditions = append(st.Conditions, old)
			continue
		}
		c.LastTransitionTime = old.LastTransitionTime
		if c.Status != old.Status {
			c.LastTransitionTime = stamp(s.Now)
		}
		ours[old.Type] = c
	}
	types := []corev1.PodConditionType{
		conditionSandboxReady, corev1.PodInitialized, corev1.PodReady, corev1.ContainersReady, corev1.PodScheduled,
	}
	for _, c := range resize {
		types = append(types, c.Type)
	}
	for _, t := range types {
		c := ours[t]
		if c.LastTransitionTime.IsZero() {
			c.LastTransitionTime = stamp(s.Now)
		}
		c.ObservedGeneration = s.Pod.Generation
		st.Conditions = append(st.Conditions, c)
	}
}

func truth(t corev1.PodConditionType, ok bool) corev1.PodCondition {
	if ok {
		return corev1.PodCondition{Type: t, Status: corev1.ConditionTrue}
	}
	return corev1.PodCondition{Type: t, Status: corev1.ConditionFalse}
}

func (s *step) initializedCondition(st *corev1.PodStatus) corev1.PodCondition {
	c := truth(corev1.PodInitialized, true)
	if st.Phase == corev1.PodSucceeded {
		c.Reason = reasonPodCompleted
		return c
	}
	for _, cs := range st.ContainerStatuses {
		if cs.State.Running != nil || cs.State.Terminated != nil || cs.LastTerminationState.Terminated != nil {
			return c
		}
	}
	var waiting []string
	for i := range s.Pod.Spec.InitContainers {
		spec := &s.Pod.Spec.InitContainers[i]
		cs := find(st.InitContainerStatuses, spec.Name)
		through := cs != nil && cs.Ready
		if cs != nil && sidecar(spec) {
			through = cs.Started != nil && *cs.Started
		}
		if !through {
			waiting = append(waiting, spec.Name)
		}
	}
	if len(waiting) > 0 {
		c.Status, c.Reason = corev1.ConditionFalse, reasonNotInitialized
		c.Message = fmt.Sprintf("containers with incomplete status: %s", waiting)
	}
	return c
}

func (s *step) containersReady(st *corev1.PodStatus) corev1.PodCondition {
	c := truth(corev1.ContainersReady, false)
	switch st.Phase {
	case corev1.PodSucceeded:
		c.Reason = reasonPodCompleted
		return c
	case corev1.PodFailed:
		c.Reason = reasonPodFailed
		return c
	}
	var unready []string
	for i := range s.Pod.Spec.InitContainers {
		if spec := &s.Pod.Spec.InitContainers[i]; sidecar(spec) && !isReady(st.InitContainerStatuses, spec.Name) {
			unready = append(unready, spec.Name)
		}
	}
	for i := range s.Pod.Spec.Containers {
		if name := s.Pod.Spec.Containers[i].Name; !isReady(st.ContainerStatuses, name) {
			unready = append(unready, name)
		}
	}
	if len(unready) > 0 {
		c.Reason, c.Message = reasonNotReady, fmt.Sprintf("containers with unready status: %s", unready)
		return c
	}
	return truth(corev1.ContainersReady, true)
}

func isReady(list []corev1.ContainerStatus, name string) bool {
	cs := find(list, name)
	return cs != nil && cs.Ready
}

// podReady follows ContainersReady, and the readiness gates that others set.
func (s *step) podReady(st *corev1.PodStatus, containers corev1.PodCondition) corev1.PodCondition {
	if containers.Status != corev1.ConditionTrue {
		containers.Type = corev1.PodReady
		return containers
	}
	var missing []string
	for _, g := range s.Pod.Spec.ReadinessGates {
		c := condition(s.Last.Conditions, g.ConditionType)
		switch {
		case c == nil:
			missing = append(missing, fmt.Sprintf("corresponding condition of pod readiness gate %q does not exist.", g.ConditionType))
		case c.Status != corev1.ConditionTrue:
			missing = append(missing, fmt.Sprintf("the status of pod readiness gate %q is not \"True\", but %v", g.ConditionType, c.Status))
		}
	}
	c := truth(corev1.PodReady, len(missing) == 0)
	if len(missing) > 0 {
		c.Reason, c.Message = reasonGatesNotReady, strings.Join(missing, ", ")
	}
	return c
}

func condition(list []corev1.PodCondition, t corev1.PodConditionType) *corev1.PodCondition {
	for i := range list {
		if list[i].Type == t {
			return &list[i]
		}
	}
	return nil
}
