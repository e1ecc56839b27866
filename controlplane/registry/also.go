package registry

import (
	"sync"

	"github.com/writ-os/writ/schema"
)

// Put stores the new state of another object with the write that admission is
// asked about, in the same transaction: the usage of a quota, say. It goes
// unseen by admission.
func (o *overlay) Put(r *schema.Resource, obj schema.Object) {
	o.put(r, schema.KeyOf(obj), obj).also = true
}

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
