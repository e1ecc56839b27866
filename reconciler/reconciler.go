// Package reconciler makes the cluster what a Git branch says:
//
//	source ──> render ──> validate ──> plan ──> apply ──> watch health ──> report
//	 newest     files      every       desired   one        of every
//	 head wins  changed    finding     vs live   transaction declared object
//
// It watches the source and the objects that Git declares. It owns the fields
// that Git declares (field manager "writ"), Inventory objects, Commit objects
// and the Repository object of its source.
//
// There is one Reconciler for each Repository; Fleet runs those that Git
// declares.
//
// A commit costs what it changes, and not what the repository holds. Each step
// is made of the one before it, of the last commit, and of what differs: the
// list of files by the hashes of folders, the units by those of files, what is
// declared, which units the inventories do not agree with, what is watched.
// Whatever is made so is what would be made from nothing. What nobody has
// touched since the last plan is not compared again; a process begins by
// comparing everything, and every ten minutes a commit has all declared objects
// looked for.
//
// It promises that a commit enters the cluster whole or not at all, that a bad
// commit changes nothing and holds up nobody, that what someone else changes of
// what Git declares is put back, and that nothing is deleted that the
// repository did not declare.
package reconciler

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/pace"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/podstandard"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Config is everything the reconciler needs from outside.
type Config struct {
	// Client writes as the user system:writ:reconciler.
	Client client.Backend
	Source Source
	// Sandbox evaluates CUE, Kustomize and Helm within bounds of memory; nil: in
	// this process.
	Sandbox *sandbox.Sandbox
	// Catalog has the custom kinds that the cluster serves; nil: none.
	Catalog *schema.Live
	// Repository is the name of the Repository object. Default "cluster".
	Repository string
	// Spec is what the Repository object says, as the flags give it. What Git
	// says of the object stands before it.
	Spec v1alpha1.RepositorySpec
	// Declared says that the Repository object is there already and is not
	// this reconciler's to make.
	Declared bool
	// PodSecurity is what the server's admission holds pods against; nil:
	// podstandard.Baseline.
	PodSecurity *podstandard.Judge
	Log         *slog.Logger
	Metrics     prometheus.Registerer // nil: none
}

// Delays of the loop. They pace writes of status and repeated failures, never
// a commit.
const (
	statusDelay = 250 * time.Millisecond
	healDelay   = 50 * time.Millisecond
	minRetry    = time.Second
	maxRetry    = time.Minute
	// suspendCheck is how soon a repository goes on that is suspended no more.
	suspendCheck = 5 * time.Second
)

// Reconciler follows one branch of one repository.
type Reconciler struct {
	cfg     Config
	log     *slog.Logger
	metrics *metrics
	eval    *evaluator
	watch   *watch
	replan  chan struct{}
	// shadowed says that other repositories declare objects of this one.
	shadowed atomic.Bool
	// open are the objects that are not settled, for those who preview a commit;
	// nil: all are.
	open atomic.Pointer[[]render.Ref]

	// Only the goroutine of Run touches these.
	commit  *v1alpha1.Commit // that is applied, as last stored
	head    *Commit          // to be done, or to be tried again
	asleep  string           // the commit of a suspended repository that leaves it so
	refused Commit           // the newest, if it was refused for what the cluster lacks
	current *evaluation      // of the applied commit

	refusedAt  time.Time
	swept      time.Time // when all declared objects were last looked for
	followed   string    // which custom kinds the watch follows
	first      bool      // nothing has been applied by this process yet
	dirty      map[render.Ref]bool
	undeclared map[render.Ref][]plan.Undeclared // what others have set on declared objects
	held       map[render.Ref]string            // ops that wait, and for what
	blocked    map[render.Ref]string            // what cannot be put back, and why
	ours       map[render.Ref]string            // versions that the last writes made
	retry      backoff                          // of the head
	heal       backoff
	status     time.Time // when the status may next be written; zero: nothing to write
}

// New returns a reconciler; it starts nothing.
func New(cfg Config) *Reconciler {
	if cfg.Repository == "" {
		cfg.Repository = "cluster"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	eval := newEvaluator()
	eval.catalog = cfg.Catalog
	if cfg.PodSecurity != nil {
		eval.security = cfg.PodSecurity
	}
	return &Reconciler{cfg: cfg, log: cfg.Log.With("repository", cfg.Repository), metrics: newMetrics(cfg.Metrics, cfg.Repository),
		eval: eval, replan: make(chan struct{}, 1), watch: newWatch(cfg.Client.Cache(), func(r *schema.Resource) bool { return cfg.Catalog.Load().ByGVK(r.GVK()) == r }), first: true,
		dirty: map[render.Ref]bool{}, undeclared: map[render.Ref][]plan.Undeclared{}, held: map[render.Ref]string{}, blocked: map[render.Ref]string{}, ours: map[render.Ref]string{}}
}

// Run follows the branch until ctx is done.
func (r *Reconciler) Run(ctx context.Context) error {
	if err := r.declareRepository(ctx); err != nil {
		return err
	}
	if err := r.subscribe(ctx); err != nil {
		return err
	}
	heads := make(chan fetched, 1)
	done := make(chan struct{})
	ctx, cancel := context.WithCancel(ctx)
	defer func() { cancel(); <-done }()
	go func() { defer close(done); r.fetch(ctx, heads) }()
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	kinds := r.cfg.Catalog.Changed()
	var guard pace.Guard
	for {
		event := true
		select {
		case <-ctx.Done():
			return nil
		case <-kinds:
			kinds = r.cfg.Catalog.Changed()
			r.newKinds(ctx)
		case f := <-heads:
			r.arrived(ctx, f)
		case <-r.watch.notify:
			r.events()
		case <-r.replan:
			r.planAgain(ctx)
		case <-timer.C:
			event = false
		}
		head, commit, healed := r.head, r.commit, len(r.dirty)
		if err := r.step(ctx); err != nil && ctx.Err() == nil {
			return err
		}
		r.publish()
		now := time.Now()
		effect := event || head != r.head || commit != r.commit || healed != len(r.dirty)
		wake, held := guard.Next(now, now.Add(r.wait(now)), effect)
		if held {
			r.metrics.idle.Inc()
		}
		timer.Reset(wake.Sub(now))
	}
}

// publish tells previews what is not settled.
func (r *Reconciler) publish() {
	var open *[]render.Ref
	if len(r.dirty)+len(r.held) > 0 {
		refs := r.unsettled()
		open = &refs
	}
	r.open.Store(open)
}

// step does what is due: the head, then drift, then the status.
func (r *Reconciler) step(ctx context.Context) error {
	now := time.Now()
	if r.head == nil && r.refused.SHA != "" && now.Sub(r.refusedAt) >= refusedRetry {
		r.tryRefused()
	}
	if r.head != nil && r.suspended() && !r.resumed(ctx, *r.head) {
		r.retry = backoff{at: now.Add(suspendCheck)}
	}
	if r.head != nil && r.retry.due(now) {
		if err := r.do(ctx, *r.head, nil); err != nil {
			r.retry.failed(now)
			r.log.Warn("commit not applied yet", "commit", r.head.SHA, "err", err)
		} else {
			r.head, r.retry = nil, backoff{}
		}
	}
	if len(r.dirty) > 0 && r.heal.due(now) {
		if err := r.putBack(ctx); err != nil {
			r.heal.failed(now)
			r.log.Warn("drift not healed yet", "err", err)
		} else {
			r.heal = backoff{}
		}
	}
	if !r.status.IsZero() && !now.Before(r.status) {
		r.progress(ctx, now)
	}
	return ctx.Err()
}

// wait is how long nothing is due.
func (r *Reconciler) wait(now time.Time) time.Duration {
	next := now.Add(time.Hour)
	sooner := func(t time.Time) {
		if t.Before(next) {
			next = t
		}
	}
	if r.head != nil {
		sooner(r.retry.at)
	}
	if len(r.dirty) > 0 {
		sooner(r.heal.at)
	}
	if r.refused.SHA != "" {
		sooner(r.refusedAt.Add(refusedRetry))
	}
	// A deadline that has passed is no reason to look earlier than the status is
	// due: its write has failed and waits to be tried again.
	if c := r.commit; r.status.IsZero() && c != nil && c.Status.Phase == v1alpha1.CommitApplied && c.Status.AppliedTime != nil {
		r.status = c.Status.AppliedTime.Add(r.deadline())
	}
	if !r.status.IsZero() {
		sooner(r.status)
	}
	return max(next.Sub(now), time.Millisecond)
}

// events takes what the watch has seen.
func (r *Reconciler) events() {
	now := time.Now()
	for ref, p := range r.watch.take() {
		if p.changed && r.ours[ref] != p.version {
			if len(r.dirty) == 0 && r.heal.delay == 0 {
				r.heal.at = now.Add(healDelay) // gather what comes together
			}
			r.dirty[ref] = true
		}
	}
	for ref := range r.held {
		r.dirty[ref] = true // what they wait for may have become healthy
	}
	if due := now.Add(statusDelay); r.commit != nil && (r.status.IsZero() || due.Before(r.status)) {
		r.status = due
	}
}

func wrap(what string, err error) error { return fmt.Errorf("%s: %w", what, err) }
