package client

import (
	"context"
	"sync"

	"github.com/writ-os/writ/schema"
)

// table holds the objects of one resource with their indexes, and tells
// subscribers of changes in order.
type table struct {
	synced chan struct{} // closed when the first initial events have been stored
	once   sync.Once

	// deliver orders changes: held from before a change is stored until every
	// subscriber has been told.
	deliver sync.Mutex
	subs    map[*func(Event)]struct{}

	mu      sync.RWMutex
	objects map[schema.Key]schema.Object
	indexes map[string]map[string]map[schema.Key]schema.Object // index, value, key
}

func newTable() *table {
	return &table{
		synced:  make(chan struct{}),
		subs:    map[*func(Event)]struct{}{},
		objects: map[schema.Key]schema.Object{},
		indexes: map[string]map[string]map[schema.Key]schema.Object{IndexOwner: {}, IndexOrphan: {}, IndexNode: {}},
	}
}

func (t *table) get(key schema.Key) (schema.Object, bool) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	o, ok := t.objects[key]
	return o, ok
}

func (t *table) list(namespace string) []schema.Object {
	t.mu.RLock()
	out := make([]schema.Object, 0, len(t.objects))
	for k, o := range t.objects {
		if namespace == "" || k.Namespace == namespace {
			out = append(out, o)
		}
	}
	t.mu.RUnlock()
	sortByKey(out)
	return out
}

func (t *table) byIndex(index, value string) []schema.Object {
	t.mu.RLock()
	found := t.indexes[index][value]
	out := make([]schema.Object, 0, len(found))
	for _, o := range found {
		out = append(out, o)
	}
	t.mu.RUnlock()
	sortByKey(out)
	return out
}

// store puts an object in, or takes it out where next is nil, and returns what
// was there.
func (t *table) store(key schema.Key, next schema.Object) schema.Object {
	t.mu.Lock()
	defer t.mu.Unlock()
	old := t.objects[key]
	for name, values := range t.indexes {
		if old != nil {
			drop(values, IndexValue(old, name), key)
		}
		if next != nil {
			put(values, IndexValue(next, name), key, next)
		}
	}
	if next == nil {
		delete(t.objects, key)
	} else {
		t.objects[key] = next
	}
	return old
}

func put(values map[string]map[schema.Key]schema.Object, value string, key schema.Key, o schema.Object) {
	if value == "" {
		return
	}
	if values[value] == nil {
		values[value] = map[schema.Key]schema.Object{}
	}
	values[value][key] = o
}

func drop(values map[string]map[schema.Key]schema.Object, value string, key schema.Key) {
	delete(values[value], key)
	if len(values[value]) == 0 {
		delete(values, value)
	}
}

// apply stores what an event says and tells the subscribers. A repetition of
// what is known is no event.
func (t *table) apply(ev Event) {
	t.deliver.Lock()
	defer t.deliver.Unlock()
	t.applyLocked(ev)
}

func (t *table) applyLocked(ev Event) {
	key := schema.KeyOf(ev.Object)
	if ev.Type == Deleted {
		if old := t.store(key, nil); old != nil {
			t.tell(Event{Type: Deleted, Object: ev.Object, Old: old})
		}
		return
	}
	old := t.store(key, ev.Object)
	switch {
	case old == nil:
		t.tell(Event{Type: Added, Object: ev.Object})
	case old.GetUID() != ev.Object.GetUID():
		t.tell(Event{Type: Deleted, Object: old, Old: old})
		t.tell(Event{Type: Added, Object: ev.Object})
	case old.GetResourceVersion() != ev.Object.GetResourceVersion():
		t.tell(Event{Type: Modified, Object: ev.Object, Old: old})
	}
}

// replace brings the table to a complete set of objects.
func (t *table) replace(objects map[schema.Key]schema.Object) {
	t.deliver.Lock()
	defer t.deliver.Unlock()
	for _, o := range t.list("") {
		if _, ok := objects[schema.KeyOf(o)]; !ok {
			t.applyLocked(Event{Type: Deleted, Object: o})
		}
	}
	for _, o := range objects {
		t.applyLocked(Event{Type: Modified, Object: o})
	}
	t.once.Do(func() { close(t.synced) })
}

func (t *table) tell(ev Event) {
	for fn := range t.subs {
		(*fn)(ev)
	}
}

// subscribe calls fn with what there is and then with every change.
func (t *table) subscribe(ctx context.Context, fn func(Event)) {
	t.deliver.Lock()
	defer t.deliver.Unlock()
	for _, o := range t.list("") {
		fn(Event{Type: Added, Object: o})
	}
	t.subs[&fn] = struct{}{}
	context.AfterFunc(ctx, func() {
		t.deliver.Lock()
		defer t.deliver.Unlock()
		delete(t.subs, &fn)
	})
}
