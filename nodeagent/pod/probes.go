package pod

import (
	"context"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/nodeagent/probe"
	"github.com/writ-os/writ/nodeagent/runtime"
)

// probes are the probe workers of one attempt of a container.
type probes struct {
	cancel  context.CancelFunc
	startup bool // the startup probe was begun
	others  bool // liveness and readiness were begun
}

// endProbes stops asking. It does not wait: a result that still comes is of
// an attempt that is over, and dropped.
func (t *tracked) endProbes() {
	if t.probes != nil {
		t.probes.cancel()
		t.probes = nil
	}
}

// followProbes begins the probes that are due: the startup probe when a
// container runs, the others when it has started.
func (w *worker) followProbes(ctx context.Context) {
	for name, t := range w.containers {
		spec := w.spec(name)
		if spec == nil || !running(&t.Container) || !t.hooked || t.Op != OpNone {
			continue
		}
		if t.probes == nil {
			pctx, cancel := context.WithCancel(ctx)
			t.probes = &probes{cancel: cancel}
			w.beginProbes(pctx, t, spec)
			continue
		}
		if t.Started && !t.probes.others {
			pctx, cancel := context.WithCancel(ctx)
			t.probes.cancel()
			t.probes.cancel = cancel
			w.beginOthers(pctx, t, spec)
		}
	}
}

// beginProbes begins with the startup probe, or goes on to the others.
func (w *worker) beginProbes(ctx context.Context, t *tracked, spec *corev1.Container) {
	if spec.StartupProbe != nil && !t.Started {
		t.probes.startup = true
		w.ask(ctx, t, spec, probe.Startup, spec.StartupProbe)
		return
	}
	if !t.Started {
		t.Started = true
		t.Ready = spec.ReadinessProbe == nil
		w.poke() // its status has changed
	}
	w.beginOthers(ctx, t, spec)
}

func (w *worker) beginOthers(ctx context.Context, t *tracked, spec *corev1.Container) {
	t.probes.others = true
	if spec.LivenessProbe != nil {
		w.ask(ctx, t, spec, probe.Liveness, spec.LivenessProbe)
	}
	if spec.ReadinessProbe != nil {
		w.ask(ctx, t, spec, probe.Readiness, spec.ReadinessProbe)
	} else if !t.Ready {
		t.Ready = true
		w.poke()
	}
}

// ask runs one probe until ctx ends.
func (w *worker) ask(ctx context.Context, t *tracked, spec *corev1.Container, kind probe.Type, p *corev1.Probe) {
	id, pod := t.Current.ID, w.pod
	ip := firstOf(w.sandbox.IPs)
	if pod.Spec.HostNetwork {
		ip = firstOf(w.p.cfg.HostIPs)
	}
	if ip == "" {
		ip = w.last.PodIP
	}
	pw := &probe.Worker{
		Type: kind, Spec: p, Prober: w.p.cfg.Prober, Since: t.Current.StartedAt,
		Spread: t.Current.StartedAt.Before(w.p.start),
		Target: probe.Target{PodIP: ip, Container: spec, Exec: func(ctx context.Context, command []string, out io.Writer) (int, error) {
			return w.p.cfg.Runtime.Exec(ctx, id, runtime.ExecSpec{Command: command, Stdout: out, Stderr: out})
		}},
		OnResult: func(r probe.Result) {
			w.tell(ctx, func() { w.probed(t, id, kind, r) })
		},
		OnFailure: func(message string) {
			w.eventAbout(spec.Name, corev1.EventTypeWarning, eventUnhealthy, fmt.Sprintf("%s probe failed: %s", kind, message))
		},
	}
	w.ops.Go(func() { pw.Run(ctx) })
}

// tell hands a result to the actor, unless ctx ends first.
func (w *worker) tell(ctx context.Context, fn func()) {
	select {
	case w.results <- fn:
	case <-ctx.Done():
	}
}

// probed takes over the result of a probe of an attempt.
func (w *worker) probed(t *tracked, id string, kind probe.Type, r probe.Result) {
	if t.Current == nil || t.Current.ID != id || t.probes == nil {
		return
	}
	ok := r == probe.Success
	switch kind {
	case probe.Startup:
		if t.Started = ok; !ok {
			t.Unhealthy = unhealthyStartup
		}
	case probe.Liveness:
		if !ok {
			t.Unhealthy = unhealthyLiveness
		}
	case probe.Readiness:
		t.Ready = ok
	}
}
