package store

import (
	"github.com/google/btree"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
)

// degree of the B-trees: nodes of 31 to 63 items. A write copies one node for
// each level that readers still hold.
const degree = 32

// state is everything the store holds at one version. It never changes.
type state struct {
	version schema.ResourceVersion
	keys    *keyspace
	tables  []*frozen     // by position in keys
	next    chan struct{} // closed when a newer state is published
}

// frozen is one resource of a state.
type frozen struct {
	items, owners, orphans, nodes tree
	lost                          lostTree
	changed                       schema.ResourceVersion
}

type tree = *btree.BTreeG[*entry]

// entry is an item under the value of an index; in the main tree the value is
// empty and entries sort by key alone.
type entry struct {
	value string
	key   schema.Key
	item  *Item
}

func lessKey(a, b schema.Key) bool {
	if a.Namespace != b.Namespace {
		return a.Namespace < b.Namespace
	}
	return a.Name < b.Name
}

func lessEntry(a, b *entry) bool {
	if a.value != b.value {
		return a.value < b.value
	}
	return lessKey(a.key, b.key)
}

// table is one resource as the applier changes it. Everybody else reads frozen
// clones.
type table struct {
	res   *schema.Resource
	items tree
	// owners by the UID of the controller, orphans by the namespace of what could
	// have one, nodes by spec.nodeName of pods.
	owners, orphans, nodes tree
	// lost are the keys whose newest value cannot be read. What is in the trees of
	// such a key is the state before.
	lost lostTree
	// changed is the version of the newest change.
	changed schema.ResourceVersion
	dirty   bool
}

func newTable(r *schema.Resource) *table {
	empty := func() tree { return btree.NewG(degree, lessEntry) }
	return &table{res: r, items: empty(), owners: empty(), orphans: empty(), nodes: empty(), lost: newLostTree()}
}

// put stores an item and returns the one before.
func (t *table) put(it *Item) *Item {
	t.dirty, t.changed = true, max(t.changed, it.Version)
	t.regain(it.Key)
	var prev *Item
	if e, ok := t.items.ReplaceOrInsert(&entry{key: it.Key, item: it}); ok {
		prev = e.item
	}
	reindex(t.owners, ownerOf(prev), ownerOf(it), prev, it)
	reindex(t.orphans, orphanOf(prev), orphanOf(it), prev, it)
	reindex(t.nodes, nodeOf(prev), nodeOf(it), prev, it)
	return prev
}

// remove drops an item, which was deleted at a version, and returns it.
func (t *table) remove(key schema.Key, at schema.ResourceVersion) *Item {
	t.regain(key)
	e, ok := t.items.Delete(&entry{key: key})
	if !ok {
		return nil
	}
	t.dirty, t.changed = true, max(t.changed, at)
	reindex(t.owners, ownerOf(e.item), "", e.item, nil)
	reindex(t.orphans, orphanOf(e.item), "", e.item, nil)
	reindex(t.nodes, nodeOf(e.item), "", e.item, nil)
	return e.item
}

func reindex(t tree, was, is string, prev, it *Item) {
	if was != "" && was != is {
		t.Delete(&entry{value: was, key: prev.Key})
	}
	if is != "" {
		t.ReplaceOrInsert(&entry{value: is, key: it.Key, item: it})
	}
}

func ownerOf(it *Item) string {
	if it == nil {
		return ""
	}
	if ref := metav1.GetControllerOfNoCopy(it.Object); ref != nil {
		return string(ref.UID)
	}
	return ""
}

// orphanOf is the namespace of a pod or ReplicaSet that has no controller: there
// are few, and whoever looks for what it may adopt would else look through all.
func orphanOf(it *Item) string {
	if it == nil {
		return ""
	}
	switch it.Object.(type) {
	case *corev1.Pod, *appsv1.ReplicaSet:
		if metav1.GetControllerOfNoCopy(it.Object) == nil {
			return it.Key.Namespace
		}
	}
	return ""
}

func nodeOf(it *Item) string {
	if it == nil {
		return ""
	}
	if pod, ok := it.Object.(*corev1.Pod); ok {
		return pod.Spec.NodeName
	}
	return ""
}

// nothing is the table of a resource that the store does not keep.
var nothing = newTable(nil).freeze()

func (t *table) freeze() *frozen {
	t.dirty = false
	return &frozen{items: t.items.Clone(), owners: t.owners.Clone(), orphans: t.orphans.Clone(), nodes: t.nodes.Clone(), lost: t.lost.Clone(), changed: t.changed}
}

// freeze makes a state out of the tables: clones of those that changed, and of
// the others what prev has. It costs nothing until the tables change again.
func (s *Store) freeze(v schema.ResourceVersion, prev *state) *state {
	keys := s.keys.Load()
	st := &state{version: v, keys: keys, tables: make([]*frozen, len(keys.slots)), next: make(chan struct{})}
	for i, sl := range keys.slots {
		switch {
		case sl == nil:
		case prev != nil && i < len(prev.tables) && prev.keys.slots[i] == sl && !sl.table.dirty:
			st.tables[i] = prev.tables[i]
		default:
			st.tables[i] = sl.table.freeze()
		}
	}
	return st
}

// table returns one resource of the state, empty when it is not kept.
func (st *state) table(r *schema.Resource) *frozen {
	if i, ok := st.keys.byRes[r.Stored()]; ok {
		return st.tables[i]
	}
	return nothing
}

// publish makes the tables as they are the state that readers see.
func (s *Store) publish(v schema.ResourceVersion) {
	old := s.state.Load()
	s.state.Store(s.freeze(v, old))
	close(old.next)
}
