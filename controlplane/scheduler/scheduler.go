package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/pace"
	"github.com/writ-os/writ/schema"
)

// DefaultName is the schedulerName of pods that name none.
const DefaultName = corev1.DefaultSchedulerName

// Recorder writes events about objects. *client.Recorder is one.
type Recorder interface {
	Event(o schema.Object, eventtype, reason, message string)
}

// Config is everything the scheduler needs from outside.
type Config struct {
	// Client writes bindings. Where it is a client.Transactor, many at once.
	Client client.Interface
	// Cache is watched for nodes and pods.
	Cache    client.Cache
	Recorder Recorder
	Log      *slog.Logger
	// Name is the schedulerName of the pods it cares for. Default DefaultName.
	Name string
	// PercentageOfNodesToScore ends the search for nodes that fit early in
	// large clusters. Default: 50 % falling to 5 % as the cluster grows.
	PercentageOfNodesToScore int
}

// Scheduler gives pods their nodes.
type Scheduler struct {
	cfg     Config
	metrics *metrics
	inbox   *mailbox
	writer  *writer

	// All below belongs to the goroutine of Run.
	cluster *cluster
	queue   *queue
	decider decider
	start   int
	// changed are the nodes that refused pods may fit on now.
	changed map[*nodeInfo]bool
	guard   pace.Guard // of rounds that find nothing to do
}

// New returns a scheduler; it starts nothing.
func New(cfg Config) *Scheduler {
	if cfg.Name == "" {
		cfg.Name = DefaultName
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Recorder == nil {
		cfg.Recorder = silent{}
	}
	s := &Scheduler{
		cfg: cfg, metrics: newMetrics(), inbox: newMailbox(),
		cluster: newCluster(), queue: newQueue(), changed: map[*nodeInfo]bool{},
		decider: decider{percentage: cfg.PercentageOfNodesToScore},
	}
	s.writer = newWriter(cfg, s.inbox.post)
	return s
}

type silent struct{}

func (silent) Event(schema.Object, string, string, string) {}

// Run schedules until ctx ends.
func (s *Scheduler) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.writer.run(ctx) })
	g.Go(func() error { return s.loop(ctx) })
	if err := g.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// loop is the goroutine that owns the state.
func (s *Scheduler) loop(ctx context.Context) error {
	// Nodes and their pods first, so that no pod is placed on a node that only
	// looks empty; and before them the namespaces, which pods select by labels.
	for _, r := range []*schema.Resource{schema.ResourceFor[*corev1.Namespace](), schema.ResourceFor[*corev1.Node](), schema.ResourceFor[*corev1.Pod]()} {
		if err := s.cfg.Cache.Subscribe(ctx, r, func(e client.Event) { s.inbox.post(e) }); err != nil {
			return fmt.Errorf("subscribe to %s: %w", r, err)
		}
	}
	worked := true
	for {
		for _, m := range s.inbox.take() {
			s.receive(m)
			worked = true
		}
		now := time.Now()
		s.wake(now)
		w := s.queue.pop(now)
		if w == nil {
			s.metrics.observe(s.queue)
			if err := s.wait(ctx, now, worked); err != nil {
				return err
			}
			worked = false
			continue
		}
		worked = true
		s.schedule(w, now)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
}

// wait sleeps until a message comes or a pod's back-off ends. worked says that
// there was something to do since the last wait.
func (s *Scheduler) wait(ctx context.Context, now time.Time, worked bool) error {
	var due <-chan time.Time
	if t, ok := s.queue.next(); ok {
		t, held := s.guard.Next(now, t, worked)
		if held {
			s.metrics.idle.Inc()
		}
		timer := time.NewTimer(t.Sub(now))
		defer timer.Stop()
		due = timer.C
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-s.inbox.signal:
	case <-due:
	}
	return nil
}

// schedule decides about one pod and acts.
func (s *Scheduler) schedule(w *waiting, now time.Time) {
	s.cluster.peers.look()
	d := s.decider.decide(w.podInfo, s.cluster.nodes, s.start)
	s.start = d.next
	s.metrics.decided(&d, time.Since(now))
	if w.slot != d.node {
		s.leaveSlot(w)
	}
	w.slot = nil
	if d.node == nil {
		s.refuse(w, d.refusal, now)
		return
	}
	s.unnominate(w)
	s.cluster.assume(w.podInfo, d.node)
	s.writer.bind(binding{w, d.node.name})
}

// refuse keeps a pod until something changes, makes room for it where it may
// push others out, and says why.
func (s *Scheduler) refuse(w *waiting, why *refusal, now time.Time) {
	p := preempt(w.podInfo, why, s.cluster)
	why.preemption = p.text
	if p.node != nil {
		s.nominate(w, p.node)
	}
	s.queue.refused(w, now)
	message := why.String()
	s.writer.report(report{pod: w.pod, message: message, changed: message != w.condition, preemption: p})
	w.condition = message
}

// wake tries refused pods against the nodes that have changed, and against
// these alone: elsewhere nothing is new. Of pods that fit as many wake as there
// is room for, the most urgent first: each is counted on the node that woke it
// while the others are asked. What becomes of the room is seen when the pod is
// tried (schedule).
func (s *Scheduler) wake(now time.Time) {
	elsewhere := s.cluster.peers.moved
	if len(s.changed) == 0 && !elsewhere {
		return
	}
	s.cluster.peers.look()
	room := func(p *podInfo) *nodeInfo {
		for n := range s.changed {
			if fits(p, n) {
				return n
			}
		}
		if elsewhere { // what pods said of each other has changed: any node may do
			for _, n := range s.cluster.nodes {
				if fits(p, n) {
					return n
				}
			}
		}
		return nil
	}
	var taken []*waiting
	s.queue.wake(now, func(p *podInfo) bool { return room(p) != nil }, func(w *waiting) bool {
		if w.slot = room(w.podInfo); w.slot == nil {
			return false
		}
		w.slot.put(w.podInfo)
		taken = append(taken, w)
		return true
	})
	for _, w := range taken {
		w.slot.take(w.podInfo)
	}
	s.cluster.peers.moved = false
	clear(s.changed)
}

// leaveSlot lets others have the room for which a pod was woken.
func (s *Scheduler) leaveSlot(w *waiting) {
	s.freed(w.slot)
	w.slot = nil
}

// bound takes in the result of a binding. That the pod has its node is seen as
// an event of the pod.
func (s *Scheduler) bound(b binding, err error) {
	w := b.pod
	if err == nil {
		s.metrics.scheduled.Inc()
		s.queue.done(w)
		s.cfg.Recorder.Event(w.pod, corev1.EventTypeNormal, "Scheduled", fmt.Sprintf("Successfully assigned %s to %s", w.key, b.node))
		return
	}
	s.metrics.failed.Inc()
	if s.cluster.assumed(w.key) != nil {
		s.freed(s.cluster.removePod(w.key))
	}
	if apierrors.IsNotFound(err) || s.queue.pods[w.key] != w {
		s.queue.done(w)
		return
	}
	s.cfg.Log.Warn("pod not bound", "pod", w.key, "node", b.node, "err", err)
	s.queue.retry(w, time.Now())
	w.condition = fmt.Sprintf("binding rejected: %v", err)
	s.writer.report(report{pod: w.pod, message: w.condition, reason: "SchedulerError", changed: true})
	// Events of the pod were not looked at while its binding was on the way.
	if pod, ok := client.Cached[*corev1.Pod](s.cfg.Cache, w.key); ok {
		s.podEvent(pod, false)
	}
}

// notEvicted gives up the room that was to be made for a pod, and tries it
// again after its back-off: those who were to leave may be gone by then, or
// others may be asked.
func (s *Scheduler) notEvicted(m notEvicted) {
	w := s.queue.pods[m.key]
	if w == nil || w.pod.UID != m.uid {
		return
	}
	s.cfg.Log.Warn("pods not preempted", "pod", m.key, "err", m.err)
	s.cfg.Recorder.Event(w.pod, corev1.EventTypeWarning, "FailedScheduling", fmt.Sprintf("preemption: %v", m.err))
	s.unnominate(w)
	if w.place == unschedulable {
		s.queue.retry(w, time.Now())
	}
}

// freed marks a node on which pods may fit that did not before.
func (s *Scheduler) freed(n *nodeInfo) {
	if n != nil && n.node != nil {
		s.changed[n] = true
	}
}
