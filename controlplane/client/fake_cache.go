package client

import (
	"context"

	"github.com/writ-os/writ/schema"
)

// Cache implements Backend: the state itself, without lag.
func (f *Fake) Cache() Cache { return fakeCache{f} }

type fakeCache struct{ f *Fake }

type fakeSub struct {
	resource *schema.Resource
	fn       func(Event)
	from     uint64 // changes up to here were part of the initial events
}

func (c fakeCache) Get(r *schema.Resource, key schema.Key) (schema.Object, bool) {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	o, ok := c.f.objects[r][key]
	return o, ok
}

func (c fakeCache) List(r *schema.Resource, namespace string) []schema.Object {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	return c.f.selectLocked(r, ListOptions{Namespace: namespace})
}

func (c fakeCache) Index(r *schema.Resource, index, value string) []schema.Object {
	c.f.mu.Lock()
	defer c.f.mu.Unlock()
	var out []schema.Object
	for _, o := range c.f.objects[r] {
		if IndexValue(o, index) == value {
			out = append(out, o)
		}
	}
	sortByKey(out)
	return out
}

// Subscribe implements Cache. Later events come from the goroutine that
// writes, before its call returns.
func (c fakeCache) Subscribe(ctx context.Context, r *schema.Resource, fn func(Event)) error {
	f := c.f
	f.mu.Lock()
	initial := f.selectLocked(r, ListOptions{})
	sub := &fakeSub{resource: r, fn: fn, from: f.version}
	f.mu.Unlock()
	for _, o := range initial {
		fn(Event{Type: Added, Object: o})
	}
	for missed := f.catchUp(sub); len(missed) > 0; missed = f.catchUp(sub) {
		for _, ev := range missed {
			fn(ev)
		}
	}
	context.AfterFunc(ctx, func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.subs, sub)
	})
	return ctx.Err()
}

// catchUp returns what was stored since the subscription was last shown something,
// for it to be shown without the lock: it may look into the cache. When there is
// nothing more, the subscription is one like the others.
func (f *Fake) catchUp(sub *fakeSub) []Event {
	f.mu.Lock()
	defer f.mu.Unlock()
	var events []Event
	for _, c := range f.history {
		if ev, ok := selected(c, ListOptions{}); ok && c.resource == sub.resource && c.version > sub.from {
			events = append(events, ev)
		}
	}
	sub.from = f.version
	if len(events) == 0 {
		f.subs[sub] = struct{}{}
	}
	return events
}

// drain shows committed changes to the subscribers, in order. The first writer
// to come does it for all, so that a subscriber is never called twice at once.
func (f *Fake) drain() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.draining {
		return
	}
	f.draining = true
	for len(f.undrained) > 0 {
		c := f.undrained[0]
		f.undrained = f.undrained[1:]
		ev, ok := selected(c, ListOptions{})
		if !ok {
			continue
		}
		subs := make([]*fakeSub, 0, len(f.subs))
		for s := range f.subs {
			if s.resource == c.resource && c.version > s.from {
				subs = append(subs, s)
			}
		}
		f.mu.Unlock()
		for _, s := range subs {
			s.fn(ev)
		}
		f.mu.Lock()
	}
	f.draining = false
}
