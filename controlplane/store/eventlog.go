package store

import (
	"fmt"
	"slices"
	"sort"
	"sync"
	"time"

	"github.com/writ-os/writ/schema"
)

// batchMax bounds one batch of a watch.
const batchMax = 512

// eventLog keeps the newest events of one resource for all its watchers.
type eventLog struct {
	res *schema.Resource
	max int

	mu      sync.Mutex
	events  []*Event // sequence numbers first .. first+len-1
	first   int64
	floor   schema.ResourceVersion // versions below cannot be resumed
	kept    schema.ResourceVersion // the same for watches that are promised every event
	through schema.ResourceVersion // every event up to here is in the log
	watches map[*Watch]struct{}
	err     error // set when the store has closed
	broken  error // why there are values that cannot be read; nil: there are none
}

func newEventLog(r *schema.Resource, max int) *eventLog {
	return &eventLog{res: r, max: max, watches: map[*Watch]struct{}{}}
}

func (l *eventLog) end() int64 { return l.first + int64(len(l.events)) }

// append adds events and wakes the watchers. It never waits for one.
func (l *eventLog) append(events []*Event, through schema.ResourceVersion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.through = through
	if len(events) == 0 {
		return
	}
	l.events = append(l.events, events...)
	// Dropping is amortised: half a log beyond the limit is copied at once.
	if len(l.events) > l.max+l.max/2 {
		l.drop(l.droppable(len(l.events) - l.max))
	}
	for w := range l.watches {
		w.signal()
	}
}

func (w *Watch) signal() {
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

// slack is how many times its size a log may grow for a watch that is behind: a
// single large transaction must not cut off everybody.
const slack = 8

// droppable reduces a number of events to drop to those that every watch has
// taken. Watches that are too far behind do not count, unless they are promised
// every event.
func (l *eventLog) droppable(n int) int {
	limit := int64(len(l.events) - slack*l.max)
	if limit > 0 {
		limit += int64(l.max / 2) // not again with the next event
	}
	for w := range l.watches {
		behind := w.pos - l.first
		if !w.keep {
			behind = max(behind, limit)
		}
		n = min(n, int(max(behind, 0)))
	}
	return n
}

// frameAge is how long the encodings of an event are kept for watchers: they get
// it in milliseconds, and whoever comes later encodes it again. Then the event is
// packed.
const frameAge = packAge

// trim drops events that are older than an age, so that an idle resource does not
// hold old objects for ever, and the encodings of those that stay.
func (l *eventLog) trim(now time.Time, age time.Duration) {
	before := now.Add(-age)
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for n < len(l.events) && l.events[n].when.Before(before) {
		n++
	}
	for w := range l.watches {
		if w.keep {
			n = min(n, int(w.pos-l.first))
		}
	}
	l.drop(n)
	for _, e := range l.events {
		if now.Sub(e.when) >= frameAge {
			e.forget()
		}
	}
}

// drop forgets the oldest n events. Others still read the old slice.
func (l *eventLog) drop(n int) {
	if n <= 0 {
		return
	}
	l.kept = l.events[n-1].Version()
	l.floor = max(l.floor, l.kept)
	l.first += int64(n)
	l.events = append(make([]*Event, 0, len(l.events)-n+64), l.events[n:]...)
}

// between returns the events after one version and up to another, and up to
// which version there are all.
func (l *eventLog) between(from, to schema.ResourceVersion) ([]*Event, schema.ResourceVersion, error) {
	events, through, err := l.part(from, to)
	if err == nil {
		events, err = unpacked(events)
	}
	return events, through, err
}

func (l *eventLog) part(from, to schema.ResourceVersion) ([]*Event, schema.ResourceVersion, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.err != nil:
		return nil, 0, l.err
	case l.broken != nil:
		return nil, 0, l.broken
	case from < l.floor:
		return nil, 0, ErrExpired
	}
	after := func(v schema.ResourceVersion) int {
		return sort.Search(len(l.events), func(i int) bool { return l.events[i].Version() > v })
	}
	return slices.Clone(l.events[after(from):max(after(from), after(to))]), l.through, nil
}

// start sets where the log begins after a load.
func (l *eventLog) start(floor, through schema.ResourceVersion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.floor, l.kept, l.through = floor, floor, through
}

// replace adds events that stand for others which nobody knows any more. It ends
// all watches but those that are promised every event: they get these.
func (l *eventLog) replace(events []*Event, through schema.ResourceVersion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.events = append(l.events, events...)
	l.floor, l.through = through, through
	for w := range l.watches {
		if !w.keep {
			w.pos = -1
		}
		w.signal()
	}
}

// fail ends the watches that could take a value that cannot be read for a
// deletion, and refuses others until fail(nil). Those that are promised every
// event go on: nothing has happened as far as they are concerned.
func (l *eventLog) fail(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.broken = err; err == nil {
		return
	}
	for w := range l.watches {
		if !w.keep {
			w.pos = -1
			w.signal()
		}
	}
}

// join adds a watch at the version it asks for.
func (l *eventLog) join(w *Watch) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return l.err
	}
	if l.broken != nil && !w.keep {
		return l.broken
	}
	if w.keep && w.from < l.kept || !w.keep && w.from < l.floor {
		return ErrExpired
	}
	w.pos = l.first + int64(sort.Search(len(l.events), func(i int) bool { return l.events[i].Version() > w.from }))
	l.watches[w] = struct{}{}
	return nil
}

func (l *eventLog) leave(w *Watch) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.watches, w)
}

// take returns the next events of a watch, none when it has seen all.
func (l *eventLog) take(w *Watch) ([]*Event, error) {
	batch, err := l.next(w)
	if err != nil {
		return nil, err
	}
	if batch, err = unpacked(batch); err != nil { // it was encoded here: it decodes
		l.mu.Lock()
		defer l.mu.Unlock()
		w.err = fmt.Errorf("%w: %w", ErrExpired, err)
		return nil, w.err
	}
	return batch, nil
}

func (l *eventLog) next(w *Watch) ([]*Event, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if w.pos < l.first {
		w.err = ErrExpired
		if l.broken != nil {
			w.err = l.broken
		}
		return nil, w.err
	}
	batch := l.events[w.pos-l.first:]
	if len(batch) == 0 && l.err != nil {
		w.err = l.err
		return nil, w.err
	}
	// A reader may be ahead: it asked for a version that comes later.
	for len(batch) > 0 && batch[0].Version() <= w.from {
		batch = batch[1:]
		w.pos++
	}
	if len(batch) > batchMax {
		batch = batch[:batchMax]
	}
	w.pos += int64(len(batch))
	w.sending = len(batch) > 0
	return batch[:len(batch):len(batch)], nil
}

func (l *eventLog) delivered(w *Watch, v schema.ResourceVersion) {
	l.mu.Lock()
	defer l.mu.Unlock()
	w.sending, w.sent = false, v
}

// close ends all watches once they have seen every event.
func (l *eventLog) close(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	for w := range l.watches {
		w.signal()
	}
}
