package plan

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// InventoryName is the name of the inventory of a unit: paths are no names.
func InventoryName(repository, path string) string {
	sum := sha256.Sum256([]byte(path))
	return repository + "-" + hex.EncodeToString(sum[:8])
}

// Stale says whether the manifests of a unit must be read for a plan: the
// unit is not what the inventory says, or one of its objects is not live.
func Stale(u *Unit, inv *v1alpha1.Inventory, live Live) bool {
	if len(u.Objects) == 0 {
		return false
	}
	if inv == nil || inv.Spec.Blob != u.Hash {
		return true
	}
	for i := range u.Objects {
		if _, ok := live.Get(u.Objects[i].Resource, u.Objects[i].Key); !ok {
			return true
		}
	}
	return false
}

// inventory decides whether the inventory of a unit is written.
func (c *computation) inventory(u *Unit) {
	if len(u.Objects) == 0 {
		return
	}
	before := c.before.Unit(u.Path)
	if before != nil && before.Spec.Blob == u.Hash {
		return
	}
	inv := &v1alpha1.Inventory{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Inventory"},
		ObjectMeta: metav1.ObjectMeta{Name: InventoryName(c.in.Repository, u.Path)},
		Spec: v1alpha1.InventorySpec{Repository: c.in.Repository, File: u.Path, Blob: u.Hash,
			Commit: c.in.SHA, Author: c.in.Author, Time: metav1.NewTime(c.in.Time)},
	}
	for i := range u.Objects {
		d := &u.Objects[i]
		o := v1alpha1.InventoryObject{Group: d.Resource.Group, Version: d.Resource.Version, Kind: d.Resource.Kind,
			Namespace: d.Key.Namespace, Name: d.Key.Name, Line: d.Line, Hash: d.Hash}
		if d.File != u.Path {
			o.File = d.File
		}
		inv.Spec.Objects = append(inv.Spec.Objects, o)
	}
	op := InventoryOp{Name: inv.Name, Object: inv, ResourceVersion: "0"}
	if before != nil {
		op.Name, inv.Name, op.ResourceVersion = before.Name, before.Name, before.ResourceVersion
	}
	c.plan.Inventories = append(c.plan.Inventories, op)
}

func kindOf(o *v1alpha1.InventoryObject) kschema.GroupVersionKind {
	return kschema.GroupVersionKind{Group: o.Group, Version: o.Version, Kind: o.Kind}
}

func sortInventories(ops []InventoryOp) {
	slices.SortFunc(ops, func(a, b InventoryOp) int { return cmp.Compare(a.Name, b.Name) })
}
