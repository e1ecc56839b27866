package registry

import (
	"context"
	"sync"

	"github.com/writ-os/writ/schema"
)

// Put stores the new state of another object with the write that admission is
// asked about, in the same transaction: the usage of a quota, say. It goes
// unseen by admission. What changes in the status of an object that there is
// becomes the server's own.
func (o *overlay) Put(ctx context.Context, r *schema.Resource, obj schema.Object) {
	key := schema.KeyOf(obj)
	if old := o.get(r, key); old != nil && o.fields != nil && r.Status {
		obj.GetObjectKind().SetGroupVersionKind(r.GVK())
		if err := o.fields.update(ctx, r, "status", old, obj, serverManager); err != nil {
			o.fields.log.WarnContext(ctx, "field owners cannot be told", "resource", r.String(), "key", key.String(), "manager", serverManager, "err", err)
		}
	}
	o.put(r, key, obj).also = true
}

// serverManager owns the fields that the API server itself writes, under
// upstream's name.
const serverManager = "kube-apiserver"

// queues let writes that meet at one object wait for each other.
type queues struct {
	mu sync.Mutex
	of map[entryKey]*queue
}

type queue struct {
	sync.Mutex
	users int
}

// enter waits until nobody else is in the queue of an object. leave must be
// called once.
func (q *queues) enter(k entryKey) (leave func()) {
	q.mu.Lock()
	if q.of == nil {
		q.of = map[entryKey]*queue{}
	}
	one := q.of[k]
	if one == nil {
		one = &queue{}
		q.of[k] = one
	}
	one.users++
	q.mu.Unlock()

	one.Lock()
	return func() {
		one.Unlock()
		q.mu.Lock()
		defer q.mu.Unlock()
		if one.users--; one.users == 0 {
			delete(q.of, k)
		}
	}
}
