package store

import (
	"iter"

	"github.com/writ-os/writ/schema"
)

// View is all resources at one version. It never changes.
type View struct{ st *state }

// View returns the newest state of all resources.
func (s *Store) View() View { return View{s.state.Load()} }

// Version of the view: it holds every change up to it and none after.
func (v View) Version() schema.ResourceVersion { return v.st.version }

// Snapshot returns one resource of the view, empty when the store does not keep
// it.
func (v View) Snapshot(r *schema.Resource) Snapshot {
	return Snapshot{v.st.version, v.st.table(r)}
}

// Keeps says whether the store keeps a resource.
func (v View) Keeps(r *schema.Resource) bool {
	_, ok := v.st.keys.byRes[r.Stored()]
	return ok
}

// Get returns one object of the view, nil when there is none.
func (v View) Get(r *schema.Resource, key schema.Key) *Item { return v.Snapshot(r).Get(key) }

// Get returns the newest state of one object, nil when there is none.
func (s *Store) Get(r *schema.Resource, key schema.Key) *Item { return s.View().Get(r, key) }

// Snapshot returns the newest state of one resource.
func (s *Store) Snapshot(r *schema.Resource) Snapshot { return s.View().Snapshot(r) }

// Snapshot is one resource at one version. It never changes, and reading it
// takes no lock.
type Snapshot struct {
	version schema.ResourceVersion
	f       *frozen
}

// Version of the snapshot: a watch from it continues without gap.
func (s Snapshot) Version() schema.ResourceVersion { return s.version }

// Changed is the version of the newest change of the resource: who has heard of
// every change up to it knows what the snapshot holds.
func (s Snapshot) Changed() schema.ResourceVersion { return s.f.changed }

// Len is how many objects there are.
func (s Snapshot) Len() int { return s.f.items.Len() }

// Get returns one object, nil when there is none.
func (s Snapshot) Get(key schema.Key) *Item {
	e, ok := s.f.items.Get(&entry{key: key})
	if !ok {
		return nil
	}
	return e.item
}

// Ascend calls fn for every object from a key on (the zero key: all), in the
// order of keys, until fn returns false.
func (s Snapshot) Ascend(from schema.Key, fn func(*Item) bool) {
	s.f.items.AscendGreaterOrEqual(&entry{key: from}, func(e *entry) bool { return fn(e.item) })
}

// All yields every object, in the order of keys.
func (s Snapshot) All() iter.Seq[*Item] {
	return func(yield func(*Item) bool) { s.Ascend(schema.Key{}, yield) }
}

// Namespace yields the objects of a namespace, in the order of names.
func (s Snapshot) Namespace(ns string) iter.Seq[*Item] {
	return func(yield func(*Item) bool) {
		s.Ascend(schema.Key{Namespace: ns}, func(it *Item) bool { return it.Key.Namespace == ns && yield(it) })
	}
}

// The indexes of a snapshot, with the names of client.Cache.
const (
	IndexOwner  = "owner"  // the UID of the controller
	IndexOrphan = "orphan" // the namespace of pods and ReplicaSets without a controller
	IndexNode   = "node"   // spec.nodeName of pods
)

// Index yields the objects under a value of an index, in the order of keys. An
// index that does not exist is empty.
func (s Snapshot) Index(name, value string) iter.Seq[*Item] {
	return func(yield func(*Item) bool) {
		var t tree
		switch name {
		case IndexOwner:
			t = s.f.owners
		case IndexOrphan:
			t = s.f.orphans
		case IndexNode:
			t = s.f.nodes
		}
		if t == nil || value == "" {
			return
		}
		t.AscendGreaterOrEqual(&entry{value: value}, func(e *entry) bool {
			return e.value == value && yield(e.item)
		})
	}
}
