package admission

import (
	"cmp"
	"fmt"
	"sync"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// declared names an object as inventories do: without its version.
type declared struct{ group, kind, namespace, name string }

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
	files      map[string]*v1alpha1.Inventory // by name of the Inventory
	places     map[declared]place
	namespaces map[string]int // objects declared in each
}

func newInventory() *inventory {
	return &inventory{
		files:      map[string]*v1alpha1.Inventory{},
		places:     map[declared]place{},
		namespaces: map[string]int{},
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
	if _, ok := x.places[k]; !ok && k.namespace != "" {
		x.namespaces[k.namespace]++
	}
	x.places[k] = p
}

func (x *inventory) remove(k declared) {
	delete(x.places, k)
	if k.namespace == "" {
		return
	}
	if x.namespaces[k.namespace]--; x.namespaces[k.namespace] <= 0 {
		delete(x.namespaces, k.namespace)
	}
}

// find returns where an object is declared.
func (x *inventory) find(r *schema.Resource, key schema.Key) (place, bool) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	p, ok := x.places[declared{r.Group, r.Kind, key.Namespace, key.Name}]
	return p, ok
}

// inNamespace returns one object that is declared in a namespace, and how many
// there are.
func (x *inventory) inNamespace(namespace string) (place, int) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	n := x.namespaces[namespace]
	if n == 0 {
		return place{}, 0
	}
	var first place
	for k, p := range x.places {
		if k.namespace == namespace && (first.inventory == nil || p.String() < first.String()) {
			first = p
		}
	}
	return first, n
}

func declaredKey(o *v1alpha1.InventoryObject) declared {
	return declared{o.Group, o.Kind, o.Namespace, o.Name}
}
