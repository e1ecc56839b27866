package reconciler

import (
	"context"
	"time"
)

// backoff paces repeated failures.
type backoff struct {
	delay time.Duration
	at    time.Time
}

func (b *backoff) due(now time.Time) bool { return !now.Before(b.at) }

func (b *backoff) failed(now time.Time) {
	b.delay = min(max(2*b.delay, minRetry), maxRetry)
	b.at = now.Add(b.delay)
}

// fetched is what came of asking the source.
type fetched struct {
	commit Commit
	err    error
}

// fetch asks the source when it says that there may be something new, and
// again after a failure. Only the newest answer waits to be taken.
func (r *Reconciler) fetch(ctx context.Context, out chan fetched) {
	var b backoff
	for {
		c, err := r.cfg.Source.Fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		select {
		case <-out: // an older answer that nobody took
		default:
		}
		out <- fetched{c, err}
		var again <-chan time.Time
		if err != nil {
			b.failed(time.Now())
			again = time.After(b.delay)
		} else {
			b = backoff{}
		}
		select {
		case <-ctx.Done():
			return
		case <-r.cfg.Source.Changed():
		case <-again:
		}
	}
}

// arrived takes an answer of the source.
func (r *Reconciler) arrived(ctx context.Context, f fetched) {
	if f.err != nil {
		r.metrics.fetchErrors.Inc()
		r.log.Warn("repository not read", "err", f.err)
		r.repositoryFailed(ctx, f.err)
		if r.commit == nil && r.head == nil && f.commit.SHA != "" && !r.rejected(f.commit.SHA) {
			r.head, r.retry = &f.commit, backoff{} // the last clone serves while the remote is away
			return
		}
		if err := r.resume(ctx); err != nil {
			r.log.Warn("applied commit not followed", "err", err)
		}
		return
	}
	if r.commit != nil && r.commit.Spec.SHA == f.commit.SHA && r.head == nil {
		r.repositoryReady(ctx, f.commit.SHA)
		return
	}
	if r.rejected(f.commit.SHA) {
		if err := r.stay(ctx, f.commit.SHA); err != nil {
			r.log.Warn("applied commit not followed", "err", err)
		}
		return
	}
	if r.head == nil || r.head.SHA != f.commit.SHA {
		r.head, r.retry = &f.commit, backoff{}
	}
}
