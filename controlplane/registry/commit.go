package registry

import (
	"context"
	"errors"

	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// maxTries bounds how often a write is done again because another one came
// between its reading and its storing.
const maxTries = 8

// transaction runs fn over the newest state and stores what it did, all or
// nothing. When another writer was faster fn runs again over the newer state:
// it must not keep anything from one run to the next.
func (g *Registry) transaction(ctx context.Context, dryRun bool, fn func(*overlay) error) error {
	for try := 1; ; try++ {
		o := newOverlay(g.store.View())
		err := g.attempt(ctx, o, dryRun, fn)
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) {
			return err
		}
		if try == maxTries {
			return conflictError(conflict.Resource, conflict.Key.Name)
		}
	}
}

func (g *Registry) attempt(ctx context.Context, o *overlay, dryRun bool, fn func(*overlay) error) error {
	fate := refused
	defer func() { g.alloc.settle(&o.claims, fate) }()
	if err := fn(o); err != nil || dryRun {
		return err
	}
	writes, entries := o.writes()
	if len(writes) == 0 {
		return nil
	}
	items, err := g.store.Txn(ctx, writes)
	if err != nil {
		if errors.Is(err, store.ErrUnknownOutcome) {
			fate = unknown
		}
		return storeError(writes, err)
	}
	fate = stored
	for i, it := range items {
		if it == nil {
			continue
		}
		switch e := entries[i]; {
		case e.object == nil && e.own:
			e.last.SetResourceVersion(it.Version.String())
		case e.object == nil:
			e.last = it.Object
		default:
			e.object = it.Object
		}
	}
	return nil
}

// one runs a transaction of one write and returns the object as stored, in the
// version of the request.
func (g *Registry) one(ctx context.Context, r *schema.Resource, dryRun bool, fn func(*overlay) (*entry, error)) (schema.Object, error) {
	var e *entry
	err := g.transaction(ctx, dryRun, func(o *overlay) error {
		var err error
		e, err = fn(o)
		return err
	})
	if err != nil {
		return nil, err
	}
	return asked(ctx, r, e.result())
}
