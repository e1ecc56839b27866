package receive

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/writ-os/writ/reconciler/source/pack"
)

// collectEvery is how often garbage is collected, and collectAgain how long
// after a try that found the repository in use.
const (
	collectEvery = 6 * time.Hour
	collectAgain = 10 * time.Minute
)

// Run collects garbage and keeps the mirrors until ctx is done. Pushes are
// served without it.
func (r *Remote) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { r.warm(ctx); return nil })
	for name := range r.repos {
		g.Go(func() error { return r.collectForever(ctx, name) })
	}
	g.Go(func() error { return r.keepMirrors(ctx) })
	return g.Wait()
}

func (r *Remote) collectForever(ctx context.Context, name string) error {
	wait := collectEvery
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Duration(float64(wait) * (0.9 + 0.2*rand.Float64()))):
		}
		done, err := r.GC(ctx, name)
		wait = collectEvery
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, ErrBusy):
			wait = collectAgain
		case err != nil:
			r.cfg.Log.WarnContext(ctx, "garbage not collected", "repository", name, "err", err)
		case done != (Collected{}):
			r.cfg.Log.InfoContext(ctx, "garbage collected", "repository", name, "objects", done.Objects, "packs", done.Packs, "loose", done.Loose, "bytes", done.Bytes)
		}
	}
}

// warm has a child ready for the push that comes.
func (r *Remote) warm(ctx context.Context) { r.cfg.Sandbox.Warm(ctx, pack.Pool) }
