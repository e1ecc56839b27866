package scheduler

import (
	"container/heap"
	"slices"
	"time"

	"github.com/writ-os/writ/schema"
)

// Back-off of a pod that could not be scheduled, as upstream.
const (
	backoffStart = time.Second
	backoffMax   = 10 * time.Second
	// stale is how long a pod stays unschedulable at most without being tried
	// again, in case an event was not understood.
	stale = 5 * time.Minute
)

// waiting is a pod that has no node yet.
type waiting struct {
	*podInfo
	since    time.Time // when it came to the queue
	attempts int
	// condition is the message of the PodScheduled condition written last.
	condition string
	// slot is the node with the room for which it was woken.
	slot *nodeInfo

	place place
	until time.Time // end of back-off, or when unschedulable becomes stale
	index int       // in its heap
	seq   uint64
}

// place is where in the queue a pod is.
type place int

const (
	nowhere       place = iota // popped, or gone
	active                     // to be tried now
	backingOff                 // to be tried when until has come
	unschedulable              // to be tried when something changes
)

// queue holds the pods that wait. It has no clock: callers say when it is. One
// goroutine owns it.
type queue struct {
	pods    map[schema.Key]*waiting
	active  podHeap // by priority, then by age
	delayed podHeap // backingOff and unschedulable, by until
	seq     uint64
}

func newQueue() *queue {
	return &queue{
		pods:    map[schema.Key]*waiting{},
		active:  podHeap{before: moreUrgent},
		delayed: podHeap{before: sooner},
	}
}

func moreUrgent(a, b *waiting) bool {
	if a.priority != b.priority {
		return a.priority > b.priority
	}
	if !a.since.Equal(b.since) {
		return a.since.Before(b.since)
	}
	return a.seq < b.seq
}

func sooner(a, b *waiting) bool { return a.until.Before(b.until) }

// add puts a pod into the queue, or its new state in the place of the old: a
// pod that has changed is tried again at once.
func (q *queue) add(p *podInfo, now time.Time) {
	w := q.pods[p.key]
	if w == nil {
		q.seq++
		w = &waiting{since: now, seq: q.seq}
		q.pods[p.key] = w
	} else if w.pod.UID != p.pod.UID {
		q.remove(p.key)
		q.add(p, now)
		return
	}
	q.leave(w)
	w.podInfo = p
	q.enter(w, active, time.Time{})
}

// remove forgets a pod.
func (q *queue) remove(key schema.Key) {
	if w := q.pods[key]; w != nil {
		q.leave(w)
		delete(q.pods, key)
	}
}

// pop takes the most urgent pod out; nil when none is to be tried now. It stays
// known to the queue until done, refused or retry says what became of it.
func (q *queue) pop(now time.Time) *waiting {
	for len(q.delayed.items) > 0 && !q.delayed.items[0].until.After(now) {
		w := q.delayed.items[0]
		q.leave(w)
		q.enter(w, active, time.Time{})
	}
	if len(q.active.items) == 0 {
		return nil
	}
	w := q.active.items[0]
	q.leave(w)
	w.attempts++
	return w
}

// done forgets a pod that has got a node.
func (q *queue) done(w *waiting) {
	if q.pods[w.key] == w {
		q.leave(w)
		delete(q.pods, w.key)
	}
}

// refused puts back a pod that no node fits, to wait for a change.
func (q *queue) refused(w *waiting, now time.Time) { q.enter(w, unschedulable, now.Add(stale)) }

// retry puts back a pod whose binding failed, to be tried after a while.
func (q *queue) retry(w *waiting, now time.Time) {
	if have := q.pods[w.key]; have != nil && have != w {
		return // a new pod of the name has come meanwhile
	}
	q.pods[w.key] = w
	q.leave(w)
	q.enter(w, backingOff, now.Add(backoff(w.attempts)))
}

// wake moves the unschedulable pods that mayFit says may be placed now and that
// get room by take, which is asked the most urgent first. They wait out the
// back-off of their attempts.
func (q *queue) wake(now time.Time, mayFit func(*podInfo) bool, take func(*waiting) bool) {
	var fitting []*waiting
	for _, w := range q.delayed.items {
		if w.place == unschedulable && mayFit(w.podInfo) {
			fitting = append(fitting, w)
		}
	}
	slices.SortFunc(fitting, func(a, b *waiting) int {
		if moreUrgent(a, b) {
			return -1
		}
		return 1
	})
	for _, w := range fitting {
		if !take(w) {
			continue
		}
		tried := w.until.Add(-stale)
		q.leave(w)
		if end := tried.Add(backoff(w.attempts)); end.After(now) {
			q.enter(w, backingOff, end)
		} else {
			q.enter(w, active, time.Time{})
		}
	}
}

// next returns when a pod that waits is to be tried; false when none will be
// without an event.
func (q *queue) next() (time.Time, bool) {
	if len(q.delayed.items) == 0 {
		return time.Time{}, false
	}
	return q.delayed.items[0].until, true
}

// count returns how many pods are at a place.
func (q *queue) count(at place) int {
	if at == active {
		return len(q.active.items)
	}
	n := 0
	for _, w := range q.delayed.items {
		if w.place == at {
			n++
		}
	}
	return n
}

func (q *queue) enter(w *waiting, at place, until time.Time) {
	w.place, w.until = at, until
	heap.Push(q.heap(at), w)
}

func (q *queue) leave(w *waiting) {
	if w.place != nowhere {
		heap.Remove(q.heap(w.place), w.index)
		w.place = nowhere
	}
}

func (q *queue) heap(at place) *podHeap {
	if at == active {
		return &q.active
	}
	return &q.delayed
}

func backoff(attempts int) time.Duration {
	d := backoffStart
	for i := 1; i < attempts && d < backoffMax; i++ {
		d *= 2
	}
	return min(d, backoffMax)
}

// podHeap implements heap.Interface.
type podHeap struct {
	items  []*waiting
	before func(a, b *waiting) bool
}

func (h *podHeap) Len() int           { return len(h.items) }
func (h *podHeap) Less(i, j int) bool { return h.before(h.items[i], h.items[j]) }
func (h *podHeap) Swap(i, j int) {
	h.items[i], h.items[j] = h.items[j], h.items[i]
	h.items[i].index, h.items[j].index = i, j
}

// Push implements heap.Interface.
func (h *podHeap) Push(x any) {
	w := x.(*waiting)
	w.index = len(h.items)
	h.items = append(h.items, w)
}

// Pop implements heap.Interface.
func (h *podHeap) Pop() any {
	last := len(h.items) - 1
	w := h.items[last]
	h.items[last] = nil
	h.items = h.items[:last]
	return w
}
