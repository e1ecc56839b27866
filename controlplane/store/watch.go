package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/writ-os/writ/schema"
)

// Watch is a place in the log of events of one resource. It holds no queue of
// its own: a reader who falls behind the log is cut off with ErrExpired.
type Watch struct {
	log    *eventLog
	events chan []*Event
	stop   chan struct{}
	once   sync.Once
	wake   chan struct{}
	keep   bool // events must not be dropped before it has them

	// Guarded by log.mu.
	pos     int64                  // sequence number of the next event to send
	from    schema.ResourceVersion // events up to here are not sent
	sent    schema.ResourceVersion // everything up to here has been received
	sending bool
	err     error
}

// Watch returns the events of a resource after a version, in order. The
// version of a Snapshot continues that snapshot without gap. It returns
// ErrExpired when events after the version are no longer kept. The removal of
// the resource ends the watch with ErrNotKept.
func (s *Store) Watch(r *schema.Resource, from schema.ResourceVersion) (*Watch, error) {
	return s.watch(r, from, false)
}

// Follow is Watch for readers of this process that never stop reading: events
// are kept until they have received them, and never expire. When a member had to
// load its copy again, they get what has changed in place of all changes.
func (s *Store) Follow(r *schema.Resource, from schema.ResourceVersion) (*Watch, error) {
	return s.watch(r, from, true)
}

func (s *Store) watch(r *schema.Resource, from schema.ResourceVersion, keep bool) (*Watch, error) {
	select {
	case <-s.done:
		return nil, ErrClosed
	default:
	}
	sl := s.keys.Load().find(r)
	if sl == nil {
		return nil, fmt.Errorf("%w: %v", ErrNotKept, r)
	}
	w := &Watch{
		log: sl.log, from: from, sent: from, keep: keep,
		events: make(chan []*Event), stop: make(chan struct{}), wake: make(chan struct{}, 1),
	}
	if err := w.log.join(w); err != nil {
		return nil, err
	}
	s.met.watchers.Inc()
	go func() {
		defer s.met.watchers.Dec()
		w.pump(s.met)
	}()
	return w, nil
}

// publishing is how long the events of a state may come after it at most, but for
// a processor that is not given to the one who publishes.
const publishing = 100 * time.Microsecond

// Between returns the events of a resource after one version and up to another,
// which the copy has reached. It returns ErrExpired when they are no longer kept.
func (s *Store) Between(ctx context.Context, r *schema.Resource, from, to schema.ResourceVersion) ([]*Event, error) {
	sl := s.keys.Load().find(r)
	if sl == nil {
		return nil, fmt.Errorf("%w: %v", ErrNotKept, r)
	}
	for {
		events, through, err := sl.log.between(from, to)
		if err != nil || through >= to {
			return events, err
		}
		select { // the state was published just now, and its events follow
		case <-time.After(publishing):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// Events delivers batches of events, none of them empty. It is closed when the
// watch ends; Err says why.
func (w *Watch) Events() <-chan []*Event { return w.events }

// Err is why the watch ended: ErrExpired when the reader was too slow,
// ErrClosed with the store, ErrNotKept with the resource, nil after Stop or while it runs.
func (w *Watch) Err() error {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	return w.err
}

// Stop ends the watch. It may be called more than once.
func (w *Watch) Stop() { w.once.Do(func() { close(w.stop) }) }

// Progress returns a version up to which the reader has received every event:
// what a bookmark may say. Only the goroutine that reads Events may rely on it.
func (w *Watch) Progress() schema.ResourceVersion {
	w.log.mu.Lock()
	defer w.log.mu.Unlock()
	if !w.sending && w.pos == w.log.end() && w.log.through > w.sent {
		w.sent = w.log.through
	}
	return w.sent
}

// pump moves events from the log to the reader until one of them ends it.
func (w *Watch) pump(met *Metrics) {
	defer close(w.events)
	defer w.log.leave(w)
	for {
		batch, err := w.log.take(w)
		switch {
		case err != nil:
			if errors.Is(err, ErrExpired) {
				met.cutOff.Inc()
			}
			return
		case len(batch) == 0:
			select {
			case <-w.wake:
			case <-w.stop:
				return
			}
			continue
		}
		select {
		case w.events <- batch:
			w.log.delivered(w, batch[len(batch)-1].Version())
		case <-w.stop:
			return
		}
	}
}
