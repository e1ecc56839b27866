package controller

import (
	"context"
	"sync"
	"time"

	"github.com/writ-os/writ/schema"
)

// The back-off of a key whose reconcile fails, as upstream has it.
const (
	backoffFirst = 5 * time.Millisecond
	backoffMost  = 1000 * time.Second
)

// queue holds the keys that wait for a worker, each once, first come first
// served. A key that is added while a worker has it waits until the worker is
// done: no key is ever in two hands.
type queue struct {
	metrics *queueMetrics

	mu      sync.Mutex
	wake    *sync.Cond
	closed  bool
	order   []schema.Key
	waiting map[schema.Key]time.Time // since when; in order, or held back by active
	active  map[schema.Key]time.Time // since when a worker has it
	fails   map[schema.Key]int
	timers  map[schema.Key]*timer
}

// timer brings a key back later.
type timer struct {
	*time.Timer
	at time.Time
}

func newQueue() *queue {
	q := &queue{
		waiting: map[schema.Key]time.Time{},
		active:  map[schema.Key]time.Time{},
		fails:   map[schema.Key]int{},
		timers:  map[schema.Key]*timer{},
	}
	q.wake = sync.NewCond(&q.mu)
	return q
}

// add lets a worker have the key as soon as one is free.
func (q *queue) add(key schema.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(key)
}

func (q *queue) addLocked(key schema.Key) {
	if q.closed {
		return
	}
	if _, ok := q.waiting[key]; ok {
		return
	}
	q.waiting[key] = time.Now()
	q.metrics.added()
	if _, ok := q.active[key]; ok {
		return // done puts it in order
	}
	q.order = append(q.order, key)
	q.metrics.setDepth(len(q.order))
	q.wake.Signal()
}

// addAfter adds the key later; of several times the earliest counts.
func (q *queue) addAfter(key schema.Key, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if d <= 0 {
		q.addLocked(key)
		return
	}
	if q.closed {
		return
	}
	at := time.Now().Add(d)
	if t := q.timers[key]; t != nil {
		if !at.Before(t.at) {
			return
		}
		t.Stop()
	}
	t := &timer{at: at}
	q.timers[key] = t
	t.Timer = time.AfterFunc(d, func() { q.expire(key, t) })
}

func (q *queue) expire(key schema.Key, t *timer) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.timers[key] != t {
		return
	}
	delete(q.timers, key)
	q.addLocked(key)
}

// retry adds the key after the back-off of its failures in a row.
func (q *queue) retry(key schema.Key) {
	q.mu.Lock()
	n := q.fails[key]
	q.fails[key] = n + 1
	q.mu.Unlock()
	q.metrics.retried()
	q.addAfter(key, backoffAfter(n))
}

// backoffAfter is the pause after n failures before this one.
func backoffAfter(n int) time.Duration {
	if n > 30 {
		return backoffMost
	}
	return min(backoffFirst<<n, backoffMost)
}

// forget ends a row of failures.
func (q *queue) forget(key schema.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	delete(q.fails, key)
}

// get waits for a key; false when the queue is closed.
func (q *queue) get() (schema.Key, bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.order) == 0 && !q.closed {
		q.wake.Wait()
	}
	if q.closed {
		return schema.Key{}, false
	}
	key := q.order[0]
	q.order = q.order[1:]
	since := q.waiting[key]
	delete(q.waiting, key)
	q.active[key] = time.Now()
	q.metrics.setDepth(len(q.order))
	q.metrics.waited(time.Since(since))
	return key, true
}

// done gives the key back; added in between, it is in order again.
func (q *queue) done(key schema.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.metrics.worked(time.Since(q.active[key]))
	delete(q.active, key)
	if _, ok := q.waiting[key]; ok {
		q.order = append(q.order, key)
		q.metrics.setDepth(len(q.order))
		q.wake.Signal()
	}
}

// running returns how long the keys in hand have been worked on: the sum, and
// the longest.
func (q *queue) running() (sum, longest time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, since := range q.active {
		d := time.Since(since)
		sum += d
		longest = max(longest, d)
	}
	return sum, longest
}

// closeWhen closes the queue when ctx is done: getters return, timers stop.
func (q *queue) closeWhen(ctx context.Context) {
	context.AfterFunc(ctx, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		q.closed = true
		for _, t := range q.timers {
			t.Stop()
		}
		q.wake.Broadcast()
	})
}
