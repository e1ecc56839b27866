package plan

import (
	"cmp"
	"iter"
	"strings"

	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sortedset"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Inventories are those of all repositories, found by what they declare. They
// never change and may be used by several goroutines; Next makes others of
// them at the cost of what differs.
type Inventories struct {
	repository string
	list       []*v1alpha1.Inventory
	units      *sortedset.Set[*v1alpha1.Inventory] // of the repository, by file
	mine       *sortedset.Set[declared]            // what the repository declared
	others     *sortedset.Set[declared]            // what other repositories declare
	count      map[kschema.GroupVersionKind]int    // of mine
}

// declared is an object in an inventory.
type declared struct {
	*v1alpha1.InventoryObject
	in *v1alpha1.Inventory
}

// file is where the object was declared.
func (d declared) file() string {
	if d.File != "" {
		return d.File
	}
	return d.in.Spec.File
}

// compareObjects orders objects so that those of one name, as a dependency
// gives it, lie together.
func compareObjects(a, b *v1alpha1.InventoryObject) int {
	return cmp.Or(strings.Compare(a.Kind, b.Kind), strings.Compare(a.Namespace, b.Namespace), strings.Compare(a.Name, b.Name),
		strings.Compare(a.Group, b.Group), strings.Compare(a.Version, b.Version))
}

func newDeclared() *sortedset.Set[declared] {
	return sortedset.New(func(a, b declared) bool {
		c := compareObjects(a.InventoryObject, b.InventoryObject)
		return c < 0 || c == 0 && a.in.Name < b.in.Name
	})
}

// NewInventories finds by what they declare the inventories of all
// repositories; repository is whose plan is made.
func NewInventories(repository string, all []*v1alpha1.Inventory) *Inventories {
	x := &Inventories{repository: repository, mine: newDeclared(), others: newDeclared(), count: map[kschema.GroupVersionKind]int{},
		units: sortedset.New(func(a, b *v1alpha1.Inventory) bool { return a.Spec.File < b.Spec.File })}
	x.list = all
	for _, inv := range x.list {
		x.add(inv)
	}
	return x
}

// Difference is what differs between the inventories of two moments: the files
// of the repository's own, and what those of others declare.
type Difference struct {
	Files  []string
	Others []v1alpha1.InventoryObject
}

// Next are the inventories of another moment, and what differs. Those that are
// the same objects in memory are not looked at.
func (x *Inventories) Next(all []*v1alpha1.Inventory) (*Inventories, Difference) {
	var diff Difference
	if len(all) == len(x.list) && (len(all) == 0 || &all[0] == &x.list[0]) {
		return x, diff
	}
	next := *x
	next.list = all
	// Where a list is not in the order of the names, some are taken out and put
	// in again.
	var gone, come []*v1alpha1.Inventory
	was, now := x.list, next.list
	for len(was) > 0 || len(now) > 0 {
		switch {
		case len(was) > 0 && len(now) > 0 && was[0] == now[0]:
			was, now = was[1:], now[1:]
		case len(now) == 0 || len(was) > 0 && was[0].Name <= now[0].Name:
			gone, was = append(gone, was[0]), was[1:]
		default:
			come, now = append(come, now[0]), now[1:]
		}
	}
	if len(gone)+len(come) == 0 {
		return &next, diff
	}
	next.units, next.mine, next.others = x.units.Clone(), x.mine.Clone(), x.others.Clone()
	next.count = make(map[kschema.GroupVersionKind]int, len(x.count))
	for gvk, n := range x.count {
		next.count[gvk] = n
	}
	for _, inv := range gone {
		next.remove(inv)
		diff.note(x.repository, inv)
	}
	for _, inv := range come {
		next.add(inv)
		diff.note(x.repository, inv)
	}
	return &next, diff
}

func (d *Difference) note(repository string, inv *v1alpha1.Inventory) {
	if inv.Spec.Repository == repository {
		d.Files = append(d.Files, inv.Spec.File)
	} else {
		d.Others = append(d.Others, inv.Spec.Objects...)
	}
}

func (x *Inventories) add(inv *v1alpha1.Inventory) {
	set := x.others
	if inv.Spec.Repository == x.repository {
		set = x.mine
		x.units.Put(inv)
	}
	for i := range inv.Spec.Objects {
		o := &inv.Spec.Objects[i]
		set.Put(declared{o, inv})
		if set == x.mine {
			x.count[kindOf(o)]++
		}
	}
}

func (x *Inventories) remove(inv *v1alpha1.Inventory) {
	set := x.others
	if inv.Spec.Repository == x.repository {
		set = x.mine
		if have, ok := x.units.Get(inv); ok && have.Name == inv.Name {
			x.units.Delete(inv)
		}
	}
	for i := range inv.Spec.Objects {
		o := &inv.Spec.Objects[i]
		set.Delete(declared{o, inv})
		if set == x.mine {
			x.count[kindOf(o)]--
		}
	}
}

// Unit returns the inventory of a unit of the repository; nil: there is none.
func (x *Inventories) Unit(path string) *v1alpha1.Inventory {
	inv, _ := x.units.Get(&v1alpha1.Inventory{Spec: v1alpha1.InventorySpec{File: path}})
	return inv
}

// Units yields the inventories of the repository in the order of their files.
func (x *Inventories) Units() iter.Seq[*v1alpha1.Inventory] { return x.units.All() }

// Declares says whether the repository declared an object, in whatever version
// of its kind.
func (x *Inventories) Declares(ref render.Ref) bool {
	for d := range namedIn(x.mine, ref.String()) {
		if d.Group == ref.Resource.Group {
			return true
		}
	}
	return false
}

// Elsewhere says whether another repository declares an object.
func (x *Inventories) Elsewhere(ref render.Ref) bool {
	_, ok := find(x.others, ref)
	return ok
}

// declared is how many objects the repository declared, of the kinds that are
// known.
func (x *Inventories) declared(kinds Kinds) int {
	total := 0
	for gvk, n := range x.count {
		if schema.ByGVK(gvk) != nil || kinds != nil && kinds(gvk) != nil {
			total += n
		}
	}
	return total
}

// find returns what declares an object.
func find(set *sortedset.Set[declared], ref render.Ref) (declared, bool) {
	want := declared{&v1alpha1.InventoryObject{Group: ref.Resource.Group, Version: ref.Resource.Version, Kind: ref.Resource.Kind,
		Namespace: ref.Key.Namespace, Name: ref.Key.Name}, &v1alpha1.Inventory{}}
	for d := range set.From(want) {
		return d, compareObjects(d.InventoryObject, want.InventoryObject) == 0
	}
	return declared{}, false
}

// namedIn yields what declares an object of a name: Kind/namespace/name or
// Kind/name.
func namedIn(set *sortedset.Set[declared], name string) iter.Seq[declared] {
	kind, key, _ := strings.Cut(name, "/")
	k := schema.ParseKey(key)
	want := declared{&v1alpha1.InventoryObject{Kind: kind, Namespace: k.Namespace, Name: k.Name}, &v1alpha1.Inventory{}}
	return func(yield func(declared) bool) {
		for d := range set.From(want) {
			if d.Kind != kind || d.Namespace != k.Namespace || d.Name != k.Name || !yield(d) {
				return
			}
		}
	}
}
