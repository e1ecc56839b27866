// Package pod runs the pods of a node: one worker per pod, an actor that looks
// at what is, takes one step, and waits for the next event.
//
//	desired pod ──┐
//	containers ───┤
//	probes ───────┼──> Step (pure) ──> actions ──> runtime, volumes, network
//	the clock ────┘         └────────> status ───> API server
//
// Step decides everything: which container to start, stop or leave, when to
// try again, what the pod's status says. It has no clock and does no I/O, so
// that its tables test every case. A worker does the actions, slow ones beside
// each other, and never two for the same container at once.
//
// It watches nothing itself: the agent hands in pods, and objects that pods
// refer to. It owns the status of the node's pods and everything below the
// pods' directory. It promises that a container that runs is never stopped for
// a reason that lies with the agent: neither its restart, nor a server that is
// away.
package pod

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/nodeagent/runtime"
)

// Input is everything that a step depends on.
type Input struct {
	Pod  *corev1.Pod
	Now  time.Time
	Last corev1.PodStatus // the status that the last step gave, or the server's
	// HostIPs of the node.
	HostIPs []string
	Sandbox Sandbox
	// Prepared says that this process has set up the pod's volumes, directories
	// and sandbox. It is false after a restart of the agent.
	Prepared bool
	// Released says that they were taken down again after the end.
	Released bool
	// Busy says that Prepare, Release or Delete is under way.
	Busy bool
	// Fault is why the last Prepare or Release failed.
	Fault *Fault
	// Killed ends the pod for good: a deadline, an eviction, a refusal.
	Killed     *Verdict
	Containers map[string]*Container
	// Resize is where a change of resources stands; nil without any.
	Resize *Resize
	// StatusSent says that the server has the status as last decided.
	StatusSent bool
}

// Sandbox is what is known of a pod's sandbox.
type Sandbox struct {
	Since time.Time // complete since then; zero: it is not
	IPs   []string
}

// Verdict is why a pod is ended.
type Verdict struct{ Reason, Message string }

// Op is something slow that is being done to a container.
type Op string

// The operations on a container.
const (
	OpNone  Op = ""
	OpStart Op = "start"
	OpStop  Op = "stop"
)

// Fault is a failed attempt.
type Fault struct {
	Reason, Message string
	At, RetryAt     time.Time
}

// Container is what is known of one container of the pod.
type Container struct {
	Current  *runtime.Container // the newest attempt; nil before the first
	Previous *runtime.Container // the attempt before it
	// Messages that the attempts left behind when they ended.
	Message, PreviousMessage string
	Op                       Op
	StopBy                   time.Time // when OpStop kills
	Fault                    *Fault
	Started, Ready           bool   // by its probes; Started also after postStart
	Unhealthy                string // what failed for good: "liveness", "startup", "postStart"
}

// Kind is what an action does.
type Kind string

// The kinds of actions.
const (
	// Prepare makes volumes and sandbox.
	Prepare Kind = "Prepare"
	// Start pulls the image, creates and starts a container, runs postStart.
	Start Kind = "Start"
	// Stop runs preStop, asks a container to end, kills it after the grace.
	Stop Kind = "Stop"
	// Abort gives up a start that is under way.
	Abort Kind = "Abort"
	// Release takes down sandbox, volumes and cgroup of a pod that has ended.
	Release Kind = "Release"
	// Delete removes the pod from the server.
	Delete Kind = "Delete"
)

// Action is one thing to do now.
type Action struct {
	Kind      Kind
	Container string
	// Attempt to start, and the back-off that follows its crash.
	Attempt int
	Backoff time.Duration
	// Grace to stop with, and the reason for the event.
	Grace   time.Duration
	Message string
}

// Output is the decision of a step.
type Output struct {
	Actions []Action
	Status  corev1.PodStatus
	// Wake is when to step again without an event; zero means never.
	Wake time.Time
}

// Step decides what to do with a pod and what its status is.
func Step(in Input) Output {
	s := &step{Input: in}
	s.deadline()
	s.out.Status = s.status()
	switch {
	case s.ending():
		s.end()
	case s.Sandbox.Since.IsZero() || !s.Prepared:
		s.prepare()
	default:
		s.run()
	}
	return s.out
}

type step struct {
	Input
	out Output
	// over says that the pod has come to its own end, though sidecars may still
	// run, which hold back the phase.
	over bool
}

func (s *step) act(a Action) { s.out.Actions = append(s.out.Actions, a) }

// wake asks to be called at t, if that is earlier.
func (s *step) wake(t time.Time) {
	if t.After(s.Now) && (s.out.Wake.IsZero() || t.Before(s.out.Wake)) {
		s.out.Wake = t
	}
}

// container returns what is known of a container; never nil.
func (s *step) container(name string) *Container {
	if c := s.Containers[name]; c != nil {
		return c
	}
	return &Container{}
}

// deadline ends pods that have been active for too long.
func (s *step) deadline() {
	d := s.Pod.Spec.ActiveDeadlineSeconds
	if d == nil || s.Killed != nil || s.Last.StartTime == nil {
		return
	}
	at := s.Last.StartTime.Add(time.Duration(*d) * time.Second)
	if s.Now.Before(at) {
		s.wake(at)
		return
	}
	s.Killed = &Verdict{Reason: "DeadlineExceeded", Message: "Pod was active on the node longer than the specified deadline"}
}

// ending says whether the pod shall not run any more.
func (s *step) ending() bool {
	return s.Pod.DeletionTimestamp != nil || s.Killed != nil || s.finished()
}

// finished says whether the pod has come to its own end, now or before.
func (s *step) finished() bool {
	return terminal(s.Last.Phase) || s.over
}

func terminal(p corev1.PodPhase) bool { return p == corev1.PodSucceeded || p == corev1.PodFailed }

// prepare makes the sandbox. Containers of a sandbox that is lost end first.
func (s *step) prepare() {
	alive := false
	if s.Sandbox.Since.IsZero() {
		for _, name := range s.names() {
			c := s.container(name)
			if c.Op != OpNone || running(c) {
				alive = true
				s.stop(name, c, s.grace(), "Pod sandbox changed, it will be killed and re-created.")
			}
		}
	}
	switch {
	case alive || s.Busy:
	case s.Fault != nil && s.Now.Before(s.Fault.RetryAt):
		s.wake(s.Fault.RetryAt)
	default:
		s.act(Action{Kind: Prepare})
	}
}

// names returns all containers, those of the init phase first.
func (s *step) names() []string {
	spec := &s.Pod.Spec
	out := make([]string, 0, len(spec.InitContainers)+len(spec.Containers))
	for i := range spec.InitContainers {
		out = append(out, spec.InitContainers[i].Name)
	}
	for i := range spec.Containers {
		out = append(out, spec.Containers[i].Name)
	}
	for i := range spec.EphemeralContainers {
		out = append(out, spec.EphemeralContainers[i].Name)
	}
	return out
}

func running(c *Container) bool { return c.Current != nil && c.Current.State == runtime.Running }

func exited(c *Container) bool { return c.Current != nil && c.Current.State == runtime.Exited }

// grace is how long a container may take to end.
func (s *step) grace() time.Duration {
	switch {
	case s.Pod.DeletionGracePeriodSeconds != nil:
		return time.Duration(*s.Pod.DeletionGracePeriodSeconds) * time.Second
	case s.Pod.Spec.TerminationGracePeriodSeconds != nil:
		return time.Duration(*s.Pod.Spec.TerminationGracePeriodSeconds) * time.Second
	}
	return 30 * time.Second
}

// stop asks a container to end, also when it is being stopped but later than
// now wanted.
func (s *step) stop(name string, c *Container, grace time.Duration, message string) {
	switch {
	case c.Op == OpStart:
		s.act(Action{Kind: Abort, Container: name})
	case !running(c):
	case c.Op == OpNone, c.StopBy.After(s.Now.Add(grace)):
		s.act(Action{Kind: Stop, Container: name, Grace: grace, Message: message})
	}
}
