package registry

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// widgetSchema is what a definition of widgets says: v1 calls the value "value",
// v2 "text"; nothing else but replicas is known.
type widgetSchema struct{ value string }

func (d widgetSchema) Prune(o map[string]any) (unknown []string) {
	spec, _ := o["spec"].(map[string]any)
	for _, k := range slices.Sorted(maps.Keys(spec)) {
		if k != d.value && k != "replicas" && k != "color" {
			delete(spec, k)
			unknown = append(unknown, "spec."+k)
		}
	}
	return unknown
}

func (d widgetSchema) Default(o map[string]any) {
	if spec, ok := o["spec"].(map[string]any); ok && spec["color"] == nil {
		spec["color"] = "red"
	}
}

func (d widgetSchema) Validate(_ context.Context, o, _ *unstructured.Unstructured) field.ErrorList {
	if v, _, _ := unstructured.NestedString(o.Object, "spec", d.value); v == "bad" {
		return field.ErrorList{field.Invalid(field.NewPath("spec", d.value), v, "is bad")}
	}
	return nil
}

func (widgetSchema) Types() managedfields.TypeConverter {
	return managedfields.NewDeducedTypeConverter()
}
func (widgetSchema) UID() string { return "" }
func (widgetSchema) ScalePaths() (spec, status, selector string) {
	return ".spec.replicas", ".status.replicas", ".status.selector"
}

// serveWidgets adds a custom resource with two versions to a cluster.
func serveWidgets(t *testing.T, g *Registry) (v1, v2 *schema.Resource) {
	t.Helper()
	stored := &schema.Resource{
		Group: "example.com", Kind: "Widget", ListKind: "WidgetList", Plural: "widgets", Namespaced: true, StoragePrefix: "example.com/widgets",
		New: func() schema.Object { return &unstructured.Unstructured{Object: map[string]any{}} },
	}
	stored.Convert = convertWidgets("v1", "value", "text")
	row := func(version, value, other string) *schema.Resource {
		r := *stored
		r.Version, r.Storage, r.Status, r.Scale = version, stored, true, true
		r.Custom, r.Convert = widgetSchema{value}, convertWidgets(version, value, other)
		r.SelectableFields = []string{"spec." + value}
		return &r
	}
	v1, v2 = row("v1", "value", "text"), row("v2", "text", "value")
	live := &schema.Live{}
	live.Publish(schema.NewCatalog(v1, v2))
	g.cfg.Catalog, g.fields.catalog = live, live
	if err := g.store.Add(t.Context(), stored); err != nil {
		t.Fatal(err)
	}
	return v1, v2
}

func convertWidgets(version, value, other string) func(context.Context, []schema.Object) ([]schema.Object, error) {
	return func(_ context.Context, in []schema.Object) ([]schema.Object, error) {
		out := slices.Clone(in)
		for i, o := range in {
			if o.GetObjectKind().GroupVersionKind().Version == version {
				continue
			}
			u := o.DeepCopyObject().(*unstructured.Unstructured)
			u.SetAPIVersion("example.com/" + version)
			if spec, ok := u.Object["spec"].(map[string]any); ok && spec[other] != nil {
				spec[value] = spec[other]
				delete(spec, other)
			}
			out[i] = u
		}
		return out, nil
	}
}

func widget(version, name, spec string) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	text := fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Widget","metadata":{"name":%q,"namespace":"default"},"spec":%s,"status":{"replicas":9}}`, version, name, spec)
	if err := u.UnmarshalJSON([]byte(text)); err != nil {
		panic(err)
	}
	return u
}

func specOf(o schema.Object) string {
	b, _ := json.Marshal(o.(*unstructured.Unstructured).Object["spec"])
	return string(b)
}

func owners(o metav1.Object) string {
	var out []string
	for _, e := range o.GetManagedFields() {
		out = append(out, fmt.Sprintf("%s %s %s/%s %s", e.Manager, e.Operation, e.APIVersion, e.Subresource, e.FieldsV1.GetRawBytes()))
	}
	return strings.Join(out, "\n")
}

func TestCustomResource(t *testing.T) {
	g, _ := open(t, t.TempDir())
	v1, v2 := serveWidgets(t, g)
	ctx, k := t.Context(), key("w")
	created, err := g.Create(ctx, v2, widget("v2", "w", `{"text":"hello","junk":1}`), client.WriteOptions{FieldManager: "a"})
	if err != nil {
		t.Fatal(err)
	}
	if got := specOf(created); got != `{"color":"red","text":"hello"}` || created.GetGeneration() != 1 {
		t.Errorf("created %s at generation %d", got, created.GetGeneration())
	}
	if created.(*unstructured.Unstructured).Object["status"] != nil {
		t.Error("a create sets the status")
	}
	if got := owners(created); got != `a Update example.com/v2/ {"f:spec":{".":{},"f:color":{},"f:text":{}}}` {
		t.Errorf("owners:\n%s", got)
	}
	if it := g.store.Get(v1, k); it.Object.GetObjectKind().GroupVersionKind().Version != "v1" || specOf(it.Object) != `{"color":"red","value":"hello"}` {
		t.Errorf("stored %s", it.JSON())
	}

	// Each version shows it in its own words, the same object to all readers.
	for r, want := range map[*schema.Resource]string{v1: `{"color":"red","value":"hello"}`, v2: `{"color":"red","text":"hello"}`} {
		got, err := g.Get(ctx, r, k)
		again, _ := g.Get(ctx, r, k)
		if err != nil || specOf(got) != want || got != again {
			t.Errorf("%s shows %s, %v", r.Version, specOf(got), err)
		}
	}

	// An update without resourceVersion is refused, one with it counts.
	next := widget("v1", "w", `{"value":"two"}`)
	if _, err := g.Update(ctx, v1, next, client.WriteOptions{}); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "metadata.resourceVersion: Invalid value: 0: must be specified for an update") {
		t.Errorf("unconditional update: %v", err)
	}
	next.SetResourceVersion(created.GetResourceVersion())
	updated, err := g.Update(ctx, v1, next, client.WriteOptions{FieldManager: "b"})
	if err != nil || updated.GetGeneration() != 2 || specOf(updated) != `{"color":"red","value":"two"}` {
		t.Fatalf("updated %v, %v", updated, err)
	}
	if got, want := owners(updated), `a Update example.com/v2/ {"f:spec":{".":{},"f:color":{}}}`+"\n"+
		`b Update example.com/v1/ {"f:spec":{"f:value":{}}}`; got != want {
		t.Errorf("owners:\n%s\nwant\n%s", got, want)
	}

	// The status door lets the status through and nothing else.
	status := updated.DeepCopyObject().(*unstructured.Unstructured)
	status.SetLabels(map[string]string{"a": "b"})
	status.Object["spec"] = map[string]any{"value": "three"}
	status.Object["status"] = map[string]any{"replicas": int64(2), "selector": "a=b"}
	updated, err = g.Update(ctx, v1, status, client.WriteOptions{FieldManager: "c", Subresource: "status"})
	if err != nil || updated.GetGeneration() != 2 || specOf(updated) != `{"color":"red","value":"two"}` || updated.GetLabels() != nil {
		t.Fatalf("status: %v, %v", updated, err)
	}
	if !strings.HasSuffix(owners(updated), `c Update example.com/v1/status {"f:status":{".":{},"f:replicas":{},"f:selector":{}}}`) {
		t.Errorf("owners:\n%s", owners(updated))
	}

	// A field selector holds for the version of the request.
	sel, _ := g.List(ctx, v2, client.ListOptions{Fields: fieldsOf(t, "spec.text=two")})
	if len(sel.Items) != 1 || specOf(sel.Items[0]) != `{"color":"red","text":"two"}` {
		t.Errorf("selected %v", sel.Items)
	}
	if _, err := g.List(ctx, v1, client.ListOptions{Fields: fieldsOf(t, "spec.text=two")}); !apierrors.IsBadRequest(err) {
		t.Errorf("a field of another version: %v", err)
	}
	if err := g.Delete(ctx, v2, k, client.DeleteOptions{}); err != nil || g.store.Get(v1, k) != nil {
		t.Errorf("delete: %v", err)
	}
}

func TestCustomPatches(t *testing.T) {
	g, _ := open(t, t.TempDir())
	v1, v2 := serveWidgets(t, g)
	ctx, k := t.Context(), key("w")
	apply := []byte(`{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"w"},"spec":{"value":"x","replicas":3}}`)
	o, created, err := g.PatchOrCreate(ctx, v1, k, types.ApplyPatchType, apply, client.WriteOptions{FieldManager: "a"})
	if err != nil || !created || specOf(o) != `{"color":"red","replicas":3,"value":"x"}` {
		t.Fatalf("apply: %v, %v, %v", o, created, err)
	}
	o, err = g.Patch(ctx, v2, k, types.MergePatchType, []byte(`{"spec":{"text":"y","junk":true}}`), client.WriteOptions{FieldManager: "b"})
	if err != nil || specOf(o) != `{"color":"red","replicas":3,"text":"y"}` || o.GetGeneration() != 2 {
		t.Fatalf("patch: %v, %v", o, err)
	}
	_, err = g.Patch(ctx, v2, k, types.MergePatchType, []byte(`{"spec":{"junk":true}}`), client.WriteOptions{FieldValidation: "Strict"})
	if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `strict decoding error: unknown field "spec.junk"`) {
		t.Errorf("strict patch: %v", err)
	}
	if _, err = g.Patch(ctx, v2, k, types.StrategicMergePatchType, []byte(`{}`), client.WriteOptions{}); !apierrors.IsUnsupportedMediaType(err) {
		t.Errorf("strategic patch: %v", err)
	}
	if _, err = g.Patch(ctx, v1, k, types.MergePatchType, []byte(`{"spec":{"value":"bad"}}`), client.WriteOptions{}); !apierrors.IsInvalid(err) ||
		!strings.Contains(err.Error(), `Widget.example.com "w" is invalid: spec.value: Invalid value: "bad": is bad`) {
		t.Errorf("invalid patch: %v", err)
	}
	// The scale is a part of it, with its own owners.
	s, err := g.GetSubresource(ctx, v1, k, "scale")
	if err != nil || s.(*autoscalingv1.Scale).Spec.Replicas != 3 {
		t.Fatalf("scale: %v, %v", s, err)
	}
	_, err = g.Patch(ctx, v1, k, types.MergePatchType, []byte(`{"spec":{"replicas":5}}`), client.WriteOptions{FieldManager: "hpa", Subresource: "scale"})
	if err != nil {
		t.Fatal(err)
	}
	o, _ = g.Get(ctx, v1, k)
	if specOf(o) != `{"color":"red","replicas":5,"value":"y"}` || !strings.Contains(owners(o), `hpa Update example.com/v1/scale {"f:spec":{"f:replicas":{}}}`) {
		t.Errorf("scaled to %s, owners\n%s", specOf(o), owners(o))
	}
}

func fieldsOf(t *testing.T, s string) fields.Selector {
	t.Helper()
	sel, err := fields.ParseSelector(s)
	if err != nil {
		t.Fatal(err)
	}
	return sel
}
