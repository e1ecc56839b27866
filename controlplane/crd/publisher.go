package crd

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/custom"
)

// Store is the part of the store that keeps the objects of definitions.
type Store interface {
	Add(ctx context.Context, r *schema.Resource) error
	Remove(ctx context.Context, r *schema.Resource) error
}

// Config is what a Publisher needs from outside.
type Config struct {
	// Client reads and writes definitions and instances, as a part of the
	// server.
	Client client.Interface
	// Cache is the server's own copy of all resources.
	Cache client.Cache
	Store Store
	// Catalog is where the rows are published.
	Catalog *schema.Live
	// Webhooks converts between versions. Default: none can be called.
	Webhooks *Webhooks
	Log      *slog.Logger
	// Idle is after which time without use compiled schemas are dropped.
	// Default 10 m.
	Idle time.Duration
	// Retry is the pause after a failure and between two looks at instances
	// that are being deleted. Default 500 ms.
	Retry time.Duration
}

// Publisher keeps catalog, store and the status of definitions in step with the
// definitions.
type Publisher struct {
	cfg   Config
	log   *slog.Logger
	crds  *schema.Resource
	wake  chan struct{}
	ready chan struct{}
	once  sync.Once // closes ready

	// The rest belongs to the goroutine of Run.
	served    map[types.UID]*served
	finishing map[types.UID]bool
	finished  chan types.UID
}

// served is a definition that is served.
type served struct {
	def  *apiextensionsv1.CustomResourceDefinition
	rows *custom.Rows
}

// New returns a publisher; it starts nothing.
func New(cfg Config) *Publisher {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Idle == 0 {
		cfg.Idle = 10 * time.Minute
	}
	if cfg.Retry == 0 {
		cfg.Retry = 500 * time.Millisecond
	}
	return &Publisher{
		cfg: cfg, log: cfg.Log.With("controller", "crd"),
		crds:  schema.ResourceFor[*apiextensionsv1.CustomResourceDefinition](),
		wake:  make(chan struct{}, 1),
		ready: make(chan struct{}),

		served: map[types.UID]*served{}, finishing: map[types.UID]bool{}, finished: make(chan types.UID),
	}
}

// Ready is closed when all definitions that were established before are served.
func (p *Publisher) Ready() <-chan struct{} { return p.ready }

// Run publishes until ctx is done.
func (p *Publisher) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if err := p.cfg.Cache.Subscribe(ctx, p.crds, func(client.Event) { p.poke() }); err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return fmt.Errorf("watch definitions: %w", err)
	}
	g.Go(func() error { return p.loop(ctx, g) })
	return g.Wait()
}

// poke asks for another look at the definitions.
func (p *Publisher) poke() {
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

func (p *Publisher) loop(ctx context.Context, g *errgroup.Group) error {
	idle := time.NewTicker(p.cfg.Idle / 4)
	defer idle.Stop()
	retry := time.NewTimer(0)
	defer retry.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case uid := <-p.finished:
			delete(p.finishing, uid)
		case <-idle.C:
			for _, s := range p.served {
				s.rows.Release(time.Now().Add(-p.cfg.Idle))
			}
			continue
		case <-retry.C:
		case <-p.wake:
		}
		err := p.step(ctx, g)
		if err != nil && ctx.Err() == nil {
			p.log.Warn("definitions are not all served; trying again", "err", err, "after", p.cfg.Retry)
			retry.Reset(p.cfg.Retry)
			continue
		}
	}
}

// step looks at all definitions once. An error says that some of it did not
// work and is worth another try.
func (p *Publisher) step(ctx context.Context, g *errgroup.Group) error {
	// Read.
	var defs []*apiextensionsv1.CustomResourceDefinition
	for _, o := range p.cfg.Cache.List(p.crds, "") {
		if def, ok := o.(*apiextensionsv1.CustomResourceDefinition); ok {
			defs = append(defs, def)
		}
	}

	// Decide.
	next := decide(defs, time.Now())

	// Act: serve first, so that a status never says what is not so.
	err := p.serve(ctx, next)
	if err == nil {
		p.once.Do(func() { close(p.ready) })
	}
	errs := []error{err}
	for i, def := range next {
		if def != defs[i] {
			errs = append(errs, p.writeStatus(ctx, def))
			continue // its event brings us back
		}
		if mustFinish(def) && !p.finishing[def.UID] {
			p.finishing[def.UID] = true
			s := p.served[def.UID]
			g.Go(func() error { return p.finish(ctx, def, s) })
		}
	}
	return errors.Join(errs...)
}
