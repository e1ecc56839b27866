package registry

import (
	"encoding/json"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// FuzzPatch: whatever a patch says, the result is an object or an error.
func FuzzPatch(f *testing.F) {
	for i, p := range []string{
		`{"spec":{"replicas":3}}`, `[{"op":"add","path":"/metadata/labels/a","value":"b"}]`,
		`{"spec":{"template":{"spec":{"containers":[{"name":"web","$patch":"delete"}]}}}}`, `[{"op":"copy","from":"/","path":"/-"}]`,
		`{"$setElementOrder/x":[1],"metadata":null}`, `null`, `[]`, `{"spec":{"$retainKeys":["a"]}}`,
	} {
		f.Add(uint8(i), []byte(p))
	}
	d := deployment("web")
	r := schema.ResourceFor[*appsv1.Deployment]()
	kinds := []types.PatchType{types.JSONPatchType, types.MergePatchType, types.StrategicMergePatchType}
	f.Fuzz(func(t *testing.T, kind uint8, patch []byte) {
		validation := metav1.FieldValidationStrict
		if kind >= 128 {
			validation = metav1.FieldValidationIgnore
		}
		o, err := patched(t.Context(), r, d.DeepCopy(), kinds[int(kind)%len(kinds)], patch, validation)
		if err == nil && o.GetObjectKind().GroupVersionKind() != r.GVK() {
			t.Errorf("%s makes a %v", patch, o.GetObjectKind().GroupVersionKind())
		}
	})
}

// FuzzSelectors: a selector that can be read selects, or is refused.
func FuzzSelectors(f *testing.F) {
	f.Add("app=web", "metadata.name=web")
	f.Add("app in (web,db),!x", "spec.color!=red,metadata.namespace==default")
	f.Add("a>1", "status.phase=")
	w := widget("v1", "w", `{"color":"red"}`)
	r := &schema.Resource{Group: "example.com", Version: "v1", Kind: "Widget", SelectableFields: []string{"spec.color", "spec.a.b"},
		New: func() schema.Object { return &unstructured.Unstructured{} }}
	f.Fuzz(func(t *testing.T, l, fs string) {
		ls, err := labels.Parse(l)
		if err != nil {
			return
		}
		sel, err := fields.ParseSelector(fs)
		if err != nil || CheckFields(r, sel) != nil {
			return
		}
		opt := client.ListOptions{Labels: ls, Fields: sel}
		set := fields.Set{"metadata.name": "w", "metadata.namespace": "default", "spec.color": "red"}
		if got, want := Matches(r, w, opt), ls.Matches(labels.Set{}) && sel.Matches(set); got != want {
			t.Errorf("%q, %q: selected: %v, want %v", l, fs, got, want)
		}
	})
}

// FuzzFieldPath: any path into any JSON gives a text and no panic.
func FuzzFieldPath(f *testing.F) {
	f.Add("spec.color", []byte(`{"spec":{"color":"red"}}`))
	f.Add("..", []byte(`{"":{"":[1]}}`))
	f.Fuzz(func(t *testing.T, path string, data []byte) {
		var m map[string]any
		if json.Unmarshal(data, &m) != nil {
			return
		}
		_ = valueAt(&unstructured.Unstructured{Object: m}, path)
		_ = valueOf(data, path)
		_ = jsonPath(deployment("web"), path)
	})
}
