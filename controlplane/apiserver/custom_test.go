package apiserver_test

import (
	"bufio"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/custom"
)

// widgets is a definition of two versions with a default, a column and a
// selectable field.
func widgets() *apiextensionsv1.CustomResourceDefinition {
	shape := &apiextensionsv1.CustomResourceValidation{OpenAPIV3Schema: &apiextensionsv1.JSONSchemaProps{
		Type: "object",
		Properties: map[string]apiextensionsv1.JSONSchemaProps{"spec": {
			Type: "object",
			Properties: map[string]apiextensionsv1.JSONSchemaProps{
				"color": {Type: "string", Default: &apiextensionsv1.JSON{Raw: []byte(`"red"`)}},
				"size":  {Type: "integer"},
			},
		}},
	}}
	version := func(name string, storage bool) apiextensionsv1.CustomResourceDefinitionVersion {
		return apiextensionsv1.CustomResourceDefinitionVersion{
			Name: name, Served: true, Storage: storage, Schema: shape, Deprecated: !storage,
			Subresources:             &apiextensionsv1.CustomResourceSubresources{Status: &apiextensionsv1.CustomResourceSubresourceStatus{}},
			AdditionalPrinterColumns: []apiextensionsv1.CustomResourceColumnDefinition{{Name: "Size", Type: "integer", JSONPath: ".spec.size"}},
			SelectableFields:         []apiextensionsv1.SelectableField{{JSONPath: ".spec.color"}},
		}
	}
	def := &apiextensionsv1.CustomResourceDefinition{
		ObjectMeta: metav1.ObjectMeta{Name: "widgets.example.com", UID: "u"},
		Spec: apiextensionsv1.CustomResourceDefinitionSpec{
			Group: "example.com", Scope: apiextensionsv1.NamespaceScoped,
			Names:    apiextensionsv1.CustomResourceDefinitionNames{Plural: "widgets", Kind: "Widget", ShortNames: []string{"wg"}},
			Versions: []apiextensionsv1.CustomResourceDefinitionVersion{version("v1", true), version("v1beta1", false)},
		},
	}
	custom.Defaults(def)
	return def
}

// define serves a definition, as its controller does.
func (c *cluster) define(t *testing.T, def *apiextensionsv1.CustomResourceDefinition) *custom.Rows {
	t.Helper()
	rows, err := custom.Resources(def, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.store.Add(t.Context(), rows.Stored); err != nil {
		t.Fatal(err)
	}
	c.live.Publish(schema.NewCatalog(rows.Served...))
	return rows
}

const widgetPath = "/apis/example.com/v1/namespaces/default/widgets"

func TestCustomResource(t *testing.T) {
	c := newCluster(t)
	if r := c.do(t, "admin", "GET", widgetPath, ""); r.code != 404 {
		t.Fatalf("before it is defined: %d", r.code)
	}
	c.define(t, widgets())
	const body = `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"},"spec":{"size":3,"shape":"round","size":4}}`
	made := c.do(t, "admin", "POST", widgetPath, body)
	if got := strings.Join(made.header["Warning"], ";"); made.code != 201 || got != `299 - "duplicate field \"spec.size\"";299 - "unknown field \"spec.shape\""` {
		t.Fatalf("create: %d %s %s", made.code, got, made.body)
	}
	for _, tt := range []struct {
		name, method, path, body, accept string
		code                             int
		want                             string
	}{
		{"get", "GET", widgetPath + "/a", "", "", 200, `"spec":{"color":"red","size":4}`},
		{"other version", "GET", "/apis/example.com/v1beta1/namespaces/default/widgets/a", "", "", 200, `{"apiVersion":"example.com/v1beta1"`},
		{"list of the other version", "GET", "/apis/example.com/v1beta1/widgets", "", "", 200, `"items":[{"apiVersion":"example.com/v1beta1"`},
		{"list", "GET", widgetPath, "", "", 200, `{"apiVersion":"example.com/v1","items":[{"apiVersion":"example.com/v1"`},
		{"selected", "GET", widgetPath + "?fieldSelector=spec.color%3Dred", "", "", 200, `"name":"a"`},
		{"not selected", "GET", widgetPath + "?fieldSelector=spec.color%3Dblue", "", "", 200, `"items":[]`},
		{"not selectable", "GET", widgetPath + "?fieldSelector=spec.size%3D4", "", "", 400, `field label not supported: spec.size`},
		{"table", "GET", widgetPath, "", "application/json;as=Table;v=v1;g=meta.k8s.io", 200, `"cells":["a",4]`},
		{"columns", "GET", widgetPath, "", "application/json;as=Table;v=v1;g=meta.k8s.io", 200, `"name":"Size","type":"integer"`},
		{"metadata", "GET", widgetPath + "/a", "", "application/json;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", 200, `{"kind":"PartialObjectMetadata","apiVersion":"meta.k8s.io/v1","metadata":{`},
		{"metadata in protobuf", "GET", widgetPath + "/a", "", "application/vnd.kubernetes.protobuf;as=PartialObjectMetadata;v=v1;g=meta.k8s.io", 200, "k8s\x00"},
		{"yaml", "GET", widgetPath + "/a", "", "application/yaml", 200, "apiVersion: example.com/v1\n"},
		{"protobuf", "GET", widgetPath + "/a", "", "application/vnd.kubernetes.protobuf", 406, "only the following media types are accepted"},
		{"cbor", "GET", widgetPath + "/a", "", "application/cbor", 406, "only the following media types are accepted: application/json, application/yaml, application/vnd.kubernetes.protobuf"},
		{"strict", "POST", widgetPath + "?fieldValidation=Strict", body, "", 400, `Widget in version \"v1\" cannot be handled as a Widget: strict decoding error: duplicate field \"spec.size\", unknown field \"spec.shape\"`},
		{"no kind", "POST", widgetPath, `{"metadata":{"name":"b"}}`, "", 400, `Object 'Kind' is missing in`},
		{"other kind", "POST", widgetPath, `{"apiVersion":"example.com/v1","kind":"Gadget","metadata":{"name":"b"}}`, "", 422, `must be Widget`},
		{"other apiVersion", "POST", widgetPath, `{"apiVersion":"example.com/v9","kind":"Widget","metadata":{"name":"b"}}`, "", 400, `the API version in the data (example.com/v9) does not match the expected API version (example.com/v1)`},
		{"bad metadata", "POST", widgetPath, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":5}`, "", 400, `Widget in version`},
		{"method", "PUT", widgetPath, `{}`, "", 405, `update is not supported on resources of kind \"widgets.example.com\"`},
		{"no subresource", "GET", widgetPath + "/a/scale", "", "", 404, `widgets.example.com \"a\" not found`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := c.do(t, "admin", tt.method, tt.path, tt.body, "Accept: "+tt.accept)
			if r.code != tt.code || !strings.Contains(r.body, tt.want) {
				t.Errorf("%d %s, want %d with %s", r.code, r.body, tt.code, tt.want)
			}
		})
	}
	if r := c.do(t, "admin", "GET", "/apis/example.com/v1beta1/widgets", ""); r.header.Get("Warning") != `299 - "example.com/v1beta1 Widget is deprecated; use example.com/v1 Widget"` {
		t.Errorf("deprecated version: %q", r.header.Get("Warning"))
	}
}

func TestCustomWatch(t *testing.T) {
	c := newCluster(t)
	c.define(t, widgets())
	req, err := http.NewRequestWithContext(t.Context(), "GET", c.addr+"/apis/example.com/v1beta1/widgets?watch=1", nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer admin")
	resp, err := c.http(t).Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if r := c.do(t, "admin", "POST", widgetPath, `{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}`); r.code != 201 {
		t.Fatalf("create: %d %s", r.code, r.body)
	}
	line, err := bufio.NewReader(resp.Body).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, `{"type":"ADDED","object":{"apiVersion":"example.com/v1beta1"`) {
		t.Fatalf("event %q %v", line, err)
	}
}

// TestCustomDiscovery: a definition is in every document as soon as it is
// served, and in none when it has gone.
func TestCustomDiscovery(t *testing.T) {
	c := newCluster(t)
	c.define(t, widgets())
	const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	first := c.do(t, "admin", "GET", "/apis", "", "Accept: "+aggregated)
	for path, want := range map[string]string{
		"/apis/example.com":    `{"kind":"APIGroup","apiVersion":"v1","name":"example.com","versions":[{"groupVersion":"example.com/v1","version":"v1"},{"groupVersion":"example.com/v1beta1","version":"v1beta1"}],"preferredVersion":{"groupVersion":"example.com/v1","version":"v1"}}`,
		"/apis/example.com/v1": `"resources":[{"name":"widgets","singularName":"widget","namespaced":true,"kind":"Widget","verbs":["delete","deletecollection","get","list","patch","create","update","watch"],"shortNames":["wg"],"storageVersionHash":"`,
		"/openapi/v3":          `"apis/example.com/v1":{"serverRelativeURL":"/openapi/v3/apis/example.com/v1?hash=`,
		"/openapi/v2":          `"com.example.v1.Widget":{`,
	} {
		if r := c.do(t, "admin", "GET", path, ""); r.code != 200 || !strings.Contains(r.body, want) {
			t.Errorf("%s: %d %.300s, want %s", path, r.code, r.body, want)
		}
	}
	if !strings.Contains(first.body, `"resource":"widgets"`) {
		t.Error("aggregated discovery has no widgets")
	}
	var v2 struct{ Definitions, Paths, Parameters map[string]any }
	if err := json.Unmarshal([]byte(c.do(t, "admin", "GET", "/openapi/v2", "").body), &v2); err != nil ||
		v2.Definitions["io.k8s.api.core.v1.Pod"] == nil || v2.Paths["/apis/example.com/v1/widgets"] == nil {
		t.Errorf("OpenAPI v2: %v", err)
	}
	c.live.Publish(schema.NewCatalog())
	second := c.do(t, "admin", "GET", "/apis", "", "Accept: "+aggregated)
	if strings.Contains(second.body, "widgets") || second.header.Get("Etag") == first.header.Get("Etag") {
		t.Error("discovery has not changed")
	}
	if r := c.do(t, "admin", "GET", "/openapi/v3", ""); strings.Contains(r.body, "example.com") {
		t.Error("OpenAPI has not changed")
	}
}
