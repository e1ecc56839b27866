package apiserver

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"weak"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// viewSet holds the views of all versions that are not what the store keeps.
type viewSet struct {
	mu sync.Mutex
	by map[*schema.Resource]*views
}

// views are items as one served version shows them: converted, without the
// fields that the schema does not know, with its defaults. A view lives as long
// as the item it was made of.
type views struct {
	r     *schema.Resource
	table *customTable

	mu   sync.Mutex
	made map[weak.Pointer[store.Item]]*store.Item // nil: the item itself
}

// needsView says whether clients of r may see other objects than the store has.
func needsView(r *schema.Resource) bool { return r.Convert != nil || r.Custom != nil }

// of returns the views of a version; nil for what the store keeps as it is.
func (s *viewSet) of(r *schema.Resource) *views {
	if !needsView(r) {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	v := s.by[r]
	if v == nil {
		v = &views{r: r, made: map[weak.Pointer[store.Item]]*store.Item{}}
		if r.Custom != nil {
			v.table = newCustomTable(r)
		}
		if s.by == nil {
			s.by = map[*schema.Resource]*views{}
		}
		s.by[r] = v
	}
	return v
}

// keep takes over the views of versions that are still served.
func (s *viewSet) keep(old *viewSet, c *schema.Catalog) {
	old.mu.Lock()
	defer old.mu.Unlock()
	for r, v := range old.by {
		if c.ByGVR(r.GVR()) == r {
			if s.by == nil {
				s.by = map[*schema.Resource]*views{}
			}
			s.by[r] = v
		}
	}
}

// one shows an item; nil stays nil.
func (v *views) one(ctx context.Context, it *store.Item) (*store.Item, error) {
	if v == nil || it == nil {
		return it, nil
	}
	all, err := v.all(ctx, []*store.Item{it})
	if err != nil {
		return nil, err
	}
	return all[0], nil
}

// show returns how a filter looks at items; nil where it may do so as they are.
func (v *views) show(ctx context.Context) func(*store.Item) (*store.Item, error) {
	if v == nil {
		return nil
	}
	return func(it *store.Item) (*store.Item, error) { return v.one(ctx, it) }
}

// all shows items. Those that have been shown before cost a look-up; the others
// are converted at once.
func (v *views) all(ctx context.Context, items []*store.Item) ([]*store.Item, error) {
	if v == nil || len(items) == 0 {
		return items, nil
	}
	out := make([]*store.Item, len(items))
	var missing []int
	v.mu.Lock()
	for i, it := range items {
		seen, ok := v.made[weak.Make(it)]
		switch {
		case !ok:
			missing = append(missing, i)
		case seen == nil:
			out[i] = it
		default:
			out[i] = seen
		}
	}
	v.mu.Unlock()
	if len(missing) == 0 {
		return out, nil
	}
	if err := v.make(ctx, items, out, missing); err != nil {
		return nil, err
	}
	return out, nil
}

// make shows the items at some positions and remembers the result.
func (v *views) make(ctx context.Context, items, out []*store.Item, at []int) error {
	objects := make([]schema.Object, len(at))
	for n, i := range at {
		objects[n] = items[i].Object
	}
	if v.r.Convert != nil {
		converted, err := v.r.Convert(ctx, objects)
		if err != nil {
			return err
		}
		if len(converted) != len(objects) {
			return fmt.Errorf("convert %v: %d objects came back for %d", v.r, len(converted), len(objects))
		}
		objects = converted
	}
	for n, i := range at {
		it := items[i]
		out[i] = v.shown(it, v.fill(objects[n], it.Object))
		remember := out[i]
		if remember == it {
			remember = nil
		}
		key := weak.Make(it)
		v.mu.Lock()
		_, twice := v.made[key]
		v.made[key] = remember
		v.mu.Unlock()
		if !twice {
			runtime.AddCleanup(it, v.forget, key)
		}
	}
	return nil
}

func (v *views) forget(key weak.Pointer[store.Item]) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.made, key)
}

// shown is the item of an object that stands for another item's.
func (v *views) shown(it *store.Item, o schema.Object) *store.Item {
	if o == it.Object && (it.Resource == v.r || v.r.Custom != nil) {
		return it
	}
	if o.GetResourceVersion() != it.Version.String() {
		if o == it.Object {
			o = o.DeepCopyObject().(schema.Object)
		}
		o.SetResourceVersion(it.Object.GetResourceVersion())
	}
	return &store.Item{Resource: v.r, Key: it.Key, Version: it.Version, Object: o}
}

// fill gives a custom object the shape of its schema. It returns the object
// that came when that has it already.
func (v *views) fill(o, stored schema.Object) schema.Object {
	u, ok := o.(*unstructured.Unstructured)
	if v.r.Custom == nil || !ok {
		return o
	}
	c := u.DeepCopy()
	v.r.Custom.Prune(c.Object)
	v.r.Custom.Default(c.Object)
	if equality.Semantic.DeepEqual(c.Object, u.Object) {
		return o
	}
	return c
}
