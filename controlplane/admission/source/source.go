// Package source holds what admission has been told to do by objects in the
// cluster - webhook configurations, policies - ready to be used, and follows
// their changes.
//
// Watches the resources of its kinds. Owns nothing. Where none of them exists a
// write costs one atomic load.
package source

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Config says what a Source follows and what it makes of it.
type Config[T any] struct {
	Cache client.Cache
	// Kinds are followed, as far as the resource table has them.
	Kinds []kschema.GroupVersionKind
	// Build makes something to use of the objects. It is called by one
	// goroutine at a time, when something has changed and the next write asks.
	Build func(client.Cache) T
}

// Source is what Build made last.
type Source[T any] struct {
	cfg   Config[T]
	count atomic.Int64 // objects that exist
	seen  atomic.Uint64
	ready atomic.Bool

	mu    sync.Mutex
	built uint64 // seen, when it was built; 0 never
	value T
}

// New returns a source; it starts nothing.
func New[T any](cfg Config[T]) *Source[T] { return &Source[T]{cfg: cfg} }

// Run follows the objects until ctx ends.
func (s *Source[T]) Run(ctx context.Context) error {
	for _, kind := range s.cfg.Kinds {
		r := schema.ByGVK(kind)
		if r == nil {
			continue
		}
		if err := s.cfg.Cache.Subscribe(ctx, r, s.observe); err != nil {
			return fmt.Errorf("subscribe to %s: %w", r, err)
		}
	}
	s.ready.Store(true)
	<-ctx.Done()
	return nil
}

func (s *Source[T]) observe(e client.Event) {
	switch e.Type {
	case client.Added:
		s.count.Add(1)
	case client.Deleted:
		s.count.Add(-1)
	}
	s.seen.Add(1)
}

// Empty says whether there is nothing to do. Before the objects have been read
// nobody knows, and Load looks for itself.
func (s *Source[T]) Empty() bool { return s.ready.Load() && s.count.Load() == 0 }

// Load returns what is to be used now.
func (s *Source[T]) Load() T {
	s.mu.Lock()
	defer s.mu.Unlock()
	ready, seen := s.ready.Load(), s.seen.Load()+1
	if !ready || s.built != seen {
		s.value, s.built = s.cfg.Build(s.cfg.Cache), seen
	}
	if !ready {
		s.built = 0
	}
	return s.value
}

// Objects returns all objects of a kind, by name; none where the resource
// table does not have the kind.
func Objects[T schema.Object](c client.Cache, kind kschema.GroupVersionKind) []T {
	r := schema.ByGVK(kind)
	if r == nil {
		return nil
	}
	list := c.List(r, "")
	out := make([]T, 0, len(list))
	for _, o := range list {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}
