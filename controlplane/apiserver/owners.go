package apiserver

import (
	"sync"

	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/writ-os/writ/schema"
)

// questionOwners record who asked what in the metadata of questions, as the
// registry does for objects that are stored. Nobody reads it, but the answers of
// upstream have it.
type questionOwners struct {
	mu sync.Mutex
	of map[*schema.Resource]*managedfields.FieldManager
}

// set records that a manager set all fields of a question. One whose fields
// cannot be told has no owners.
func (q *questionOwners) set(r *schema.Resource, sub string, o schema.Object, manager string) {
	m, err := q.manager(r, sub)
	if err == nil {
		_, err = m.Update(r.New(), o, manager)
	}
	if err != nil {
		o.SetManagedFields(nil)
	}
}

func (q *questionOwners) manager(r *schema.Resource, sub string) (*managedfields.FieldManager, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if m := q.of[r]; m != nil {
		return m, nil
	}
	// Questions have no lists that are merged by key: their types can be deduced.
	m, err := managedfields.NewDefaultFieldManager(managedfields.NewDeducedTypeConverter(),
		schema.Scheme, schema.Scheme, schema.Scheme, r.GVK(), r.GVK().GroupVersion(), sub, nil)
	if err != nil {
		return nil, err
	}
	if q.of == nil {
		q.of = map[*schema.Resource]*managedfields.FieldManager{}
	}
	q.of[r] = m
	return m, nil
}
