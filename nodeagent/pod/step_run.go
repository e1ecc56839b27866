package pod

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/nodeagent/runtime"
)

// Crash back-off: the first restart is at once, the following ones wait.
const (
	backoffFirst = 10 * time.Second
	backoffMax   = 5 * time.Minute
	// backoffReset is how long a container must have run to be new again.
	backoffReset = 10 * time.Minute
)

// run brings the containers of a healthy pod to where they should be.
func (s *step) run() {
	s.runEphemerals()
	if !s.runInits() {
		return
	}
	for i := range s.Pod.Spec.Containers {
		s.runOne(&s.Pod.Spec.Containers[i], shouldRestart)
	}
}

// runInits starts the init containers one after the other. It says whether the
// others may run.
func (s *step) runInits() bool {
	initialized := s.initialized()
	for i := range s.Pod.Spec.InitContainers {
		spec := &s.Pod.Spec.InitContainers[i]
		c := s.container(spec.Name)
		if sidecar(spec) {
			s.runOne(spec, always)
			if !initialized && (!running(c) || !c.Started) {
				return false
			}
			continue
		}
		if initialized || (exited(c) && !s.stale(c) && c.Current.ExitCode == 0) {
			continue
		}
		s.runOne(spec, shouldRestartInit)
		return false
	}
	return true
}

// initialized says whether a regular container was ever created in this
// sandbox: init containers do not run again then.
func (s *step) initialized() bool {
	for i := range s.Pod.Spec.Containers {
		if c := s.container(s.Pod.Spec.Containers[i].Name); c.Current != nil && !s.stale(c) {
			return true
		}
	}
	return false
}

// stale says whether the newest attempt belongs to an earlier sandbox.
func (s *step) stale(c *Container) bool {
	return c.Current != nil && c.Current.CreatedAt.Before(s.Sandbox.Since)
}

// restartRule says whether a container that has ended shall run again.
type restartRule func(pod *corev1.Pod, c *corev1.Container, exitCode int) bool

func always(*corev1.Pod, *corev1.Container, int) bool { return true }

// shouldRestartInit is the rule of init containers: success is final.
func shouldRestartInit(pod *corev1.Pod, c *corev1.Container, exitCode int) bool {
	return exitCode != 0 && shouldRestart(pod, c, exitCode)
}

// shouldRestart applies the container's own rules, then its own policy, then
// the pod's.
func shouldRestart(pod *corev1.Pod, c *corev1.Container, exitCode int) bool {
	for _, r := range c.RestartPolicyRules {
		if r.Action != corev1.ContainerRestartRuleActionRestart || r.ExitCodes == nil {
			continue
		}
		in := slices.Contains(r.ExitCodes.Values, int32(exitCode))
		if in == (r.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn) {
			return true
		}
	}
	policy := corev1.ContainerRestartPolicy(pod.Spec.RestartPolicy)
	if c.RestartPolicy != nil {
		policy = *c.RestartPolicy
	}
	switch policy {
	case corev1.ContainerRestartPolicyNever:
		return false
	case corev1.ContainerRestartPolicyOnFailure:
		return exitCode != 0
	}
	return true
}

// runOne starts, stops or leaves one container.
func (s *step) runOne(spec *corev1.Container, again restartRule) {
	c := s.container(spec.Name)
	if c.Op == OpStart || c.Op == OpStop && exited(c) {
		return // what was begun has to end first, or two attempts run
	}
	switch {
	case c.Current == nil:
		s.start(spec, c, 0, 0)
	case c.Current.State == runtime.Created:
		// An agent that was killed between create and start: try the next.
		s.start(spec, c, c.Current.Attempt, c.Current.Backoff)
	case running(c):
		s.check(spec, c, again)
	case s.stale(c) || again(s.Pod, spec, c.Current.ExitCode):
		wait, next := backoff(c.Current)
		if s.stale(c) {
			wait = 0
		}
		if at := c.Current.FinishedAt.Add(wait); s.Now.Before(at) {
			s.wake(at)
			return
		}
		s.start(spec, c, c.Current.Attempt+1, next)
	}
}

// start starts an attempt unless the last try is too short ago.
func (s *step) start(spec *corev1.Container, c *Container, attempt int, backoff time.Duration) {
	if c.Fault != nil && s.Now.Before(c.Fault.RetryAt) {
		s.wake(c.Fault.RetryAt)
		s.wake(c.Fault.At.Add(faultShown))
		return
	}
	s.act(Action{Kind: Start, Container: spec.Name, Attempt: attempt, Backoff: backoff})
}

// check stops a container that is ill or no longer what is wanted.
func (s *step) check(spec *corev1.Container, c *Container, again restartRule) {
	var why string
	grace := s.grace()
	switch {
	case c.Current.Hash != "" && c.Current.Hash != Hash(spec):
		why = fmt.Sprintf("Container %s definition changed", spec.Name)
	case c.Unhealthy == unhealthyLiveness:
		why = fmt.Sprintf("Container %s failed liveness probe", spec.Name)
		grace = probeGrace(spec.LivenessProbe, grace)
	case c.Unhealthy == unhealthyStartup:
		why = fmt.Sprintf("Container %s failed startup probe", spec.Name)
		grace = probeGrace(spec.StartupProbe, grace)
	case c.Unhealthy == unhealthyPostStart:
		s.stop(spec.Name, c, grace, "FailedPostStartHook")
		return
	case c.Unhealthy == unhealthyResize:
		s.stop(spec.Name, c, grace, fmt.Sprintf("Container %s resize requires restart", spec.Name))
		return
	default:
		return
	}
	if c.Unhealthy == "" || again(s.Pod, spec, 137) {
		why += ", will be restarted"
	}
	s.stop(spec.Name, c, grace, why)
}

// Why a running container must end.
const (
	unhealthyLiveness  = "liveness"
	unhealthyStartup   = "startup"
	unhealthyPostStart = "postStart"
	unhealthyResize    = "resize"
)

func probeGrace(p *corev1.Probe, grace time.Duration) time.Duration {
	if p != nil && p.TerminationGracePeriodSeconds != nil {
		return time.Duration(*p.TerminationGracePeriodSeconds) * time.Second
	}
	return grace
}

// backoff returns how long to wait after the end of an attempt, and what the
// next attempt's end will cost. It needs no memory but the attempt's own.
func backoff(c *runtime.Container) (wait, next time.Duration) {
	ran := c.FinishedAt.Sub(c.StartedAt)
	if c.StartedAt.IsZero() {
		ran = 0
	}
	switch {
	case c.Backoff == 0 || ran > backoffReset:
		return 0, backoffFirst
	}
	return c.Backoff, min(2*c.Backoff, backoffMax)
}
