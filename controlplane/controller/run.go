package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Config is what runs a reconciler.
type Config struct {
	// Name is the controller's name in logs and metrics.
	Name       string
	Reconciler Reconciler
	Watches    []Watch
	Cache      client.Cache
	// Custom says which events of a custom resource (its stored row) wake which
	// keys, for reconcilers that look at all there are. They come and go with
	// Catalog. May be nil.
	Custom  func(stored *schema.Resource) Watch
	Catalog *schema.Live
	// Look is the mean time between two looks at all objects of the first watch,
	// for the wake that was missed. Default 15 minutes; negative: never.
	Look time.Duration
	// Workers is how many keys are reconciled at a time. Default 1.
	Workers int
	Log     *slog.Logger
	// Metrics may be nil.
	Metrics *Metrics
}

// Controller runs one reconciler.
type Controller struct {
	cfg     Config
	queue   *queue
	metrics *controllerMetrics
}

// New returns a controller; it starts nothing.
func New(cfg Config) *Controller {
	if cfg.Workers < 1 {
		cfg.Workers = 1
	}
	if cfg.Look == 0 {
		cfg.Look = lookPeriod
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	cfg.Log = cfg.Log.With("controller", cfg.Name)
	q := newQueue()
	q.metrics = cfg.Metrics.queue(cfg.Name, q.running)
	return &Controller{cfg: cfg, queue: q, metrics: cfg.Metrics.controller(cfg.Name)}
}

// Name returns the controller's name.
func (c *Controller) Name() string { return c.cfg.Name }

// Enqueue asks for a reconcile of a key without an event.
func (c *Controller) Enqueue(key schema.Key) { c.queue.add(key) }

// Run subscribes to the watches and reconciles until ctx is done.
func (c *Controller) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	c.queue.closeWhen(ctx)
	for range c.cfg.Workers {
		g.Go(func() error {
			c.work(ctx)
			return nil
		})
	}
	for _, w := range c.cfg.Watches {
		if err := c.cfg.Cache.Subscribe(ctx, w.Resource, func(ev client.Event) { c.wake(w, ev) }); err != nil && ctx.Err() == nil {
			g.Go(func() error { return fmt.Errorf("%s: watch %s: %w", c.cfg.Name, w.Resource, err) })
			break
		}
	}
	if c.cfg.Custom != nil {
		g.Go(func() error { return c.followCatalog(ctx) })
	}
	if c.cfg.Look > 0 {
		g.Go(func() error {
			c.lookAgain(ctx)
			return nil
		})
	}
	return g.Wait()
}

// followCatalog subscribes to the custom resources that are served, and leaves
// those that no longer are.
func (c *Controller) followCatalog(ctx context.Context) error {
	following := map[*schema.Resource]context.CancelFunc{}
	for {
		changed := c.cfg.Catalog.Changed()
		now := c.cfg.Catalog.Load()
		for r, leave := range following {
			if now.Served(r) == nil {
				leave()
				delete(following, r)
			}
		}
		for _, r := range now.Custom() {
			stored := r.Stored()
			if following[stored] != nil {
				continue
			}
			inner, leave := context.WithCancel(ctx)
			w := c.cfg.Custom(stored)
			if err := c.cfg.Cache.Subscribe(inner, stored, func(ev client.Event) { c.wake(w, ev) }); err != nil {
				leave() // it is gone again, or not there yet: the next change tells
				c.cfg.Log.Debug("watch custom resource", "resource", stored.String(), "err", err)
				continue
			}
			following[stored] = leave
		}
		select {
		case <-ctx.Done():
			for _, leave := range following {
				leave()
			}
			return nil
		case <-changed:
		}
	}
}

// wake queues the keys that an event concerns.
func (c *Controller) wake(w Watch, ev client.Event) {
	for _, key := range w.keys(ev) {
		c.queue.add(key)
	}
}

func (w Watch) keys(ev client.Event) []schema.Key {
	if w.Map == nil {
		return []schema.Key{schema.KeyOf(ev.Object)}
	}
	return w.Map(ev)
}

func (c *Controller) work(ctx context.Context) {
	for {
		key, ok := c.queue.get()
		if !ok {
			return
		}
		c.reconcile(ctx, key)
		c.queue.done(key)
	}
}

// reconcile asks once and decides when to ask again.
func (c *Controller) reconcile(ctx context.Context, key schema.Key) {
	end := c.metrics.begin()
	noting, wrote := withEffect(ctx)
	res, err := c.guarded(noting, key)
	switch {
	case err == nil && res.RequeueAfter != 0:
		end("requeue_after")
		c.queue.forget(key)
		if c.queue.again(key, res.RequeueAfter, wrote.Load()) {
			c.cfg.Log.Debug("reconcile without effect held back", "key", key.String())
		}
	case err == nil:
		end("success")
		c.queue.forget(key)
	case ctx.Err() != nil:
		end("success") // the process ends; not the reconciler's failure
	case errors.Is(err, ErrTerminal):
		end("error")
		c.metrics.terminal()
		c.queue.forget(key)
		c.cfg.Log.Error("reconcile failed for good", "key", key.String(), "err", err)
	default:
		end("error")
		c.queue.retry(key)
		c.cfg.Log.Log(ctx, level(err), "reconcile failed", "key", key.String(), "err", err)
	}
}

// level is lower for the conflicts of daily life, which the retry mends, and for
// what Git keeps, which it does not.
func level(err error) slog.Level {
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) || apierrors.HasStatusCause(err, "NamespaceTerminating") || apierrors.HasStatusCause(err, v1alpha1.DeclaredCause) {
		return slog.LevelDebug
	}
	return slog.LevelWarn
}

// guarded turns a panic into an error: one bad object must not take down the
// control plane with all others.
func (c *Controller) guarded(ctx context.Context, key schema.Key) (res Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			c.metrics.panicked()
			err = fmt.Errorf("panic: %v\n%s", p, debug.Stack())
		}
	}()
	return c.cfg.Reconciler.Reconcile(ctx, key)
}
