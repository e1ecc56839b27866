package client

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/schema"
)

const (
	retryFirst = 100 * time.Millisecond
	retryMost  = 15 * time.Second
	// A watch that lived this long was healthy: the next failure begins with
	// the first pause again.
	retryReset = time.Minute
)

// backoff is a growing pause between attempts.
type backoff struct {
	pause time.Duration
	since time.Time
}

// wait sleeps before the next attempt; false when ctx is done.
func (b *backoff) wait(ctx context.Context) bool {
	if b.pause == 0 || time.Since(b.since) > retryReset {
		b.pause = retryFirst
	}
	// Half of the pause is random, so that the nodes of a cluster do not all
	// come back to a restarted server at once.
	d := b.pause/2 + rand.N(b.pause/2+1)
	b.pause = min(2*b.pause, retryMost)
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		b.since = time.Now()
		return true
	}
}

// follower keeps a table in step with a server.
type follower struct {
	reader    Reader
	selection Selection
	table     *table
	log       *slog.Logger

	version string // of the last event; "" to begin anew
}

// run follows until ctx is done.
func (f *follower) run(ctx context.Context) error {
	b := backoff{since: time.Now()}
	for ctx.Err() == nil {
		err := f.follow(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case apierrors.IsResourceExpired(err) || apierrors.IsGone(err):
			f.version = ""
			f.log.Info("watch expired, begins anew")
		case err != nil:
			f.log.Warn("watch failed", "err", err)
		}
		if !b.wait(ctx) {
			return nil
		}
	}
	return nil
}

// follow runs one watch until it ends.
func (f *follower) follow(ctx context.Context) error {
	w, err := f.reader.Watch(ctx, f.selection.Resource, WatchOptions{ListOptions: f.selection.ListOptions, ResourceVersion: f.version})
	if err != nil {
		return err
	}
	defer w.Stop()
	var initial map[schema.Key]schema.Object
	if f.version == "" {
		initial = map[schema.Key]schema.Object{}
	}
	for ev := range w.Events() {
		switch ev.Type {
		case Error:
			return ev.Err
		case Bookmark:
			if ev.InitialEventsEnd && initial != nil {
				f.table.replace(initial)
				initial = nil
			}
		default:
			if initial != nil {
				collect(initial, ev)
				continue
			}
			f.table.apply(ev)
		}
		if initial == nil {
			f.version = ev.Object.GetResourceVersion()
		}
	}
	return nil
}

// collect gathers initial events.
func collect(initial map[schema.Key]schema.Object, ev Event) {
	key := schema.KeyOf(ev.Object)
	if ev.Type == Deleted {
		delete(initial, key)
		return
	}
	initial[key] = ev.Object
}
