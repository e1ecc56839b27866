package admission

import (
	"cmp"
	"fmt"
	"sync"

	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// declared names an object as inventories do: without its version.
type declared struct{ group, kind, namespace, name string }

func (d declared) groupKind() kschema.GroupKind {
	return kschema.GroupKind{Group: d.group, Kind: d.kind}
}

// place is where an object is declared.
type place struct {
	inventory *v1alpha1.Inventory
	index     int
}

func (p place) object() *v1alpha1.InventoryObject { return &p.inventory.Spec.Objects[p.index] }

// String says where to edit: "apps/web.yaml:12 (repository cluster, commit
// 1a2b3c4d5e6f by Jane <jane@example.com>)".
func (p place) String() string {
	spec, o := &p.inventory.Spec, p.object()
	file := cmp.Or(o.File, spec.File)
	if o.Line > 0 {
		file = fmt.Sprintf("%s:%d", file, o.Line)
	}
	commit := spec.Commit
	if len(commit) > 12 {
		commit = commit[:12]
	}
	if spec.Author != "" {
		commit += " by " + spec.Author
	}
	return fmt.Sprintf("%s (repository %s, commit %s)", file, spec.Repository, commit)
}

// inventory finds the place of an object. A change of one file costs what the
// file declares, however many others there are.
type inventory struct {
	mu         sync.RWMutex
	version    schema.ResourceVersion         // of the newest change that was observed
	files      map[string]*v1alpha1.Inventory // by name of the Inventory
	places     map[declared]place
	namespaces map[string]int            // objects declared in each
	kinds      map[kschema.GroupKind]int // objects declared of each
}

func newInventory() *inventory {
	return &inventory{
		files:      map[string]*v1alpha1.Inventory{},
		places:     map[declared]place{},
		namespaces: map[string]int{},
		kinds:      map[kschema.GroupKind]int{},
	}
}

// observe takes in one change of an Inventory.
func (x *inventory) observe(e client.Event) {
	inv, ok := e.Object.(*v1alpha1.Inventory)
	if !ok {
		return
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if v, err := schema.ParseResourceVersion(inv.ResourceVersion); err == nil {
		x.version = max(x.version, v)
	}
	old := x.files[inv.Name]
	switch e.Type {
	case client.Added, client.Modified:
		x.files[inv.Name] = inv
		for i := range inv.Spec.Objects {
			x.set(declaredKey(&inv.Spec.Objects[i]), place{inv, i})
		}
	case client.Deleted:
		delete(x.files, inv.Name)
	default:
		return
	}
	if old == nil {
		return
	}
	for i := range old.Spec.Objects {
		k := declaredKey(&old.Spec.Objects[i])
		// Still the old one: this file no longer declares it, and no other
		// file has taken it over meanwhile.
		if x.places[k].inventory == old {
			x.remove(k)
		}
	}
}

func (x *inventory) set(k declared, p place) {
	if _, ok := x.places[k]; !ok {
		x.kinds[k.groupKind()]++
		if k.namespace != "" {
			x.namespaces[k.namespace]++
		}
	}
	x.places[k] = p
}

func (x *inventory) remove(k declared) {
	delete(x.places, k)
	less(x.kinds, k.groupKind())
	if k.namespace != "" {
		less(x.namespaces, k.namespace)
	}
}

func less[K comparable](counts map[K]int, k K) {
	if counts[k]--; counts[k] <= 0 {
		delete(counts, k)
	}
}

// find returns where an object is declared.
func (x *inventory) find(r *schema.Resource, key schema.Key) (place, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	p, ok := x.places[declared{r.Group, r.Kind, key.Namespace, key.Name}]
	return p, ok
}

// dated is a cache that knows the version of the newest change of a resource.
type dated interface {
	Changed(r *schema.Resource) schema.ResourceVersion
}

// behind says whether a cluster has inventories that the index has not heard of:
// it hears of them a moment after they are stored. In that moment what a commit
// has just declared must not pass for what nobody declares.
func (x *inventory) behind(c client.Cache) bool {
	d, ok := c.(dated)
	if !ok {
		return true
	}
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.version < d.Changed(schema.ResourceFor[*v1alpha1.Inventory]())
}

// scan looks through all inventories of a cluster. It returns the first of the
// objects that match, and how many there are.
func scan(c client.Cache, match func(declared) bool) (first place, n int) {
	for _, inv := range client.CachedList[*v1alpha1.Inventory](c, "") {
		for i := range inv.Spec.Objects {
			if !match(declaredKey(&inv.Spec.Objects[i])) {
				continue
			}
			n++
			if p := (place{inv, i}); first.inventory == nil || p.String() < first.String() {
				first = p
			}
		}
	}
	return first, n
}

// inNamespace returns one object that is declared in a namespace, and how many
// there are.
func (g *Guard) inNamespace(c client.Cache, namespace string) (place, int) {
	return among(g, c, g.inventory.namespaces, namespace, func(k declared) string { return k.namespace })
}

// ofKind returns one object of a kind that is declared, and how many there are.
func (g *Guard) ofKind(c client.Cache, kind kschema.GroupKind) (place, int) {
	return among(g, c, g.inventory.kinds, kind, declared.groupKind)
}

// among returns the first place of those that are counted under a key.
func among[K comparable](g *Guard, c client.Cache, counts map[K]int, key K, of func(declared) K) (place, int) {
	if g.inventory.behind(c) {
		return scan(c, func(d declared) bool { return of(d) == key })
	}
	return first(g.inventory, counts, key, of)
}

// first returns the first place of those that are counted under a key.
func first[K comparable](x *inventory, counts map[K]int, key K, of func(declared) K) (place, int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	n := counts[key]
	if n == 0 {
		return place{}, 0
	}
	var first place
	for k, p := range x.places {
		if of(k) == key && (first.inventory == nil || p.String() < first.String()) {
			first = p
		}
	}
	return first, n
}

func declaredKey(o *v1alpha1.InventoryObject) declared {
	return declared{o.Group, o.Kind, o.Namespace, o.Name}
}
