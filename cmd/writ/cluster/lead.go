package cluster

import (
	"context"
	"fmt"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
)

// act is all that one server of a cluster does for it: controllers, scheduler,
// and what follows Git. It runs while this server leads, and is made anew each
// time.
func (p *ControlPlane) act(ctx context.Context) error {
	term := &term{Registerer: p.metrics}
	defer term.end()
	git, err := newRepository(p.cfg, p.remote, p.sandbox, p.as(identity.Reconciler), &p.catalog, term)
	if err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	p.loops(ctx, g, term)
	if p.member != nil {
		events := client.NewRecorder(p.as(identity.APIServer), "writ-members", p.member.Name)
		g.Go(func() error { return events.Run(ctx) })
		g.Go(func() error { return p.roll.KeepOut(ctx, events) })
	}
	stopped, err := p.prepareRemote(ctx, git)
	if err != nil {
		return stop(g, err)
	}
	defer stopped()
	if ctx.Err() == nil {
		p.git.Store(git)
		defer p.git.Store(nil)
		git.start(ctx, g)
	}
	p.acted.Do(func() { close(p.acting) })
	if p.member != nil {
		p.log("members").Info("this server leads")
	}
	if err := g.Wait(); err != nil {
		return fmt.Errorf("lead: %w", err)
	}
	return nil
}

// prepareRemote makes the built-in repository ready to be served by this server,
// until stopped is called.
func (p *ControlPlane) prepareRemote(ctx context.Context, git *repository) (stopped func(), err error) {
	if p.replica == nil {
		return func() {}, git.seed()
	}
	return p.replica.Lead(ctx, git.seed)
}

// term are the metrics of one time of leading, which end with it.
type term struct {
	prometheus.Registerer

	mu  sync.Mutex
	own []prometheus.Collector
}

// Register implements prometheus.Registerer.
func (t *term) Register(c prometheus.Collector) error {
	err := t.Registerer.Register(c)
	if err == nil {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.own = append(t.own, c)
	}
	return err
}

// MustRegister implements prometheus.Registerer.
func (t *term) MustRegister(all ...prometheus.Collector) {
	for _, c := range all {
		if err := t.Register(c); err != nil {
			panic(err) // as the registry does: two parts have the same name
		}
	}
}

func (t *term) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, c := range t.own {
		t.Unregister(c)
	}
}
