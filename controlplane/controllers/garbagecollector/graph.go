package garbagecollector

import (
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	writ "github.com/writ-os/writ/schema"
)

// identity names an object of any resource.
type identity struct {
	resource *writ.Resource // as it is stored
	key      writ.Key
}

func (id identity) String() string { return id.resource.String() + " " + id.key.String() }

// queueKey packs an identity into a key of the queue: no name contains a "/".
func (id identity) queueKey() writ.Key {
	return writ.Key{Namespace: id.key.Namespace, Name: id.resource.String() + "/" + id.key.Name}
}

// parse unpacks what queueKey packed.
func (c *Controller) parse(k writ.Key) (identity, bool) {
	plural, name, ok := strings.Cut(k.Name, "/")
	if !ok {
		return identity{}, false
	}
	for _, r := range c.cfg.Catalog.Load().Stored() {
		if r.String() == plural {
			return identity{r, writ.Key{Namespace: k.Namespace, Name: name}}, true
		}
	}
	return identity{}, false
}

// served is the row by which an object is read and written. A resource that is
// no longer served is asked for as it was, which finds nothing.
func (c *Controller) served(id identity) *writ.Resource {
	if r := c.cfg.Catalog.Load().Served(id.resource); r != nil {
		return r
	}
	return id.resource
}

// ownerOf returns whom a reference of an object names. False for a kind that
// is not known, and for an owner in a namespace of an object in none, which
// nobody can find.
func (c *Controller) ownerOf(id identity, ref metav1.OwnerReference) (identity, bool) {
	gv, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return identity{}, false
	}
	r := c.cfg.Catalog.Load().ByGVK(gv.WithKind(ref.Kind))
	if r == nil || r.Namespaced && id.key.Namespace == "" {
		return identity{}, false
	}
	r = r.Stored()
	owner := identity{r, writ.Key{Name: ref.Name}}
	if r.Namespaced {
		owner.key.Namespace = id.key.Namespace
	}
	return owner, true
}

func keysOf(ids []identity) []writ.Key {
	var keys []writ.Key
	for _, id := range ids {
		keys = append(keys, id.queueKey())
	}
	return keys
}

// graph knows who names whom as its owner. It holds only objects with owners.
type graph struct {
	mu    sync.Mutex
	owned map[types.UID]*dependents // by owner
	owner map[identity][]types.UID
}

// dependents are those of one owner.
type dependents struct {
	all      map[identity]bool // whether it blocks the end of the owner
	blocking int               // how many do
}

func newGraph() *graph {
	return &graph{owned: map[types.UID]*dependents{}, owner: map[identity][]types.UID{}}
}

// set replaces the owners of an object.
func (g *graph) set(id identity, refs []metav1.OwnerReference) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, uid := range g.owner[id] {
		g.drop(uid, id)
	}
	delete(g.owner, id)
	for _, ref := range refs {
		d := g.owned[ref.UID]
		if d == nil {
			d = &dependents{all: map[identity]bool{}}
			g.owned[ref.UID] = d
		}
		blocked, twice := d.all[id]
		blocks := blocked || ptrTrue(ref.BlockOwnerDeletion)
		if blocks && !blocked {
			d.blocking++
		}
		d.all[id] = blocks
		if !twice {
			g.owner[id] = append(g.owner[id], ref.UID)
		}
	}
}

// drop forgets that an object names an owner.
func (g *graph) drop(owner types.UID, id identity) {
	d := g.owned[owner]
	if d == nil {
		return
	}
	if d.all[id] {
		d.blocking--
	}
	delete(d.all, id)
	if len(d.all) == 0 {
		delete(g.owned, owner)
	}
}

// dependents returns the objects that name the UID as an owner.
func (g *graph) dependents(uid types.UID) []identity {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.owned[uid]
	if d == nil {
		return nil
	}
	out := make([]identity, 0, len(d.all))
	for id := range d.all {
		out = append(out, id)
	}
	return out
}

// has says whether any object names the UID as an owner.
func (g *graph) has(uid types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.owned[uid] != nil
}

// blocked says whether an object holds up the end of the owner.
func (g *graph) blocked(owner types.UID) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.owned[owner]
	return d != nil && d.blocking > 0
}
