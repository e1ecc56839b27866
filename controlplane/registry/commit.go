package registry

import (
	"context"
	"errors"

	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// maxTries bounds how often a write is done again because another one came
// between its reading and its storing.
const maxTries = 8

// transaction runs fn over the newest state and stores what it did, all or
// nothing. When another writer was faster fn runs again over the newer state:
// it must not keep anything from one run to the next.
//
// Conflicts over an object that admission writes besides, the quota of a
// namespace say, do not count: every write of the namespace meets there, and
// each that fails has lost to one that did not. Those that have lost wait for
// each other.
func (g *Registry) transaction(ctx context.Context, dryRun bool, fn func(*overlay) error) error {
	var leave func()
	defer func() {
		if leave != nil {
			leave()
		}
	}()
	if u, _ := request.UserFrom(ctx); !inProcess(u) {
		// A client may have seen what another server has stored. Parts of this
		// process have seen this copy, and what is not so any more conflicts.
		if err := g.current(ctx); err != nil {
			return err
		}
	}
	for try := 1; ; {
		o := newOverlay(g.store.View())
		o.fields = g.fields
		err := g.attempt(ctx, o, dryRun, fn)
		var conflict *store.ConflictError
		if !errors.As(err, &conflict) {
			return err
		}
		k := entryKey{conflict.Resource.Stored(), conflict.Key}
		switch e := o.byKey[k]; {
		case e != nil && e.also && ctx.Err() == nil:
			if leave == nil { // one queue at most, so that nobody waits in a circle
				leave = g.queues.enter(k)
			}
		case try == maxTries:
			return conflictError(conflict.Resource, conflict.Key.Name)
		default:
			try++
		}
	}
}

func (g *Registry) attempt(ctx context.Context, o *overlay, dryRun bool, fn func(*overlay) error) error {
	defer func() { g.alloc.settle(&o.claims) }()
	if err := fn(o); err != nil || dryRun {
		return err
	}
	writes, entries := o.writes()
	if len(writes) == 0 {
		return nil
	}
	items, err := g.store.Txn(ctx, writes)
	if err != nil {
		return storeError(writes, err)
	}
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
	if err := g.writable(r); err != nil {
		return nil, err
	}
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
