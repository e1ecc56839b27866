package custom

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestDecode(t *testing.T) {
	_, served := serve(t, load(t, "widgets"), nil)
	v := served["v1"].Custom.(*Version)
	for _, c := range []struct {
		name, in, out string
		unknown       []string
		err           string
	}{
		{name: "unknown fields go", in: `{spec: {color: red, extra: 1, parts: [{name: a, x: 1}]}, top: 1}`,
			out:     `{spec: {color: red, parts: [{name: a}]}}`,
			unknown: []string{"spec.extra", "spec.parts[0].x", "top"}},
		{name: "kept where the schema says so", in: `{spec: {color: red, free: {a: {b: 1}, known: x}}}`,
			out: `{spec: {color: red, free: {a: {b: 1}, known: x}}}`},
		{name: "embedded objects", in: `{spec: {color: red, strict: {apiVersion: v1, kind: Pod, metadata: {name: a, extra: 1}, spec: {a: x, b: y}, c: 1}}}`,
			out:     `{spec: {color: red, strict: {apiVersion: v1, kind: Pod, metadata: {name: a}, spec: {a: x}}}}`,
			unknown: []string{"spec.strict.c", "spec.strict.spec.b", "spec.strict.metadata.extra"}},
		{name: "nulls", in: `{spec: {color: null, size: null, when: null, labels: {a: null}}}`,
			out: `{spec: {color: null, when: null, labels: {a: null}}}`},
		{name: "unknown metadata", in: `{metadata: {name: a, extra: 1}, spec: {color: red}}`,
			out: `{metadata: {name: a}, spec: {color: red}}`, unknown: []string{"metadata.extra"}},
		{name: "metadata of the wrong type", in: `{metadata: {labels: {a: 1}}, spec: {color: red}}`,
			err: "json: cannot unmarshal number into Go struct field ObjectMeta.labels of type string"},
		{name: "embedded metadata of the wrong type", in: `{spec: {strict: {apiVersion: v1, kind: Pod, metadata: 7}}}`,
			err: "spec.strict.metadata: Invalid value: 7: json: cannot unmarshal number into Go value of type v1.ObjectMeta"},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := widget(t, c.in).Object
			unknown, err := v.Decode(o)
			if c.err != "" {
				if err == nil || !strings.Contains(err.Error(), c.err) {
					t.Fatalf("error %v, want %s", err, c.err)
				}
				v.Prune(o) // what is stored is repaired, not refused
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(widget(t, c.out).Object, o); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(c.unknown, unknown); diff != "" {
				t.Errorf("unknown fields (-want +got):\n%s", diff)
			}
		})
	}
}

func TestDefault(t *testing.T) {
	_, served := serve(t, load(t, "widgets"), nil)
	v := served["v1"].Custom
	o := widget(t, `{spec: {color: null, parts: [{name: a}, {name: b, count: 1}]}}`).Object
	v.Prune(o)
	v.Default(o)
	want := widget(t, `{spec: {color: green, replicas: 1, parts: [{name: a, count: 3}, {name: b, count: 1}]}}`).Object
	if diff := cmp.Diff(want, o); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// settle prunes and fills in, as every object is before it is shown.
func settle(v *Version, o map[string]any) {
	v.Prune(o)
	v.Default(o)
}

// FuzzContent: nothing panics, and what has been pruned and filled in stays as
// it is.
func FuzzContent(f *testing.F) {
	f.Add(`{"metadata":{"name":"a","labels":{"x":1}},"spec":{"color":null,"parts":[{"name":"a"},null,7],"free":{"a":[1]}}}`)
	f.Add(`{"apiVersion":7,"kind":{},"metadata":[],"spec":{"strict":{"metadata":{"name":7},"kind":[]},"template":{"metadata":null}}}`)
	f.Add(`{"spec":[{"a":{}}],"status":{"conditions":[[[]]]}}`)
	_, served := serve(f, load(f, "widgets"), nil)
	v := served["v1"].Custom.(*Version)
	f.Fuzz(func(t *testing.T, text string) {
		o := jsonObject([]byte(text))
		c := runtime.DeepCopyJSON(floats(o))
		_, _ = v.Decode(runtime.DeepCopyJSON(c))
		settle(v, c)
		again := runtime.DeepCopyJSON(c)
		settle(v, again)
		if !reflect.DeepEqual(c, again) {
			t.Errorf("not settled (-first +second):\n%s", cmp.Diff(c, again))
		}
	})
}

// floats is a JSON object as encoding/json reads it, in the types that
// DeepCopyJSON takes.
func floats(o map[string]any) map[string]any {
	if o == nil {
		return map[string]any{}
	}
	return o
}

// TestSettleRandom: whatever an object holds, pruning and filling it in a second
// time changes nothing, and neither validation panics.
func TestSettleRandom(t *testing.T) {
	_, served := serve(t, load(t, "widgets"), nil)
	v := served["v1"].Custom.(*Version)
	r := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		o := map[string]any{"apiVersion": "example.com/v1", "kind": "Widget", "spec": randomValue(r, 4), "status": randomValue(r, 3), "metadata": randomValue(r, 2)}
		c := runtime.DeepCopyJSON(o)
		settle(v, c)
		again := runtime.DeepCopyJSON(c)
		settle(v, again)
		if !reflect.DeepEqual(c, again) {
			t.Fatalf("%v is not settled (-first +second):\n%s", o, cmp.Diff(c, again))
		}
		u := &unstructured.Unstructured{Object: c}
		v.Validate(t.Context(), u, nil)
		v.ValidateStatus(t.Context(), u, &unstructured.Unstructured{Object: again})
		if errs := v.Validate(t.Context(), u, &unstructured.Unstructured{Object: again}); len(v.Validate(t.Context(), u, nil)) == 0 && len(errs) > 0 {
			t.Fatalf("%v is valid, and not when written again: %v", c, errs)
		}
	}
}

// randomValue makes JSON out of the names that the schema knows, and some that
// it does not.
func randomValue(r *rand.Rand, depth int) any {
	names := []string{"color", "replicas", "size", "port", "when", "ratio", "free", "template", "strict", "labels", "tags", "parts",
		"choice", "name", "count", "a", "b", "metadata", "spec", "kind", "apiVersion", "known", "conditions", "selector", "extra"}
	switch n := r.IntN(10); {
	case n < 4 && depth > 0:
		m := map[string]any{}
		for range r.IntN(6) {
			m[names[r.IntN(len(names))]] = randomValue(r, depth-1)
		}
		return m
	case n < 6 && depth > 0:
		l := []any{}
		for range r.IntN(4) {
			l = append(l, randomValue(r, depth-1))
		}
		return l
	case n == 6:
		return nil
	case n == 7:
		return int64(r.IntN(20) - 2)
	case n == 8:
		return r.IntN(2) == 0
	}
	return []string{"red", "green", "x", "", "a/b", "2026-01-02T03:04:05Z"}[r.IntN(6)]
}
