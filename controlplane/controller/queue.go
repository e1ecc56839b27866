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
	waiting map[schema.Key]mark // in order, or held back by active or by a rest
	active  map[schema.Key]mark // those that a worker has
	fails   map[schema.Key]int
	loops   map[schema.Key]*loop
	timers  map[schema.Key]*timer
}

// mark is since when a key is somewhere, and whether an event brought it there:
// else its own timer did.
type mark struct {
	since time.Time
	event bool
}

// timer brings a key back later.
type timer struct {
	*time.Timer
	at time.Time
}

func newQueue() *queue {
	q := &queue{
		waiting: map[schema.Key]mark{},
		active:  map[schema.Key]mark{},
		fails:   map[schema.Key]int{},
		loops:   map[schema.Key]*loop{},
		timers:  map[schema.Key]*timer{},
	}
	q.wake = sync.NewCond(&q.mu)
	return q
}

// add lets a worker have the key as soon as one is free, for an event.
func (q *queue) add(key schema.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(key, true)
}

// look is add without an event.
func (q *queue) look(key schema.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addLocked(key, false)
}

func (q *queue) addLocked(key schema.Key, event bool) {
	if q.closed {
		return
	}
	if m, ok := q.waiting[key]; ok {
		q.waiting[key] = mark{m.since, m.event || event}
		return
	}
	q.waiting[key] = mark{time.Now(), event}
	q.metrics.added()
	if _, ok := q.active[key]; !ok { // else done lets it enter
		q.enter(key)
	}
}

// enter puts a waiting key in order, now or after the rest that it needs.
func (q *queue) enter(key schema.Key) {
	rest := q.loops[key].rest(time.Now())
	if rest <= 0 {
		q.order = append(q.order, key)
		q.metrics.setDepth(len(q.order))
		q.wake.Signal()
		return
	}
	q.metrics.rested()
	time.AfterFunc(rest, func() {
		q.mu.Lock()
		defer q.mu.Unlock()
		if _, ok := q.waiting[key]; ok && !q.closed {
			q.order = append(q.order, key)
			q.metrics.setDepth(len(q.order))
			q.wake.Signal()
		}
	})
}

// addAfter adds the key later; of several times the earliest counts.
func (q *queue) addAfter(key schema.Key, d time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addAfterLocked(key, d)
}

func (q *queue) addAfterLocked(key schema.Key, d time.Duration) {
	if d <= 0 {
		q.addLocked(key, false)
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
	q.addLocked(key, false)
}

// again adds the key when its round, which went well, has asked for: at once
// where that is past. A key that asks for another round again and again, has
// written nothing and heard of nothing, is held back; held says so.
func (q *queue) again(key schema.Key, d time.Duration, wrote bool) (held bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	effect := wrote || q.active[key].event || q.waiting[key].event
	now := time.Now()
	wake, held := q.loop(key).guard.Next(now, now.Add(d), effect)
	if held {
		q.metrics.idled()
	}
	q.addAfterLocked(key, wake.Sub(now))
	return held
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
	m := q.waiting[key]
	delete(q.waiting, key)
	now := time.Now()
	q.active[key] = mark{now, m.event}
	q.loop(key).busy.Begin(now)
	q.metrics.setDepth(len(q.order))
	q.metrics.waited(now.Sub(m.since))
	return key, true
}

// done gives the key back; added in between, it is in order again.
func (q *queue) done(key schema.Key) {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	q.metrics.worked(now.Sub(q.active[key].since))
	delete(q.active, key)
	q.loop(key).busy.End(now)
	if _, ok := q.waiting[key]; ok {
		q.enter(key)
	}
}

// running returns how long the keys in hand have been worked on: the sum, and
// the longest.
func (q *queue) running() (sum, longest time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, m := range q.active {
		d := time.Since(m.since)
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
