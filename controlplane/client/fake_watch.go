package client

import (
	"context"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/schema"
)

// Compact forgets the history: watches that resume from before now expire.
func (f *Fake) Compact() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.history, f.compacted = nil, f.version
}

// Hold stops the delivery of events to watches until Release, as a slow
// network does.
func (f *Fake) Hold() { f.setHeld(true) }

// Release delivers what Hold held back.
func (f *Fake) Release() { f.setHeld(false) }

func (f *Fake) setHeld(held bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.held = held
	for w := range f.watchers {
		w.wake()
	}
}

// Break ends every open watch, as a restart of the server does.
func (f *Fake) Break() {
	f.mu.Lock()
	watchers := f.watchers
	f.watchers = map[*fakeWatcher]struct{}{}
	f.mu.Unlock()
	for w := range watchers {
		w.Stop()
	}
}

// Watch implements Reader.
func (f *Fake) Watch(ctx context.Context, r *schema.Resource, o WatchOptions) (Watcher, error) {
	ctx, cancel := context.WithCancel(ctx)
	w := &fakeWatcher{fake: f, resource: r, options: o, cancel: cancel, events: make(chan Event), ready: make(chan struct{}, 1)}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := w.begin(); err != nil {
		cancel()
		return nil, err
	}
	f.watchers[w] = struct{}{}
	go w.run(ctx)
	return w, nil
}

// fakeWatcher queues changes without bound and hands them out one by one.
type fakeWatcher struct {
	fake     *Fake
	resource *schema.Resource
	options  WatchOptions
	cancel   context.CancelFunc
	events   chan Event
	ready    chan struct{}
	queue    []Event // guarded by fake.mu
}

// begin queues the initial events, or the history since a version.
func (w *fakeWatcher) begin() error {
	if w.options.ResourceVersion == "" {
		for _, o := range w.fake.selectLocked(w.resource, w.options.ListOptions) {
			w.queue = append(w.queue, Event{Type: Added, Object: o})
		}
		mark := w.resource.New()
		mark.SetResourceVersion(formatVersion(w.fake.version))
		w.queue = append(w.queue, Event{Type: Bookmark, Object: mark, InitialEventsEnd: true})
		w.wake()
		return nil
	}
	from, err := schema.ParseResourceVersion(w.options.ResourceVersion)
	if err != nil {
		return apierrors.NewBadRequest(err.Error())
	}
	if uint64(from) < w.fake.compacted {
		return apierrors.NewResourceExpired("too old resource version: " + w.options.ResourceVersion)
	}
	for _, c := range w.fake.history {
		if c.version > uint64(from) {
			w.push(c)
		}
	}
	return nil
}

// push queues a change as the watch's selectors see it.
func (w *fakeWatcher) push(c change) {
	if c.resource != w.resource {
		return
	}
	if ev, ok := selected(c, w.options.ListOptions); ok {
		w.queue = append(w.queue, ev)
		w.wake()
	}
}

// selected turns a change into the event that a selection sees: an object
// that begins to match is added, one that ceases to is deleted.
func selected(c change, o ListOptions) (Event, bool) {
	was := c.old != nil && matches(c.old, o)
	is := !c.deleted && matches(c.next, o)
	switch {
	case is && was:
		return Event{Type: Modified, Object: c.next, Old: c.old}, true
	case is:
		return Event{Type: Added, Object: c.next}, true
	case was:
		last := deepCopy(c.old)
		last.SetResourceVersion(c.next.GetResourceVersion())
		return Event{Type: Deleted, Object: last, Old: c.old}, true
	}
	return Event{}, false
}

func (w *fakeWatcher) wake() {
	select {
	case w.ready <- struct{}{}:
	default:
	}
}

// next takes the first event of the queue.
func (w *fakeWatcher) next() (Event, bool) {
	w.fake.mu.Lock()
	defer w.fake.mu.Unlock()
	if w.fake.held || len(w.queue) == 0 {
		return Event{}, false
	}
	ev := w.queue[0]
	w.queue = slices.Delete(w.queue, 0, 1)
	return ev, true
}

func (w *fakeWatcher) run(ctx context.Context) {
	defer close(w.events)
	defer w.forget()
	for {
		ev, ok := w.next()
		if !ok {
			select {
			case <-w.ready:
				continue
			case <-ctx.Done():
				return
			}
		}
		select {
		case w.events <- ev:
		case <-ctx.Done():
			return
		}
	}
}

func (w *fakeWatcher) forget() {
	w.fake.mu.Lock()
	defer w.fake.mu.Unlock()
	delete(w.fake.watchers, w)
}

// Events implements Watcher.
func (w *fakeWatcher) Events() <-chan Event { return w.events }

// Stop implements Watcher.
func (w *fakeWatcher) Stop() { w.cancel() }
