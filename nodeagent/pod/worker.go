package pod

import (
	"context"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/controller/pace"
	"github.com/writ-os/writ/schema"
)

// worker runs one pod: an actor whose state belongs to its goroutine. What
// others tell it is kept under mu as the latest value, and wakes it.
type worker struct {
	p       *Pods
	uid     string
	wake    chan struct{}
	results chan func() // of actions, run by the actor
	ops     sync.WaitGroup
	begun   int // operations, ever
	guard   pace.Guard
	purged  bool // nothing of the pod is left on this node

	mu       sync.Mutex
	desired  *corev1.Pod
	mirror   *corev1.Pod
	removed  bool
	killed   *Verdict
	outdated bool              // volumes must be looked at
	shown    *corev1.PodStatus // the newest status

	// Of the actor.
	pod        *corev1.Pod // desired, as of this round
	base       *corev1.Pod // the newest that the server is known to have
	last       corev1.PodStatus
	sandbox    Sandbox
	prepared   bool
	released   bool
	busy       bool
	deleted    bool // the server has forgotten the pod
	fault      *Fault
	failures   int
	containers map[string]*tracked
	refreshAt  time.Time
	report     reporter
	resized    Resize
	resizing   bool      // limits are being changed
	resizeAt   time.Time // when to try again
	measured   map[string]string
}

// tracked is a container with what the actor does about it.
type tracked struct {
	Container
	failures int // attempts to prepare in a row
	stopping *stopping
	cancel   context.CancelFunc // of OpStart
	probes   *probes
	hooked   bool                         // postStart is through, or there is none
	granted  *corev1.ResourceRequirements // that the newest attempt was started with; nil before this process
}

func newWorker(p *Pods, pod *corev1.Pod) *worker {
	return &worker{
		p: p, uid: string(pod.UID), desired: pod, last: *pod.Status.DeepCopy(),
		wake: make(chan struct{}, 1), results: make(chan func()),
		containers: map[string]*tracked{}, measured: map[string]string{},
	}
}

func (w *worker) poke() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *worker) update(pod, mirror *corev1.Pod) {
	w.mu.Lock()
	w.desired, w.mirror, w.removed = pod, mirror, false
	w.mu.Unlock()
	w.poke()
}

func (w *worker) remove() {
	w.mu.Lock()
	w.removed = true
	w.mu.Unlock()
	w.poke()
}

func (w *worker) kill(v Verdict) {
	w.mu.Lock()
	if w.killed == nil {
		w.killed = &v
	}
	w.mu.Unlock()
	w.poke()
}

func (w *worker) refresh() {
	w.mu.Lock()
	w.outdated = true
	w.mu.Unlock()
	w.poke()
}

// snapshot returns the pod with its newest status.
func (w *worker) snapshot() *corev1.Pod {
	w.mu.Lock()
	defer w.mu.Unlock()
	pod := *w.desired
	if w.shown != nil {
		pod.Status = *w.shown
	}
	return &pod
}

// run is the actor. When ctx ends it waits for its actions and leaves the
// containers as they are.
func (w *worker) run(ctx context.Context) {
	defer w.quit()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for byClock := false; ; {
		if w.p.onRound != nil {
			w.p.onRound(w.uid)
		}
		begun := w.begun
		wake, done := w.round(ctx)
		if done {
			w.purged = true
			return
		}
		wake = w.pace(wake, !byClock || w.begun != begun)
		if byClock = false; !wake.IsZero() {
			timer.Reset(max(time.Until(wake), 0))
		} else {
			timer.Stop()
		}
		select {
		case <-ctx.Done():
			return
		case <-w.wake:
		case <-timer.C:
			byClock = true
		case fn := <-w.results:
			fn()
		}
		w.drain()
	}
}

// pace returns when the worker may wake itself. One that asks to be woken again
// and again though its rounds begin nothing is made to wait, and counted.
func (w *worker) pace(wake time.Time, effect bool) time.Time {
	if w.p.wakeAt != nil {
		wake = w.p.wakeAt(wake)
	}
	wake, held := w.guard.Next(time.Now(), wake, effect)
	if held {
		w.p.held.Add(1)
	}
	return wake
}

// drain takes the results that are there, so that one round sees them all.
func (w *worker) drain() {
	for {
		select {
		case fn := <-w.results:
			fn()
		default:
			return
		}
	}
}

// quit ends probes and waits for actions, whose results nobody needs.
func (w *worker) quit() {
	for _, t := range w.containers {
		t.endProbes()
	}
	done := make(chan struct{})
	go func() {
		w.ops.Wait()
		close(done)
	}()
	for {
		select {
		case <-w.results:
		case <-done:
			return
		}
	}
}

// op runs something slow beside the actor; finish runs in the actor.
func (w *worker) op(fn func() (finish func())) {
	w.begun++
	w.ops.Go(func() { w.results <- fn() })
}

// round observes, steps and acts. It says when to come back by the clock, and
// whether the pod is gone for good.
func (w *worker) round(ctx context.Context) (time.Time, bool) {
	removed := w.take()
	if err := w.observe(ctx); err != nil {
		if ctx.Err() == nil {
			w.p.log.Warn("observe pod", "pod", w.pod.Namespace+"/"+w.pod.Name, "err", err)
		}
		return time.Now().Add(time.Second), false
	}
	if standIn(w.pod) && !removed {
		return time.Time{}, false
	}
	if removed && w.released && !w.busy {
		if err := w.purge(ctx); err != nil {
			w.p.log.Warn("purge pod", "pod", w.pod.Namespace+"/"+w.pod.Name, "err", err)
			return time.Now().Add(10 * time.Second), false
		}
		return time.Time{}, true
	}
	resize := w.resize(ctx)
	out := Step(w.input())
	w.sayBackOffs(&out.Status)
	w.last = out.Status
	w.mu.Lock()
	w.shown = &out.Status
	w.mu.Unlock()
	w.followProbes(ctx)
	wake := earliest(earliest(out.Wake, resize), w.send(ctx, removed))
	for _, a := range out.Actions {
		w.do(ctx, a)
	}
	return earliest(wake, w.refreshVolumes(ctx)), false
}

// take adopts what others have said since the last round. It says whether the
// server has forgotten the pod.
func (w *worker) take() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	pod, seen := w.desired, w.desired
	if isStatic(pod) {
		seen = w.mirror
	}
	if seen != nil && newer(seen, w.base) {
		w.base = seen
		w.last.Conditions = foreign(w.last.Conditions, seen.Status.Conditions)
	}
	removed := w.removed || w.deleted
	if removed && pod.DeletionTimestamp == nil {
		// End it as if it had been deleted.
		pod = pod.DeepCopy()
		now := metav1.Now()
		pod.DeletionTimestamp = &now
		w.desired = pod
	}
	if pod != w.pod {
		w.pod = pod
		if !removed && !standIn(pod) {
			w.p.savePod(pod)
		}
	}
	return removed
}

func newer(a, b *corev1.Pod) bool {
	if b == nil || a.UID != b.UID {
		return true
	}
	va, err1 := schema.ParseResourceVersion(a.ResourceVersion)
	vb, err2 := schema.ParseResourceVersion(b.ResourceVersion)
	return err1 != nil || err2 != nil || va > vb
}

// foreign takes over the conditions of others from the server's status.
func foreign(ours, theirs []corev1.PodCondition) []corev1.PodCondition {
	var out []corev1.PodCondition
	for _, c := range ours {
		if own(c.Type) {
			out = append(out, c)
		}
	}
	for _, c := range theirs {
		if !own(c.Type) || condition(ours, c.Type) == nil {
			out = append(out, c)
		}
	}
	return out
}

func own(t corev1.PodConditionType) bool {
	switch t {
	case corev1.PodReady, corev1.ContainersReady, corev1.PodInitialized, corev1.PodScheduled, conditionSandboxReady,
		corev1.PodResizePending, corev1.PodResizeInProgress:
		return true
	}
	return false
}

// input gathers what the step depends on.
func (w *worker) input() Input {
	in := Input{
		Pod: w.pod, Now: time.Now(), Last: w.last, HostIPs: w.p.cfg.HostIPs,
		Sandbox: w.sandbox, Prepared: w.prepared, Released: w.released, Busy: w.busy,
		Fault: w.fault, Containers: make(map[string]*Container, len(w.containers)),
		StatusSent: w.sent(), Resize: &w.resized,
	}
	w.mu.Lock()
	in.Killed = w.killed
	w.mu.Unlock()
	for name, t := range w.containers {
		in.Containers[name] = &t.Container
	}
	return in
}

func earliest(a, b time.Time) time.Time {
	if a.IsZero() || (!b.IsZero() && b.Before(a)) {
		return b
	}
	return a
}

// do begins an action.
func (w *worker) do(ctx context.Context, a Action) {
	switch a.Kind {
	case Prepare:
		w.prepare(ctx)
	case Start:
		w.startContainer(ctx, a)
	case Stop:
		w.stopContainer(ctx, a)
	case Abort:
		w.tracked(a.Container).cancel()
	case Release:
		w.release(ctx)
	case Delete:
		w.deletePod(ctx)
	}
}
