package plan

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// TestNextIsAnew: inventories that were made of others are those that are made
// of nothing, in whatever order they are listed, and what is said to differ is
// all that does.
func TestNextIsAnew(t *testing.T) {
	for seed := range uint64(50) {
		rnd := rand.New(rand.NewPCG(seed, 8))
		var all []*v1alpha1.Inventory
		x := NewInventories("cluster", nil)
		for range 20 {
			all = slices.Clone(all)
			for range rnd.IntN(4) {
				name := fmt.Sprintf("i%d", rnd.IntN(12))
				at, ok := slices.BinarySearchFunc(all, name, func(i *v1alpha1.Inventory, name string) int { return strings.Compare(i.Name, name) })
				if ok {
					all = slices.Delete(all, at, at+1)
				}
				if !ok || rnd.IntN(3) > 0 {
					all = slices.Insert(all, at, randomInventory(rnd, name))
				}
			}
			listed := all
			if rnd.IntN(5) == 0 {
				listed = slices.Clone(all)
				rnd.Shuffle(len(listed), func(i, j int) { listed[i], listed[j] = listed[j], listed[i] })
			}
			before := x
			var diff Difference
			x, diff = x.Next(listed)
			if d := cmp.Diff(said(NewInventories("cluster", all)), said(x)); d != "" {
				t.Fatalf("seed %d (-anew +next):\n%s", seed, d)
			}
			for i := range 12 {
				file := fmt.Sprintf("f%d", i)
				if before.Unit(file) != x.Unit(file) && !slices.Contains(diff.Files, file) {
					t.Fatalf("seed %d: %s differs and is not said to", seed, file)
				}
			}
		}
	}
}

func randomInventory(rnd *rand.Rand, name string) *v1alpha1.Inventory {
	inv := &v1alpha1.Inventory{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.InventorySpec{Repository: []string{"cluster", "other"}[rnd.IntN(2)], File: "f" + name[1:]}}
	for range rnd.IntN(4) {
		inv.Spec.Objects = append(inv.Spec.Objects, v1alpha1.InventoryObject{Version: "v1", Kind: []string{"ConfigMap", "Secret", "Unknown"}[rnd.IntN(3)],
			Namespace: "default", Name: fmt.Sprintf("o%s-%d", name, rnd.IntN(100))})
	}
	return inv
}

// said is all that inventories say.
func said(x *Inventories) map[string][]string {
	out := map[string][]string{"count": {fmt.Sprint(x.declared(nil))}}
	for inv := range x.Units() {
		out["units"] = append(out["units"], inv.Spec.File+" "+inv.Name)
	}
	for d := range x.mine.All() {
		out["mine"] = append(out["mine"], fmt.Sprint(*d.InventoryObject, d.in.Name))
	}
	for d := range x.others.All() {
		out["others"] = append(out["others"], fmt.Sprint(*d.InventoryObject, d.in.Name))
	}
	return out
}
