package registry

import (
	"context"
	"errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// overlay is the cluster as a write sees it: the newest state of the store, and
// over it what the transaction has done so far. It is one goroutine's own.
type overlay struct {
	base   store.View
	order  []*entry
	byKey  map[entryKey]*entry
	claims claims
	fields *fieldManagers // nil: what admission writes besides has no owners
	// leaving is what the transaction deletes, by namespace.
	leaving map[string][]Leaving
}

type entryKey struct {
	r   *schema.Resource
	key schema.Key
}

// entry is one object that the transaction has touched.
type entry struct {
	entryKey
	base   *store.Item   // what was stored; nil when there was none
	object schema.Object // what will be stored; nil when deleted
	last   schema.Object // the last state before it was deleted
	own    bool          // last is a new state that no store has had
	write  bool
	also   bool // admission writes it besides what was asked for
}

func newOverlay(v store.View) *overlay {
	return &overlay{base: v, byKey: map[entryKey]*entry{}}
}

// get returns an object as the transaction sees it; nil when there is none.
// Nobody may change it.
func (o *overlay) get(r *schema.Resource, key schema.Key) schema.Object {
	r = r.Stored()
	if e := o.byKey[entryKey{r, key}]; e != nil {
		return e.object
	}
	if it := o.base.Get(r, key); it != nil {
		return it.Object
	}
	return nil
}

func (o *overlay) entry(r *schema.Resource, key schema.Key) *entry {
	k := entryKey{r.Stored(), key}
	e := o.byKey[k]
	if e == nil {
		e = &entry{entryKey: k, base: o.base.Get(k.r, key)}
		if e.base != nil {
			e.object = e.base.Object
		}
		o.byKey[k] = e
		o.order = append(o.order, e)
	}
	return e
}

// put stores an object in the overlay, which owns it from now on.
func (o *overlay) put(r *schema.Resource, key schema.Key, obj schema.Object) *entry {
	e := o.entry(r, key)
	e.object, e.write = obj, true
	return e
}

// remove deletes an object in the overlay; last is the state that callers get.
func (o *overlay) remove(r *schema.Resource, key schema.Key, last schema.Object) *entry {
	e := o.entry(r, key)
	e.object, e.last, e.write = nil, last, true
	return e
}

// writes are what must be stored, in the order in which they were made. Each
// demands that its object is still what the overlay began with.
func (o *overlay) writes() ([]store.Write, []*entry) {
	var w []store.Write
	var of []*entry
	for _, e := range o.order {
		if !e.write || (e.object == nil && e.base == nil) {
			continue // untouched, or created and deleted
		}
		write := store.Write{Resource: e.r, Key: e.key, Object: e.object}
		if e.base != nil {
			write.Expect = e.base.Version
		}
		w, of = append(w, write), append(of, e)
	}
	return w, of
}

// result is what a caller gets for an entry once the store has it.
func (e *entry) result() schema.Object {
	if e.object == nil {
		return e.last
	}
	return e.object
}

// Get implements client.Cache.
func (o *overlay) Get(r *schema.Resource, key schema.Key) (schema.Object, bool) {
	obj := o.get(r, key)
	return obj, obj != nil
}

// List implements client.Cache.
func (o *overlay) List(r *schema.Resource, namespace string) []schema.Object {
	snap := o.base.Snapshot(r)
	seq := snap.All()
	if namespace != "" {
		seq = snap.Namespace(namespace)
	}
	return o.merge(r, collect(seq), func(obj schema.Object) bool {
		return namespace == "" || obj.GetNamespace() == namespace
	})
}

// Changed is the version of the newest change of a resource before this
// transaction.
func (o *overlay) Changed(r *schema.Resource) schema.ResourceVersion {
	return o.base.Snapshot(r).Changed()
}

// Index implements client.Cache.
func (o *overlay) Index(r *schema.Resource, index, value string) []schema.Object {
	return o.merge(r, collect(o.base.Snapshot(r).Index(index, value)), func(obj schema.Object) bool {
		return client.IndexValue(obj, index) == value
	})
}

// Subscribe implements client.Cache: an overlay is over before anything could
// happen to it.
func (o *overlay) Subscribe(context.Context, *schema.Resource, func(client.Event)) error {
	return errors.New("subscribe to a transaction: not possible")
}

// merge puts the touched objects of a resource in the place of stored ones.
func (o *overlay) merge(r *schema.Resource, stored []schema.Object, match func(schema.Object) bool) []schema.Object {
	if len(o.order) == 0 {
		return stored
	}
	r = r.Stored()
	out := make([]schema.Object, 0, len(stored))
	for _, obj := range stored {
		if o.byKey[entryKey{r, schema.KeyOf(obj)}] == nil {
			out = append(out, obj)
		}
	}
	for _, e := range o.order {
		if e.r == r && e.object != nil && match(e.object) {
			out = append(out, e.object)
		}
	}
	sortByKey(out)
	return out
}
