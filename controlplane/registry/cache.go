package registry

import (
	"context"
	"fmt"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// cache is the store's own copy as a client.Cache: nothing is held twice.
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
	s := c.g.store.Snapshot(r)
	w, err := c.g.store.Follow(r, s.Version())
	if err != nil {
		return fmt.Errorf("subscribe to %v: %w", r, err)
	}
	for it := range s.All() {
		fn(client.Event{Type: client.Added, Object: it.Object})
	}
	go func() {
		defer w.Stop()
		for {
			select {
			case batch, ok := <-w.Events():
				if !ok {
					return
				}
				for _, e := range batch {
					if ctx.Err() != nil {
						return
					}
					fn(event(e))
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return nil
}

func event(e *store.Event) client.Event {
	ev := client.Event{Type: client.EventType(e.Type), Object: e.Item.Object}
	if e.Prev != nil {
		ev.Old = e.Prev.Object
	}
	return ev
}
