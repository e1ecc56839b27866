package pod

import (
	"context"
	"sync"
	"syscall"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// stopping is the end of one container: preStop, a signal, the grace, SIGKILL.
type stopping struct {
	w     *worker
	spec  *corev1.Container
	id    string
	podIP string

	once   sync.Once
	exited chan struct{}
	sooner chan time.Duration
}

func newStopping(w *worker, spec *corev1.Container, id, podIP string) *stopping {
	return &stopping{w: w, spec: spec, id: id, podIP: podIP, exited: make(chan struct{}), sooner: make(chan time.Duration, 1)}
}

// end says that the container has ended.
func (s *stopping) end() { s.once.Do(func() { close(s.exited) }) }

// stopContainer begins to stop a container, or hastens that.
func (w *worker) stopContainer(ctx context.Context, a Action) {
	t := w.tracked(a.Container)
	t.StopBy = time.Now().Add(a.Grace)
	if t.Op == OpStop {
		select {
		case <-t.stopping.sooner:
		default:
		}
		t.stopping.sooner <- a.Grace
		return
	}
	t.Op = OpStop
	t.endProbes()
	w.eventAbout(a.Container, corev1.EventTypeNormal, eventKilling, a.Message)
	ip := firstOf(w.sandbox.IPs)
	if w.pod.Spec.HostNetwork {
		ip = firstOf(w.p.cfg.HostIPs)
	}
	st := newStopping(w, w.spec(a.Container), t.Current.ID, ip)
	t.stopping = st
	w.op(func() func() {
		st.run(ctx, a.Grace)
		return func() { t.Op, t.stopping = OpNone, nil }
	})
}

// killPause is how long a SIGKILL may take before it is sent again.
const killPause = 5 * time.Second

// run ends the container. It returns when it has ended, or when the agent does.
func (s *stopping) run(ctx context.Context, grace time.Duration) {
	begin := time.Now()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	hook := make(chan struct{})
	hookCtx, endHook := context.WithCancel(ctx)
	defer endHook()
	go func() {
		defer close(hook)
		s.preStop(hookCtx)
	}()
	hooked := (<-chan struct{})(hook)
	for killed := false; ; {
		select {
		case <-s.exited:
			return
		case <-ctx.Done():
			return
		case <-hooked:
			hooked = nil
			if !killed {
				s.signal(ctx, syscall.SIGTERM)
			}
			// Kubernetes leaves two seconds after a hook that took all the grace.
			if left := time.Until(begin.Add(grace)); left < 2*time.Second && time.Since(begin) > time.Second {
				timer.Reset(2 * time.Second)
			}
		case g := <-s.sooner:
			grace = g
			timer.Reset(max(time.Until(begin.Add(g)), 0))
			begin = time.Now()
		case <-timer.C:
			killed = true
			endHook()
			s.signal(ctx, syscall.SIGKILL)
			timer.Reset(killPause)
		}
	}
}

func (s *stopping) signal(ctx context.Context, sig syscall.Signal) {
	if err := s.w.p.cfg.Runtime.Signal(ctx, s.id, sig); err != nil && ctx.Err() == nil {
		s.w.p.log.Warn("signal container", "container", s.id, "signal", sig.String(), "err", err)
	}
}

func (s *stopping) preStop(ctx context.Context) {
	if s.spec == nil || s.spec.Lifecycle == nil || s.spec.Lifecycle.PreStop == nil {
		return
	}
	h := hook{w: s.w, spec: s.spec, id: s.id, podIP: s.podIP}
	if err := h.run(ctx, s.spec.Lifecycle.PreStop); err != nil && ctx.Err() == nil {
		s.w.eventAbout(s.spec.Name, corev1.EventTypeWarning, eventPreStop, "PreStopHook failed")
		s.w.p.log.Info("preStop hook", "container", s.id, "err", err)
	}
}

// graceOf is how long a pod's containers may take to end.
func (w *worker) graceOf(pod *corev1.Pod) time.Duration {
	s := step{Input: Input{Pod: pod}}
	return s.grace()
}
