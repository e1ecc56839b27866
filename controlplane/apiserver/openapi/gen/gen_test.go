package main

import (
	"bytes"
	"encoding/json"
	"reflect"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/apiserver/openapi"
)

// TestFresh fails when the embedded documents are not those of the types and of
// the resource table as they are now.
func TestFresh(t *testing.T) {
	docs, err := documents()
	if err != nil {
		t.Fatal(err)
	}
	for path, doc := range docs {
		want, err := json.Marshal(doc)
		if err != nil {
			t.Fatal(err)
		}
		have := openapi.Lookup(path)
		if have == nil {
			t.Errorf("%s is not embedded: run go generate ./controlplane/apiserver/openapi", path)
			continue
		}
		got, err := have.JSON()
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Errorf("%s is stale: run go generate ./controlplane/apiserver/openapi", path)
		}
	}
	plain, pb, err := swagger(docs)
	if err != nil {
		t.Fatal(err)
	}
	haveDoc, havePB, err := openapi.V2()
	if err != nil {
		t.Fatal(err)
	}
	for _, v := range []struct {
		have *openapi.Document
		want []byte
	}{{haveDoc, plain}, {havePB, pb}} {
		if got, err := v.have.JSON(); err != nil || !bytes.Equal(got, v.want) {
			t.Errorf("%s is stale (%v): run go generate ./controlplane/apiserver/openapi", v.have.Path, err)
		}
	}
}

// TestSchema looks at one type for everything that clients use.
func TestSchema(t *testing.T) {
	src, err := findSources(packages())
	if err != nil {
		t.Fatal(err)
	}
	b := &builder{src: src, schemas: object{}}
	if _, err := b.ref(reflect.TypeFor[corev1.Pod]()); err != nil {
		t.Fatal(err)
	}
	data, _ := json.Marshal(b.schemas)
	var schemas map[string]struct {
		Description string
		Type        string
		Format      string
		Required    []string
		OneOf       []struct{ Type string }
		Properties  map[string]struct {
			Description, Type string
			Enum              []string
			ListType          string   `json:"x-kubernetes-list-type"`
			Keys              []string `json:"x-kubernetes-list-map-keys"`
			Strategy          string   `json:"x-kubernetes-patch-strategy"`
			MergeKey          string   `json:"x-kubernetes-patch-merge-key"`
		}
	}
	if err := json.Unmarshal(data, &schemas); err != nil {
		t.Fatal(err)
	}
	spec := schemas["io.k8s.api.core.v1.PodSpec"]
	c := spec.Properties["containers"]
	if c.Strategy != "merge" || c.MergeKey != "name" || c.ListType != "map" || len(c.Keys) != 1 || c.Type != "array" || c.Description == "" {
		t.Errorf("containers: %+v", c)
	}
	if len(spec.Required) != 1 || spec.Required[0] != "containers" {
		t.Errorf("required of a pod's spec: %v", spec.Required)
	}
	if p := spec.Properties["restartPolicy"]; len(p.Enum) != 3 {
		t.Errorf("restartPolicy: %+v", p)
	}
	if p := schemas["io.k8s.api.core.v1.Pod"].Properties; p["kind"].Type != "string" || p["apiVersion"].Description == "" {
		t.Errorf("fields of inlined types: %+v", p)
	}
	if q := schemas["io.k8s.apimachinery.pkg.apis.meta.v1.Time"]; q.Type != "string" || q.Format != "date-time" {
		t.Errorf("time: %+v", q)
	}
	if q := schemas["io.k8s.apimachinery.pkg.api.resource.Quantity"]; len(q.OneOf) != 2 {
		t.Errorf("quantity: %+v", q)
	}
}

func TestParseComment(t *testing.T) {
	docs, err := parsePackage("testdata/types")
	if err != nil {
		t.Fatal(err)
	}
	d := docs["Thing"]
	if want := "Thing is a thing of two lines.\n\nIt has:\n- a first point\n- a second\nand an end."; d.comment.text != want {
		t.Errorf("text %q, want %q", d.comment.text, want)
	}
	f := d.fields["Items"]
	if f.text != "Items of the thing." || f.marker("listType") != "map" || len(f.markers["listMapKey"]) != 2 || !f.has("optional") {
		t.Errorf("field: %+v", f)
	}
	if v := docs["Color"].values; len(v) != 2 || v[0] != (enumValue{"Red", "Red is red."}) {
		t.Errorf("enumeration: %+v", v)
	}
}
