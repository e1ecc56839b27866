package custom

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/writ-os/writ/schema"
)

func TestConvertNone(t *testing.T) {
	rows, served := serve(t, load(t, "widgets"), nil)
	beta := widget(t, `{apiVersion: example.com/v1beta1, kind: Widget, metadata: {name: a}, spec: {color: red, extra: 1}}`)
	v1 := widget(t, `{metadata: {name: b}, spec: {color: red, replicas: 1}}`)
	for name, r := range map[string]*schema.Resource{"v1": served["v1"], "stored": rows.Stored} {
		out, err := r.Convert(context.Background(), []schema.Object{beta, v1})
		if err != nil {
			t.Fatal(name, err)
		}
		got := out[0].(*unstructured.Unstructured)
		if got.GetAPIVersion() != "example.com/v1" || got == beta || beta.GetAPIVersion() != "example.com/v1beta1" {
			t.Errorf("%s: %v is not a copy in example.com/v1", name, got.Object)
		}
		if _, ok, _ := unstructured.NestedFieldNoCopy(got.Object, "spec", "extra"); ok {
			t.Errorf("%s: %v has a field that v1 does not know", name, got.Object)
		}
		if out[1] != schema.Object(v1) {
			t.Errorf("%s: an object that has the version already was copied", name)
		}
	}
	other := widget(t, `{apiVersion: example.com/v7, kind: Widget}`)
	if _, err := served["v1"].Convert(context.Background(), []schema.Object{other}); err == nil ||
		err.Error() != "request to convert CR from an invalid group/version: example.com/v7" {
		t.Errorf("convert from an unknown version: %v", err)
	}
}

// webhooked is the definition with a conversion webhook.
func webhooked(t testing.TB, versions ...string) *apiextensionsv1.CustomResourceDefinition {
	def := load(t, "widgets")
	def.Spec.Conversion = &apiextensionsv1.CustomResourceConversion{
		Strategy: apiextensionsv1.WebhookConverter,
		Webhook:  &apiextensionsv1.WebhookConversion{ConversionReviewVersions: versions},
	}
	return def
}

// TestConvertWebhook lets a webhook tell all the lies that upstream catches.
func TestConvertWebhook(t *testing.T) {
	const gvk = "conversion webhook for example.com/v1beta1, Kind=Widget "
	in := `{apiVersion: example.com/v1beta1, kind: Widget, metadata: {name: a, namespace: d, uid: u, labels: {a: b}}, spec: {color: red}}`
	for _, c := range []struct {
		name     string
		versions []string
		lie      func(review, object map[string]any) // changes a good answer
		err      string
		label    string
	}{
		{name: "good", label: "b"},
		{name: "good v1beta1, which names nothing", versions: []string{"v9", "v1beta1"}, label: "b", lie: func(r, _ map[string]any) {
			delete(r, "apiVersion")
			delete(r["response"].(map[string]any), "uid")
		}},
		{name: "labels may change", label: "c", lie: func(_, o map[string]any) { meta(o)["labels"] = map[string]any{"a": "c"} }},
		{name: "labels may go", lie: func(_, o map[string]any) { delete(meta(o), "labels") }},
		{name: "other metadata is restored", label: "b", lie: func(_, o map[string]any) { meta(o)["finalizers"] = []any{"x"} }},
		{name: "bad label", lie: func(_, o map[string]any) { meta(o)["labels"] = map[string]any{"a": "?"} }, err: gvk + `returned invalid metadata in object at index 0: metadata.labels: Invalid value: "?"`},
		{name: "uid", lie: func(r, _ map[string]any) { r["response"].(map[string]any)["uid"] = "x" }, err: gvk + `failed: expected response.uid=`},
		{name: "kind of the answer", lie: func(r, _ map[string]any) { r["kind"] = "Foo" }, err: gvk + `failed: expected webhook response of apiextensions.k8s.io/v1, Kind=ConversionReview, got apiextensions.k8s.io/v1, Kind=Foo`},
		{name: "no response", lie: func(r, _ map[string]any) { delete(r, "response") }, err: gvk + `failed: no response provided`},
		{name: "failure", lie: func(r, _ map[string]any) {
			r["response"].(map[string]any)["result"] = map[string]any{"status": "Failure", "message": "I will not"}
		}, err: gvk + `failed: I will not`},
		{name: "no status", lie: func(r, _ map[string]any) { r["response"].(map[string]any)["result"] = map[string]any{} }, err: gvk + `failed: response.result.status was '', not 'Success'`},
		{name: "count", lie: func(r, _ map[string]any) { r["response"].(map[string]any)["convertedObjects"] = []any{} }, err: gvk + `returned 0 objects, expected 1`},
		{name: "version", lie: func(_, o map[string]any) { o["apiVersion"] = "example.com/v2" }, err: gvk + `returned invalid converted object at index 0: invalid groupVersion (expected example.com/v1, received example.com/v2)`},
		{name: "kind", lie: func(_, o map[string]any) { o["kind"] = "Foo" }, err: gvk + `returned invalid converted object at index 0: invalid kind (expected Widget, received Foo)`},
		{name: "name", lie: func(_, o map[string]any) { meta(o)["name"] = "b" }, err: gvk + `returned invalid converted object at index 0: must have the same name: a != b`},
		{name: "namespace", lie: func(_, o map[string]any) { meta(o)["namespace"] = "b" }, err: gvk + `returned invalid converted object at index 0: must have the same namespace: d != b`},
		{name: "UID", lie: func(_, o map[string]any) { meta(o)["uid"] = "b" }, err: gvk + `returned invalid converted object at index 0: must have the same UID: u != b`},
		{name: "no metadata", lie: func(_, o map[string]any) { o["metadata"] = []any{} }, err: gvk + `returned invalid`},
		{name: "versions", versions: []string{"v9"}, err: "no supported conversion review versions"},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.versions == nil {
				c.versions = []string{"v1"}
			}
			post := func(_ context.Context, review []byte) ([]byte, error) {
				r := jsonObject(review)
				request := r["request"].(map[string]any)
				object := request["objects"].([]any)[0].(map[string]any)
				object["apiVersion"] = request["desiredAPIVersion"]
				delete(r, "request")
				r["response"] = map[string]any{"uid": request["uid"], "result": map[string]any{"status": "Success"}, "convertedObjects": []any{object}}
				if c.lie != nil {
					c.lie(r, object)
				}
				return json.Marshal(r)
			}
			_, served := serve(t, webhooked(t, c.versions...), post)
			out, err := served["v1"].Convert(context.Background(), []schema.Object{widget(t, in)})
			if c.err != "" {
				if err == nil || !strings.HasPrefix(err.Error(), c.err) {
					t.Fatalf("error %v, want %s", err, c.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if got := out[0].GetLabels()["a"]; got != c.label {
				t.Errorf("label %q, want %q", got, c.label)
			}
			if f := out[0].GetFinalizers(); f != nil {
				t.Errorf("finalizers %v were not restored", f)
			}
		})
	}
}

func meta(o map[string]any) map[string]any { return o["metadata"].(map[string]any) }

// TestStoredRow keeps its pointer while the definition changes, and converts to
// the version that is stored now.
func TestStoredRow(t *testing.T) {
	def := load(t, "widgets")
	rows, _ := serve(t, def, nil)
	def = def.DeepCopy()
	def.Spec.Versions[0].Storage, def.Spec.Versions[1].Storage = false, true
	next, err := Resources(def, rows, nil)
	if err != nil {
		t.Fatal(err)
	}
	if next.Stored != rows.Stored {
		t.Fatal("the stored row has another pointer")
	}
	out, err := rows.Stored.Convert(context.Background(), []schema.Object{widget(t, `{metadata: {name: a}, spec: {color: red}}`)})
	if err != nil {
		t.Fatal(err)
	}
	if got := out[0].GetObjectKind().GroupVersionKind().Version; got != "v1beta1" {
		t.Errorf("stored as %s, want v1beta1", got)
	}
	if rows.Stored.StoragePrefix != "example.com/widgets" || rows.Stored.Version != "" {
		t.Errorf("stored row is %+v", rows.Stored)
	}
}
