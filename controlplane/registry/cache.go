package registry

import (
	"context"
	"errors"
	"fmt"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// cache is the store's own copy as a client.Cache: nothing is held twice.
// Objects are in the version in which they are stored. A subscription to a
// custom resource ends when its definition goes; who comes after must subscribe
// again.
type cache struct{ g *Registry }

var _ client.Cache = cache{}

// Cache implements client.Backend.
func (g *Registry) Cache() client.Cache { return cache{g} }

// Get implements client.Cache.
func (c cache) Get(r *schema.Resource, key schema.Key) (schema.Object, bool) {
	it := c.g.store.Get(r, key)
	if it == nil {
		return nil, false
	}
	return it.Object, true
}

// List implements client.Cache.
func (c cache) List(r *schema.Resource, namespace string) []schema.Object {
	s := c.g.store.Snapshot(r)
	if namespace != "" {
		return collect(s.Namespace(namespace))
	}
	out := make([]schema.Object, 0, s.Len())
	for it := range s.All() {
		out = append(out, it.Object)
	}
	return out
}

// Changed is the version of the newest change of a resource.
func (c cache) Changed(r *schema.Resource) schema.ResourceVersion {
	return c.g.store.Snapshot(r).Changed()
}

// Index implements client.Cache.
func (c cache) Index(r *schema.Resource, index, value string) []schema.Object {
	return collect(c.g.store.Snapshot(r).Index(index, value))
}

// Subscribe implements client.Cache.
func (c cache) Subscribe(ctx context.Context, r *schema.Resource, fn func(client.Event)) error {
	select {
	case <-c.g.store.Ready():
	case <-ctx.Done():
		return ctx.Err()
	}
	follow := func(from schema.ResourceVersion) (feed, error) { return c.g.store.Follow(r, from) }
	s := c.g.store.Snapshot(r)
	w, err := follow(s.Version())
	if err != nil {
		return fmt.Errorf("subscribe to %v: %w", r, err)
	}
	for it := range s.All() {
		fn(client.Event{Type: client.Added, Object: it.Object})
	}
	go func() {
		// Nobody waits for this goroutine, and a controller that hears nothing
		// more looks like one with nothing to do: the process must not outlive it.
		if err := deliver(ctx, w, s.Version(), follow, fn); err != nil {
			panic(fmt.Sprintf("registry: subscription to %v lost: %v", r, err))
		}
	}()
	return nil
}

// feed is the part of a store.Watch that a subscription reads.
type feed interface {
	Events() <-chan []*store.Event
	Err() error
	Stop()
}

// deliver calls fn for the events of a feed until ctx is done or the store has
// closed. A feed that ends before is followed again after the last event that
// fn got; deliver fails when events after it are gone.
func deliver(ctx context.Context, w feed, from schema.ResourceVersion, follow func(schema.ResourceVersion) (feed, error), fn func(client.Event)) error {
	for {
		from = drain(ctx, w, from, fn)
		ended := w.Err()
		w.Stop()
		if ctx.Err() != nil || over(ended) {
			return nil
		}
		var err error
		if w, err = follow(from); over(err) {
			return nil
		} else if err != nil {
			return fmt.Errorf("follow from %v again, after %w: %w", from, ended, err)
		}
	}
}

// drain calls fn for the events of one feed until it ends or ctx is done, and
// returns the version of the last.
func drain(ctx context.Context, w feed, from schema.ResourceVersion, fn func(client.Event)) schema.ResourceVersion {
	for {
		select {
		case batch, ok := <-w.Events():
			if !ok {
				return from
			}
			for _, e := range batch {
				if ctx.Err() != nil {
					return from
				}
				fn(event(e))
				from = e.Version()
			}
		case <-ctx.Done():
			return from
		}
	}
}

// over says that there will be no more events: the store has closed, or the
// definition of the resource is gone.
func over(err error) bool {
	return errors.Is(err, store.ErrClosed) || errors.Is(err, store.ErrNotKept)
}

func event(e *store.Event) client.Event {
	ev := client.Event{Type: client.EventType(e.Type), Object: e.Item.Object}
	if e.Prev != nil {
		ev.Old = e.Prev.Object
	}
	return ev
}
