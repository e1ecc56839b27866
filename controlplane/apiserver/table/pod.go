package table

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

var _ = register(map[string]func(*Row) any{
	"podReady":          func(r *Row) any { return r.podSummary().ready },
	"podStatus":         func(r *Row) any { return r.podSummary().status },
	"podRestarts":       func(r *Row) any { return r.podSummary().restarts },
	"podReadinessGates": func(r *Row) any { return readinessGates(r.Object.(*corev1.Pod)) },
})

// podSummary is what one pass over a pod's statuses finds out.
type podSummary struct{ ready, status, restarts string }

func (r *Row) podSummary() *podSummary {
	if r.pod == nil {
		r.pod = summarize(r.Object.(*corev1.Pod), r)
	}
	return r.pod
}

// podCount follows the containers of a pod. The rules and their order are
// those of upstream's printer: people read STATUS by them.
type podCount struct {
	pod    *corev1.Pod
	reason string
	total  int
	ready  int

	restarts    int
	lastRestart metav1.Time
	// The same of the restartable init containers (sidecars) alone.
	sidecarRestarts    int
	lastSidecarRestart metav1.Time
}

func summarize(pod *corev1.Pod, r *Row) *podSummary {
	c := &podCount{pod: pod, total: len(pod.Spec.Containers), reason: string(pod.Status.Phase)}
	if pod.Status.Reason != "" {
		c.reason = pod.Status.Reason
	}
	for _, cond := range pod.Status.Conditions {
		if cond.Type == corev1.PodScheduled && cond.Reason == corev1.PodReasonSchedulingGated {
			c.reason = corev1.PodReasonSchedulingGated
		}
	}
	initializing := c.initContainers()
	if !initializing || podCondition(pod, corev1.PodInitialized) {
		c.containers()
	}
	c.deletion()

	restarts := strconv.Itoa(c.restarts)
	if c.restarts != 0 && !c.lastRestart.IsZero() {
		restarts = fmt.Sprintf("%d (%s ago)", c.restarts, r.since(c.lastRestart))
	}
	return &podSummary{
		ready:    strconv.Itoa(c.ready) + "/" + strconv.Itoa(c.total),
		status:   c.reason,
		restarts: restarts,
	}
}

// initContainers looks for the first init container that is not done and says
// whether there is one.
func (c *podCount) initContainers() (initializing bool) {
	sidecar := map[string]bool{}
	for _, s := range c.pod.Spec.InitContainers {
		if s.RestartPolicy != nil && *s.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			sidecar[s.Name] = true
			c.total++
		}
	}
	for i := range c.pod.Status.InitContainerStatuses {
		s := &c.pod.Status.InitContainerStatuses[i]
		c.restarts += int(s.RestartCount)
		later(&c.lastRestart, s)
		if sidecar[s.Name] {
			c.sidecarRestarts += int(s.RestartCount)
			later(&c.lastSidecarRestart, s)
		}
		switch {
		case s.State.Terminated != nil && s.State.Terminated.ExitCode == 0:
			continue
		case sidecar[s.Name] && s.Started != nil && *s.Started:
			if s.Ready {
				c.ready++
			}
			continue
		}
		c.reason = initReason(s, i, len(c.pod.Spec.InitContainers))
		return true
	}
	return false
}

func initReason(s *corev1.ContainerStatus, i, of int) string {
	switch {
	case s.State.Terminated != nil:
		return "Init:" + exitReason(s.State.Terminated)
	case s.State.Waiting != nil && s.State.Waiting.Reason != "" && s.State.Waiting.Reason != "PodInitializing":
		return "Init:" + s.State.Waiting.Reason
	}
	return fmt.Sprintf("Init:%d/%d", i, of)
}

func exitReason(t *corev1.ContainerStateTerminated) string {
	switch {
	case t.Reason != "":
		return t.Reason
	case t.Signal != 0:
		return fmt.Sprintf("Signal:%d", t.Signal)
	}
	return fmt.Sprintf("ExitCode:%d", t.ExitCode)
}

// containers lets the first container that is in trouble give the reason.
func (c *podCount) containers() {
	c.restarts, c.lastRestart = c.sidecarRestarts, c.lastSidecarRestart
	running := false
	for i := len(c.pod.Status.ContainerStatuses) - 1; i >= 0; i-- {
		s := &c.pod.Status.ContainerStatuses[i]
		c.restarts += int(s.RestartCount)
		later(&c.lastRestart, s)
		switch {
		case s.State.Waiting != nil && s.State.Waiting.Reason != "":
			c.reason = s.State.Waiting.Reason
		case s.State.Terminated != nil:
			c.reason = exitReason(s.State.Terminated)
		case s.Ready && s.State.Running != nil:
			running = true
			c.ready++
		}
	}
	if c.reason == "Completed" && running {
		c.reason = "NotReady"
		if podCondition(c.pod, corev1.PodReady) {
			c.reason = "Running"
		}
	}
}

func (c *podCount) deletion() {
	if c.pod.DeletionTimestamp == nil {
		return
	}
	phase := c.pod.Status.Phase
	switch {
	case c.pod.Status.Reason == "NodeLost":
		c.reason = "Unknown"
	case phase != corev1.PodFailed && phase != corev1.PodSucceeded:
		c.reason = "Terminating"
	}
}

func later(last *metav1.Time, s *corev1.ContainerStatus) {
	if t := s.LastTerminationState.Terminated; t != nil && last.Before(&t.FinishedAt) {
		*last = t.FinishedAt
	}
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) bool {
	for _, c := range pod.Status.Conditions {
		if c.Type == kind {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func readinessGates(pod *corev1.Pod) string {
	if len(pod.Spec.ReadinessGates) == 0 {
		return none
	}
	met := 0
	for _, g := range pod.Spec.ReadinessGates {
		if podCondition(pod, g.ConditionType) {
			met++
		}
	}
	return fmt.Sprintf("%d/%d", met, len(pod.Spec.ReadinessGates))
}
