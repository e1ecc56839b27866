package namespace

import (
	"sync"

	"github.com/writ-os/writ/schema"
)

// tally knows how much is left of each resource in namespaces that are going, so
// that a namespace of thousands of objects is woken by the last that ends and not
// by each. It never counts too much: what ends while the objects are listed is
// taken off though the list may have missed it, which at worst wakes too early.
// The zero value is ready.
type tally struct {
	mu sync.Mutex
	of map[string]map[*schema.Resource]*rest // by namespace; resources as they are stored
}

type rest struct {
	left  int
	ended int // since the namespace is going
}

// before is to be called before the objects are listed; its result is for
// counted.
func (t *tally) before(ns string, r *schema.Resource) (ended int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.of == nil {
		t.of = map[string]map[*schema.Resource]*rest{}
	}
	if t.of[ns] == nil {
		t.of[ns] = map[*schema.Resource]*rest{}
	}
	if t.of[ns][r] == nil {
		t.of[ns][r] = &rest{}
	}
	return t.of[ns][r].ended
}

// counted notes how many objects the list has shown.
func (t *tally) counted(ns string, r *schema.Resource, n, ended int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if x := t.of[ns][r]; x != nil {
		x.left = n - (x.ended - ended)
	}
}

// ended notes the end of an object, and says whether it may have been the last.
// In a namespace that is not going, or whose resource was not looked at yet, that
// means nothing.
func (t *tally) ended(ns string, r *schema.Resource) (last bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	x := t.of[ns][r]
	if x == nil {
		return false
	}
	x.ended++
	x.left--
	return x.left <= 0
}

func (t *tally) forget(ns string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.of, ns)
}
