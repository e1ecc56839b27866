package notify

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// Bounds of a queue.
const (
	maxQueued  = 100 // messages that wait for one receiver
	firstPause = time.Second
	mostPause  = 5 * time.Minute
	// A message that is refused may pass when somebody mends the Secret, or
	// when the forge has got the commit from where it was pushed to.
	maxRefusals   = 6
	refusedPause  = 15 * time.Second
	longestEffort = 24 * time.Hour // then a message is old news
)

// queue holds the messages for one receiver, one for each commit: the newest.
// The first to come is the first to go.
type queue struct {
	n     v1alpha1.Notification
	since int64 // commits seen before are not told of
	wake  chan struct{}
	stop  func() // and wait

	mu    sync.Mutex
	items []*item
	// The receiver is not called before ready.
	ready time.Time
	fails int
}

// item is a message that waits.
type item struct {
	Message
	added    time.Time
	due      time.Time
	refusals int
}

func newQueue(n v1alpha1.Notification, since int64) *queue {
	return &queue{n: n, since: since, wake: make(chan struct{}, 1)}
}

// put adds a message, in the place of an older one of the same commit. It
// returns what had to go for it.
func (q *queue) put(m Message, now time.Time) (dropped *item) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if i := slices.IndexFunc(q.items, func(it *item) bool { return it.Commit.Name == m.Commit.Name }); i >= 0 {
		q.items[i] = &item{Message: m, added: now}
	} else {
		if len(q.items) >= maxQueued {
			dropped, q.items = q.items[0], q.items[1:]
		}
		q.items = append(q.items, &item{Message: m, added: now})
	}
	select {
	case q.wake <- struct{}{}:
	default:
	}
	return dropped
}

// next is the message that is due, or how long until one is.
func (q *queue) next(now time.Time) (*item, time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if len(q.items) == 0 {
		return nil, time.Hour
	}
	if now.Before(q.ready) {
		return nil, q.ready.Sub(now)
	}
	wait := time.Hour
	for _, it := range q.items {
		if !now.Before(it.due) {
			return it, 0
		}
		wait = min(wait, it.due.Sub(now))
	}
	return nil, wait
}

// verdict is what becomes of a message after a call.
type verdict int

const (
	arrived verdict = iota
	again
	dropped
)

// settle takes the outcome of a call, and decides when the next one is.
func (q *queue) settle(it *item, out outcome, now time.Time) verdict {
	q.mu.Lock()
	defer q.mu.Unlock()
	if out.wait > 0 {
		q.ready = now.Add(out.wait)
	}
	switch {
	case out.err == nil:
		q.fails = 0
		q.remove(it)
		return arrived
	case now.Sub(it.added) >= longestEffort:
		q.remove(it)
		return dropped
	case out.refused:
		q.fails = 0
		it.refusals++
		if it.refusals >= maxRefusals {
			q.remove(it)
			return dropped
		}
		it.due = now.Add(pause(it.refusals, refusedPause))
		return again
	}
	q.fails++
	if at := now.Add(pause(q.fails, firstPause)); at.After(q.ready) {
		q.ready = at
	}
	return again
}

// remove takes an item out, unless a newer one has its place.
func (q *queue) remove(it *item) {
	q.items = slices.DeleteFunc(q.items, func(have *item) bool { return have == it })
}

func (q *queue) len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items)
}

// failing is how often the receiver has been away in a row.
func (q *queue) failing() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.fails
}

// pause grows with the number of failures; half of it is random, so that the
// clusters of a company do not all come back at once.
func pause(fails int, first time.Duration) time.Duration {
	d := min(first<<min(fails-1, 16), mostPause)
	return d/2 + rand.N(d/2+1)
}

// wait returns when there may be something to do; false when ctx is done.
func (q *queue) wait(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-q.wake:
	case <-t.C:
	}
	return true
}
