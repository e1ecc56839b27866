package registry

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kjson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
)

// manifests are declarations of many kinds: those that everybody must accept,
// and random objects of every kind.
func manifests(t testing.TB, rounds int) (out []map[string]any) {
	t.Helper()
	files, err := filepath.Glob("../../schema/validate/testdata/valid/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no manifests: %v", err)
	}
	add := func(data []byte) {
		var v map[string]any
		if err := kjson.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		out = append(out, v)
	}
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range bytes.Split(data, []byte("\n---\n")) {
			j, err := yaml.YAMLToJSON(doc)
			if err != nil {
				t.Fatal(err)
			}
			add(j)
		}
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	for n, r := range schema.Resources {
		if r.New == nil {
			continue
		}
		for round := range rounds {
			o := r.New()
			x := &filler{rnd: rand.New(rand.NewPCG(seed, uint64(n*100+round))), values: rand.New(rand.NewPCG(seed, 1)), keyed: round%2 == 0}
			x.fill(reflect.ValueOf(o).Elem(), 0)
			o.GetObjectKind().SetGroupVersionKind(r.GVK())
			o.SetManagedFields(nil)
			data, err := json.Marshal(o)
			if err != nil {
				t.Fatal(err)
			}
			add(data)
		}
	}
	return out
}

// TestDeclaredIsWhatTheManagerSays: an object that is made of a declaration in
// one walk is the object that the field manager of Kubernetes makes, with the
// same owners, and what the manager refuses is not made.
func TestDeclaredIsWhatTheManagerSays(t *testing.T) {
	f := newFieldManagers(slog.New(slog.DiscardHandler), nil)
	rnd := rand.New(rand.NewPCG(rand.Uint64(), 2))
	made, left, refused := 0, 0, 0
	for _, m := range manifests(t, 6) {
		for round := range 8 {
			patch := (&unstructured.Unstructured{Object: m}).DeepCopy()
			if round > 0 {
				unsettle(rnd, patch.Object)
			}
			if round%2 == 0 {
				delete(patch.Object, "status") // is left to the manager
			}
			r := schema.ByGVK(patch.GroupVersionKind())
			if r == nil {
				continue
			}
			patch.SetName("named") // as the request does
			before := patch.DeepCopy()
			got, ok := f.declare(r, patch, "m")
			if !reflect.DeepEqual(before, patch) {
				t.Fatalf("the declaration is changed: %v", before)
			}
			if !ok {
				left++
				continue
			}
			want, err := f.apply(t.Context(), r, "", empty(working(r)), patch, "m", false)
			if err != nil {
				refused++
				t.Errorf("%v is made of what is refused: %v\n%s", r, err, text(t, patch))
				continue
			}
			defaults.Apply(got)
			if got, want := owners(got), owners(want); got != want {
				t.Fatalf("%v:\n%s\nwant\n%s\n%s", r, got, want, text(t, patch))
			}
			got.SetManagedFields(nil)
			want.SetManagedFields(nil)
			if got, want := text(t, got), text(t, want); !bytes.Equal(got, want) {
				t.Fatalf("%v:\n%s\nwant\n%s", r, got, want)
			}
			made++
		}
	}
	t.Logf("%d made, %d left to the manager", made, left)
	if made < left/4 || left == 0 {
		t.Errorf("%d made, %d left to the manager: nothing was tested", made, left)
	}
}

func text(t testing.TB, v any) []byte {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// unsettle changes something somewhere in an object.
func unsettle(rnd *rand.Rand, v any) {
	values := []any{"", "x", `a"b\c`, "<é>", int64(0), int64(7), 1.5, true, nil, map[string]any{}, []any{}, []any{"x", "x"}, map[string]any{"name": "x"}}
	pick := func() any { return values[rnd.IntN(len(values))] }
	switch v := v.(type) {
	case map[string]any:
		keys := slices.DeleteFunc(slices.Sorted(maps.Keys(v)), func(k string) bool { return k == "apiVersion" || k == "kind" })
		if len(keys) == 0 || rnd.IntN(8) == 0 {
			v["added"] = pick()
			return
		}
		k := keys[rnd.IntN(len(keys))]
		if rnd.IntN(4) > 0 {
			unsettle(rnd, v[k])
		} else if rnd.IntN(3) == 0 {
			delete(v, k)
		} else {
			v[k] = pick()
		}
	case []any:
		if len(v) == 0 {
			return
		}
		if i := rnd.IntN(len(v)); rnd.IntN(3) > 0 {
			unsettle(rnd, v[i])
		} else {
			v[i] = v[rnd.IntN(len(v))] // the same twice
		}
	}
}
