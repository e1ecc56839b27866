package schema

import (
	"reflect"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Catalog is what is served at one moment: the resource table, and the custom
// resources that definitions in the cluster add to it. It never changes; a
// newer one takes its place.
type Catalog struct {
	all   []*Resource
	byGVR map[schema.GroupVersionResource]*Resource
	byGVK map[schema.GroupVersionKind]*Resource
	// stored are the rows that a store keeps, served a row to ask for each.
	stored []*Resource
	served map[*Resource]*Resource
}

// Builtin is the catalog of the resource table alone.
var Builtin = NewCatalog()

// NewCatalog returns the table with custom resources beside it. Each is one
// served version of a definition. The table wins where both name the same.
func NewCatalog(custom ...*Resource) *Catalog {
	c := &Catalog{byGVR: map[schema.GroupVersionResource]*Resource{}, byGVK: map[schema.GroupVersionKind]*Resource{}, served: map[*Resource]*Resource{}}
	for _, set := range [][]*Resource{Resources, custom} {
		for _, r := range set {
			if c.byGVR[r.GVR()] != nil {
				continue
			}
			c.all = append(c.all, r)
			c.byGVR[r.GVR()] = r
			if c.byGVK[r.GVK()] == nil {
				c.byGVK[r.GVK()] = r
			}
			c.addStored(r)
		}
	}
	return c
}

// All are the resources in the order in which discovery shows them. Nobody may
// change the slice.
func (c *Catalog) All() []*Resource { return c.all }

// Custom are those that definitions have added.
func (c *Catalog) Custom() []*Resource {
	var out []*Resource
	for _, r := range c.all {
		if r.Custom != nil {
			out = append(out, r)
		}
	}
	return out
}

// ByGVR finds a resource; nil when there is none.
func (c *Catalog) ByGVR(gvr schema.GroupVersionResource) *Resource { return c.byGVR[gvr] }

// ByGVK finds a resource by its kind; nil when there is none.
func (c *Catalog) ByGVK(gvk schema.GroupVersionKind) *Resource { return c.byGVK[gvk] }

// ResourceOf finds the resource of an object: by its Go type, or, of an
// unstructured one, by its apiVersion and kind; nil when there is none.
func (c *Catalog) ResourceOf(o Object) *Resource {
	if r := byType[reflect.TypeOf(o)]; r != nil {
		return r
	}
	return c.byGVK[o.GetObjectKind().GroupVersionKind()]
}

// addStored notes as what a row is kept. A row that stands for itself is the
// one to ask for it, else the first of its versions.
func (c *Catalog) addStored(r *Resource) {
	s := r.Stored()
	if c.served[s] == nil {
		c.stored = append(c.stored, s)
		c.served[s] = r
	}
	if s == r {
		c.served[s] = r
	}
}

// Stored are the resources that a store keeps: those that stand for
// themselves, and each that others are kept as, once. Nobody may change the
// slice.
func (c *Catalog) Stored() []*Resource { return c.stored }

// Served returns a row by which the objects of a stored resource can be read
// and written; nil when it is no longer served.
func (c *Catalog) Served(stored *Resource) *Resource { return c.served[stored] }

// Live holds the catalog of a cluster that runs. All parts of a process share
// one. The zero value holds Builtin.
type Live struct {
	now atomic.Pointer[Catalog]

	mu      sync.Mutex
	changed chan struct{}
}

// Load returns the catalog as it is.
func (l *Live) Load() *Catalog {
	if l == nil {
		return Builtin
	}
	if c := l.now.Load(); c != nil {
		return c
	}
	return Builtin
}

// Publish replaces the catalog and wakes who waits on Changed.
func (l *Live) Publish(c *Catalog) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.now.Store(c)
	if l.changed != nil {
		close(l.changed)
		l.changed = nil
	}
}

// Changed is closed at the next Publish. Ask for it before Load, so that no
// change is missed.
func (l *Live) Changed() <-chan struct{} {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.changed == nil {
		l.changed = make(chan struct{})
	}
	return l.changed
}
