package pod

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/nodeagent/runtime"
)

var (
	t0    = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	ready = Sandbox{Since: t0.Add(-time.Hour), IPs: []string{"10.244.0.5"}}
)

// containers in words: "c:running", "c:exited(1)", ...
func aPod(names ...string) *corev1.Pod {
	p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "p", UID: "u"}}
	p.Spec.RestartPolicy = corev1.RestartPolicyAlways
	for _, n := range names {
		init, isInit := strings.CutPrefix(n, "init ")
		side, isSide := strings.CutPrefix(n, "sidecar ")
		switch {
		case isInit:
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: init})
		case isSide:
			always := corev1.ContainerRestartPolicyAlways
			p.Spec.InitContainers = append(p.Spec.InitContainers, corev1.Container{Name: side, RestartPolicy: &always})
		default:
			p.Spec.Containers = append(p.Spec.Containers, corev1.Container{Name: n})
		}
	}
	return p
}

func policy(p *corev1.Pod, r corev1.RestartPolicy) *corev1.Pod {
	p.Spec.RestartPolicy = r
	return p
}

func up(attempt int) *Container {
	return &Container{Started: true, Ready: true, Current: &runtime.Container{
		ID: fmt.Sprintf("id%d", attempt), State: runtime.Running, Attempt: attempt, CreatedAt: t0.Add(-time.Minute), StartedAt: t0.Add(-time.Minute),
	}}
}

// down ended seconds ago after having run for 5 s.
func down(code, attempt int, backoff time.Duration, ago time.Duration) *Container {
	reason := runtime.ReasonError
	if code == 0 {
		reason = runtime.ReasonCompleted
	}
	end := t0.Add(-ago)
	return &Container{Current: &runtime.Container{
		ID: fmt.Sprintf("id%d", attempt), State: runtime.Exited, Attempt: attempt, Backoff: backoff, ExitCode: code, Reason: reason,
		CreatedAt: end.Add(-5 * time.Second), StartedAt: end.Add(-5 * time.Second), FinishedAt: end,
	}}
}

func with(c *Container, fn func(*Container)) *Container { fn(c); return c }

func describe(as []Action) string {
	var out []string
	for _, a := range as {
		s := string(a.Kind)
		if a.Container != "" {
			s += " " + a.Container
		}
		switch a.Kind {
		case Start:
			s += fmt.Sprintf(" #%d backoff %s", a.Attempt, a.Backoff)
		case Stop:
			s += fmt.Sprintf(" %s %q", a.Grace, a.Message)
		}
		out = append(out, s)
	}
	return strings.Join(out, ", ")
}

func TestStep(t *testing.T) {
	deleted := func(p *corev1.Pod, grace int64) *corev1.Pod {
		p.DeletionTimestamp, p.DeletionGracePeriodSeconds = &metav1.Time{Time: t0}, &grace
		return p
	}
	type cs map[string]*Container
	tests := []struct {
		name  string
		in    Input
		want  string
		phase corev1.PodPhase
		wake  time.Duration
	}{
		{"new pod", Input{Pod: aPod("c")}, "Prepare", corev1.PodPending, 0},
		{"preparing", Input{Pod: aPod("c"), Busy: true}, "", corev1.PodPending, 0},
		{"preparing failed", Input{Pod: aPod("c"), Fault: &Fault{RetryAt: t0.Add(time.Second)}}, "", corev1.PodPending, time.Second},
		{"prepared", Input{Pod: aPod("a", "b"), Sandbox: ready, Prepared: true}, "Start a #0 backoff 0s, Start b #0 backoff 0s", corev1.PodPending, 0},
		{"one starts", Input{Pod: aPod("a", "b"), Sandbox: ready, Prepared: true, Containers: cs{"a": {Op: OpStart}, "b": up(0)}}, "", corev1.PodPending, 0},
		{"all run", Input{Pod: aPod("a", "b"), Sandbox: ready, Prepared: true, Containers: cs{"a": up(0), "b": up(0)}}, "", corev1.PodRunning, 0},
		{"agent restarted: volumes are looked at, nothing else", Input{Pod: aPod("c"), Sandbox: ready, Containers: cs{"c": up(0)}}, "Prepare", corev1.PodRunning, 0},
		{"killed between create and start", Input{Pod: aPod("c"), Sandbox: ready, Prepared: true, Containers: cs{"c": {Current: &runtime.Container{State: runtime.Created, CreatedAt: t0}}}}, "Start c #0 backoff 0s", corev1.PodPending, 0},

		{"stopped, and its stop is not through", Input{Pod: aPod("c"), Sandbox: ready, Prepared: true, Containers: cs{"c": with(down(0, 0, 0, 0), func(c *Container) { c.Op = OpStop })}}, "", corev1.PodRunning, 0},

		// Restart policies and back-off.
		{"first crash restarts at once", Input{Pod: aPod("c"), Sandbox: ready, Prepared: true, Containers: cs{"c": down(1, 0, 0, 0)}}, "Start c #1 backoff 10s", corev1.PodRunning, 0},
		{"second crash waits", Input{Pod: aPod("c"), Sandbox: ready, Prepared: true, Containers: cs{"c": down(1, 1, 10*time.Second, 4*time.Second)}}, "", corev1.PodRunning, 6 * time.Second},
		{"second crash waited", Input{Pod: aPod("c"), Sandbox: ready, Prepared: true, Containers: cs{"c": down(1, 1, 10*time.Second, 10*time.Second)}}, "Start c #2 backoff 20s", corev1.PodRunning, 0},
		{"back-off ends growing", Input{Pod: aPod("c"), Sandbox: ready, Prepared: true, Containers: cs{"c": down(1, 9, 300*time.Second, 300*time.Second)}}, "Start c #10 backoff 5m0s", corev1.PodRunning, 0},
		{"ran for long: new again", Input{Pod: aPod("c"), Sandbox: Sandbox{Since: t0.Add(-24 * time.Hour)}, Prepared: true, Containers: cs{"c": with(down(1, 9, 300*time.Second, 0), func(c *Container) {
			c.Current.StartedAt = t0.Add(-11 * time.Minute)
		})}}, "Start c #10 backoff 10s", corev1.PodRunning, 0},
		{"success restarts under Always", Input{Pod: aPod("c"), Sandbox: ready, Prepared: true, Containers: cs{"c": down(0, 0, 0, 0)}}, "Start c #1 backoff 10s", corev1.PodRunning, 0},
		{"success ends under OnFailure", Input{Pod: policy(aPod("c"), corev1.RestartPolicyOnFailure), Sandbox: ready, Prepared: true, Containers: cs{"c": down(0, 0, 0, 0)}}, "Release", corev1.PodSucceeded, 0},
		{"failure restarts under OnFailure", Input{Pod: policy(aPod("c"), corev1.RestartPolicyOnFailure), Sandbox: ready, Prepared: true, Containers: cs{"c": down(1, 0, 0, 0)}}, "Start c #1 backoff 10s", corev1.PodRunning, 0},
		{"failure ends under Never", Input{Pod: policy(aPod("c"), corev1.RestartPolicyNever), Sandbox: ready, Prepared: true, Containers: cs{"c": down(1, 0, 0, 0)}}, "Release", corev1.PodFailed, 0},
		{"one of two done under Never", Input{Pod: policy(aPod("a", "b"), corev1.RestartPolicyNever), Sandbox: ready, Prepared: true, Containers: cs{"a": down(0, 0, 0, 0), "b": up(0)}}, "", corev1.PodRunning, 0},
		{"a failed pull waits", Input{Pod: aPod("c"), Sandbox: ready, Prepared: true, Containers: cs{"c": {Fault: &Fault{Reason: ReasonErrImagePull, At: t0, RetryAt: t0.Add(10 * time.Second)}}}}, "", corev1.PodPending, 2 * time.Second},
		{"a failed pull is tried again", Input{Pod: aPod("c"), Sandbox: ready, Prepared: true, Containers: cs{"c": {Fault: &Fault{Reason: ReasonErrImagePull, At: t0.Add(-time.Minute), RetryAt: t0}}}}, "Start c #0 backoff 0s", corev1.PodPending, 0},

		// Init containers and sidecars.
		{"init first", Input{Pod: aPod("init i", "init j", "c"), Sandbox: ready, Prepared: true}, "Start i #0 backoff 0s", corev1.PodPending, 0},
		{"init runs", Input{Pod: aPod("init i", "c"), Sandbox: ready, Prepared: true, Containers: cs{"i": up(0)}}, "", corev1.PodPending, 0},
		{"next init", Input{Pod: aPod("init i", "init j", "c"), Sandbox: ready, Prepared: true, Containers: cs{"i": down(0, 0, 0, 0)}}, "Start j #0 backoff 0s", corev1.PodPending, 0},
		{"inits done", Input{Pod: aPod("init i", "c"), Sandbox: ready, Prepared: true, Containers: cs{"i": down(0, 0, 0, 0)}}, "Start c #0 backoff 0s", corev1.PodPending, 0},
		{"init fails", Input{Pod: aPod("init i", "c"), Sandbox: ready, Prepared: true, Containers: cs{"i": down(1, 0, 0, 0)}}, "Start i #1 backoff 10s", corev1.PodPending, 0},
		{"init fails under Never", Input{Pod: policy(aPod("init i", "c"), corev1.RestartPolicyNever), Sandbox: ready, Prepared: true, Containers: cs{"i": down(1, 0, 0, 0)}}, "Release", corev1.PodFailed, 0},
		{"sidecar must start", Input{Pod: aPod("sidecar s", "init i", "c"), Sandbox: ready, Prepared: true, Containers: cs{"s": with(up(0), func(c *Container) { c.Started = false })}}, "", corev1.PodPending, 0},
		{"sidecar has started", Input{Pod: aPod("sidecar s", "init i", "c"), Sandbox: ready, Prepared: true, Containers: cs{"s": up(0)}}, "Start i #0 backoff 0s", corev1.PodPending, 0},
		{"sidecar ends beside", Input{Pod: aPod("sidecar s", "c"), Sandbox: ready, Prepared: true, Containers: cs{"s": down(0, 0, 0, 0), "c": up(0)}}, "Start s #1 backoff 10s", corev1.PodRunning, 0},
		{"initialized: init is not run again", Input{Pod: aPod("init i", "c"), Sandbox: ready, Prepared: true, Containers: cs{"c": down(1, 0, 0, 0)}}, "Start c #1 backoff 10s", corev1.PodRunning, 0},
		{"job with sidecar is done: sidecar ends", Input{Pod: policy(aPod("sidecar s", "c"), corev1.RestartPolicyNever), Sandbox: ready, Prepared: true, Containers: cs{"s": up(0), "c": down(0, 0, 0, 0)}, Last: corev1.PodStatus{Phase: corev1.PodRunning}},
			`Stop s 30s "Stopping container s"`, corev1.PodRunning, 0},

		// Probes and changes.
		{"liveness failed", Input{Pod: aPod("c"), Sandbox: ready, Prepared: true, Containers: cs{"c": with(up(0), func(c *Container) { c.Unhealthy = unhealthyLiveness })}},
			`Stop c 30s "Container c failed liveness probe, will be restarted"`, corev1.PodRunning, 0},
		{"startup failed under Never", Input{Pod: policy(aPod("c"), corev1.RestartPolicyNever), Sandbox: ready, Prepared: true, Containers: cs{"c": with(up(0), func(c *Container) { c.Unhealthy = unhealthyStartup })}},
			`Stop c 30s "Container c failed startup probe"`, corev1.PodRunning, 0},
		{"image changed", Input{Pod: aPod("c"), Sandbox: ready, Prepared: true, Containers: cs{"c": with(up(0), func(c *Container) { c.Current.Hash = "other" })}},
			`Stop c 30s "Container c definition changed, will be restarted"`, corev1.PodRunning, 0},
		{"being stopped", Input{Pod: aPod("c"), Sandbox: ready, Prepared: true, Containers: cs{"c": with(up(0), func(c *Container) {
			c.Unhealthy, c.Op, c.StopBy = unhealthyLiveness, OpStop, t0.Add(10*time.Second)
		})}}, "", corev1.PodRunning, 0},

		// The end.
		{"deleted", Input{Pod: deleted(aPod("a", "b"), 7), Sandbox: ready, Prepared: true, Containers: cs{"a": up(0), "b": up(0)}},
			`Stop a 7s "Stopping container a", Stop b 7s "Stopping container b"`, corev1.PodRunning, 0},
		{"deleted while it starts", Input{Pod: deleted(aPod("c"), 7), Sandbox: ready, Prepared: true, Containers: cs{"c": {Op: OpStart}}}, "Abort c", corev1.PodPending, 0},
		{"grace cut short", Input{Pod: deleted(aPod("c"), 1), Sandbox: ready, Prepared: true, Containers: cs{"c": with(up(0), func(c *Container) {
			c.Op, c.StopBy = OpStop, t0.Add(20*time.Second)
		})}}, `Stop c 1s "Stopping container c"`, corev1.PodRunning, 0},
		{"sidecars end last", Input{Pod: deleted(aPod("sidecar s", "sidecar z", "c"), 7), Sandbox: ready, Prepared: true, Containers: cs{"s": up(0), "z": up(0), "c": up(0)}},
			`Stop c 7s "Stopping container c"`, corev1.PodRunning, 0},
		{"sidecars end in reverse", Input{Pod: deleted(aPod("sidecar s", "sidecar z", "c"), 7), Sandbox: ready, Prepared: true, Containers: cs{"s": up(0), "z": up(0), "c": down(0, 0, 0, 0)}},
			`Stop z 7s "Stopping container z"`, corev1.PodPending, 0},
		{"all have ended", Input{Pod: deleted(aPod("c"), 7), Sandbox: ready, Prepared: true, Containers: cs{"c": down(143, 0, 0, 0)}}, "Release", corev1.PodFailed, 0},
		{"ended well", Input{Pod: deleted(aPod("c"), 7), Sandbox: ready, Prepared: true, Containers: cs{"c": down(0, 0, 0, 0)}}, "Release", corev1.PodSucceeded, 0},
		{"released, status not sent", Input{Pod: deleted(aPod("c"), 7), Released: true, Containers: cs{"c": down(0, 0, 0, 0)}}, "", corev1.PodSucceeded, 0},
		{"released, status sent", Input{Pod: deleted(aPod("c"), 7), Released: true, StatusSent: true, Containers: cs{"c": down(0, 0, 0, 0)}}, "Delete", corev1.PodSucceeded, 0},
		{"never began", Input{Pod: deleted(aPod("c"), 7)}, "Release", corev1.PodFailed, 0},
		{"done, not deleted", Input{Pod: policy(aPod("c"), corev1.RestartPolicyNever), Released: true, StatusSent: true, Containers: cs{"c": down(0, 0, 0, 0)}, Last: corev1.PodStatus{Phase: corev1.PodSucceeded}}, "", corev1.PodSucceeded, 0},
		{"terminal stays terminal", Input{Pod: aPod("c"), Sandbox: ready, Prepared: true, Last: corev1.PodStatus{Phase: corev1.PodFailed, Reason: "Evicted"}}, "Release", corev1.PodFailed, 0},

		// A lost sandbox.
		{"sandbox lost", Input{Pod: aPod("c"), Containers: cs{"c": up(0)}}, `Stop c 30s "Pod sandbox changed, it will be killed and re-created."`, corev1.PodRunning, 0},
		{"sandbox lost, all ended", Input{Pod: aPod("c"), Containers: cs{"c": down(137, 2, 0, 0)}}, "Prepare", corev1.PodRunning, 0},
		{"new sandbox: init runs again, at once", Input{Pod: aPod("init i", "c"), Sandbox: Sandbox{Since: t0}, Prepared: true, Containers: cs{"i": down(0, 0, 0, time.Minute), "c": down(137, 2, time.Minute, 0)}}, "Start i #1 backoff 10s", corev1.PodRunning, 0},

		// Ends from outside.
		{"evicted", Input{Pod: aPod("c"), Sandbox: ready, Prepared: true, Killed: &Verdict{Reason: "Evicted"}, Containers: cs{"c": up(0)}, Last: corev1.PodStatus{Phase: corev1.PodRunning}},
			`Stop c 30s "Stopping container c"`, corev1.PodRunning, 0},
		{"evicted and ended", Input{Pod: aPod("c"), Sandbox: ready, Prepared: true, Killed: &Verdict{Reason: "Evicted"}, Containers: cs{"c": down(0, 0, 0, 0)}}, "Release", corev1.PodFailed, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Now = t0
			for name, c := range tt.in.Containers {
				if c.Current != nil {
					c.Current.Name = name
				}
			}
			out := Step(tt.in)
			if got := describe(out.Actions); got != tt.want {
				t.Errorf("actions: %s\n   want: %s", got, tt.want)
			}
			if out.Status.Phase != tt.phase {
				t.Errorf("phase %s, want %s", out.Status.Phase, tt.phase)
			}
			var wake time.Duration
			if !out.Wake.IsZero() {
				wake = out.Wake.Sub(t0)
			}
			if wake != tt.wake {
				t.Errorf("wake in %s, want %s", wake, tt.wake)
			}
		})
	}
}

func TestActiveDeadline(t *testing.T) {
	p := aPod("c")
	p.Spec.ActiveDeadlineSeconds = new(int64(60))
	in := Input{Pod: p, Now: t0, Sandbox: ready, Prepared: true, Containers: map[string]*Container{"c": up(0)}}
	in.Last = corev1.PodStatus{Phase: corev1.PodRunning, StartTime: &metav1.Time{Time: t0.Add(-59 * time.Second)}}
	if out := Step(in); len(out.Actions) != 0 || !out.Wake.Equal(t0.Add(time.Second)) {
		t.Errorf("before the deadline: %s, wake %s", describe(out.Actions), out.Wake)
	}
	in.Now = t0.Add(time.Second)
	if out := Step(in); describe(out.Actions) != `Stop c 30s "Stopping container c"` {
		t.Errorf("at the deadline: %s", describe(out.Actions))
	}
	in.Containers["c"] = down(143, 0, 0, 0)
	out := Step(in)
	if out.Status.Phase != corev1.PodFailed || out.Status.Reason != "DeadlineExceeded" ||
		out.Status.Message != "Pod was active on the node longer than the specified deadline" {
		t.Errorf("after the deadline: %s %s %s", out.Status.Phase, out.Status.Reason, out.Status.Message)
	}
}

func TestWaitingReasons(t *testing.T) {
	pull := &Fault{Reason: ReasonErrImagePull, Message: "no such host", At: t0, RetryAt: t0.Add(10 * time.Second)}
	tests := []struct {
		name            string
		pod             *corev1.Pod
		c               *Container
		now             time.Time
		reason, message string
	}{
		{"creating", aPod("c"), &Container{}, t0, "ContainerCreating", ""},
		{"initializing", aPod("init i", "c"), &Container{}, t0, "PodInitializing", ""},
		{"pull failed", aPod("c"), &Container{Fault: pull}, t0.Add(time.Second), "ErrImagePull", "no such host"},
		{"pull waits", aPod("c"), &Container{Fault: pull}, t0.Add(3 * time.Second), "ImagePullBackOff", `Back-off pulling image "img": ErrImagePull: no such host`},
		{"config", aPod("c"), &Container{Fault: &Fault{Reason: ReasonConfigError, Message: `configmap "x" not found`, At: t0}}, t0, "CreateContainerConfigError", `configmap "x" not found`},
		{"crash loop", aPod("c"), down(1, 1, 10*time.Second, 0), t0, "CrashLoopBackOff", "back-off 10s restarting failed container=c pod=p_ns(u)"},
		{"start error", aPod("c"), with(down(128, 0, 0, 0), func(c *Container) {
			c.Current.Reason, c.Current.Message = runtime.ReasonStartError, "exec: not found"
		}), t0, "RunContainerError", "exec: not found"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.pod.Spec.Containers[0].Image = "img"
			out := Step(Input{Pod: tt.pod, Now: tt.now, Sandbox: ready, Prepared: true, Containers: map[string]*Container{"c": tt.c}})
			w := out.Status.ContainerStatuses[0].State.Waiting
			if w == nil || w.Reason != tt.reason || w.Message != tt.message {
				t.Errorf("waiting: %+v, want %s %q", w, tt.reason, tt.message)
			}
		})
	}
}

func TestConditions(t *testing.T) {
	gate := aPod("c")
	gate.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/lb"}}
	type cs map[string]*Container
	tests := []struct {
		name string
		in   Input
		want map[corev1.PodConditionType]string // status/reason
	}{
		{"new", Input{Pod: aPod("c")}, map[corev1.PodConditionType]string{
			"PodReadyToStartContainers": "False/", "Initialized": "True/", "ContainersReady": "False/ContainersNotReady", "Ready": "False/ContainersNotReady", "PodScheduled": "True/"}},
		{"running", Input{Pod: aPod("c"), Sandbox: ready, Prepared: true, Containers: cs{"c": up(0)}}, map[corev1.PodConditionType]string{
			"PodReadyToStartContainers": "True/", "Initialized": "True/", "ContainersReady": "True/", "Ready": "True/"}},
		{"unready", Input{Pod: aPod("c"), Sandbox: ready, Prepared: true, Containers: cs{"c": with(up(0), func(c *Container) { c.Ready = false })}}, map[corev1.PodConditionType]string{
			"ContainersReady": "False/ContainersNotReady", "Ready": "False/ContainersNotReady"}},
		{"init", Input{Pod: aPod("init i", "c"), Sandbox: ready, Prepared: true, Containers: cs{"i": up(0)}}, map[corev1.PodConditionType]string{
			"Initialized": "False/ContainersNotInitialized"}},
		{"done", Input{Pod: policy(aPod("c"), corev1.RestartPolicyNever), Sandbox: ready, Prepared: true, Containers: cs{"c": down(0, 0, 0, 0)}}, map[corev1.PodConditionType]string{
			"Initialized": "True/PodCompleted", "ContainersReady": "False/PodCompleted", "Ready": "False/PodCompleted"}},
		{"gate is missing", Input{Pod: gate, Sandbox: ready, Prepared: true, Containers: cs{"c": up(0)}}, map[corev1.PodConditionType]string{
			"ContainersReady": "True/", "Ready": "False/ReadinessGatesNotReady"}},
		{"gate is open", Input{Pod: gate, Sandbox: ready, Prepared: true, Containers: cs{"c": up(0)}, Last: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: "example.com/lb", Status: "True"}}}}, map[corev1.PodConditionType]string{
			"Ready": "True/", "example.com/lb": "True/"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Now = t0
			out := Step(tt.in)
			for typ, want := range tt.want {
				c := condition(out.Status.Conditions, typ)
				if c == nil || string(c.Status)+"/"+c.Reason != want {
					t.Errorf("%s: %+v, want %s", typ, c, want)
				}
			}
		})
	}
}

// A transition has the time of the change, and only then.
func TestTransitionTimes(t *testing.T) {
	in := Input{Pod: aPod("c"), Now: t0, Sandbox: ready, Prepared: true, Containers: map[string]*Container{"c": up(0)}}
	first := Step(in).Status
	in.Last, in.Now = first, t0.Add(time.Minute)
	if c := condition(Step(in).Status.Conditions, corev1.PodReady); !c.LastTransitionTime.Time.Equal(t0) {
		t.Errorf("no change moved the time to %s", c.LastTransitionTime)
	}
	in.Containers["c"].Ready = false
	if c := condition(Step(in).Status.Conditions, corev1.PodReady); !c.LastTransitionTime.Time.Equal(in.Now) {
		t.Errorf("change at %s has the time %s", in.Now, c.LastTransitionTime)
	}
}

// Whatever happens to a pod that restarts nothing, steps never start a
// container twice at once, and never start one of a pod that is ending.
func TestStepNeverStartsWhatEnds(t *testing.T) {
	states := []func() *Container{
		func() *Container { return &Container{} },
		func() *Container { return &Container{Op: OpStart} },
		func() *Container { return up(0) },
		func() *Container { return with(up(0), func(c *Container) { c.Op = OpStop }) },
		func() *Container { return down(0, 0, 0, 0) },
		func() *Container { return down(1, 1, 10*time.Second, 0) },
	}
	for i, a := range states {
		for j, b := range states {
			for _, ending := range []bool{false, true} {
				for _, sandbox := range []Sandbox{{}, ready} {
					in := Input{Pod: aPod("init i", "c"), Now: t0, Sandbox: sandbox, Prepared: true, Containers: map[string]*Container{"i": a(), "c": b()}}
					if ending {
						in.Pod.DeletionTimestamp = &metav1.Time{Time: t0}
					}
					for _, act := range Step(in).Actions {
						if act.Kind != Start {
							continue
						}
						if c := in.Containers[act.Container]; ending || c.Op != OpNone || running(c) || sandbox.Since.IsZero() {
							t.Errorf("states %d %d ending %v: %s", i, j, ending, describe([]Action{act}))
						}
					}
				}
			}
		}
	}
}
