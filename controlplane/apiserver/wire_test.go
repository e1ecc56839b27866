package apiserver

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/writ-os/writ/controlplane/apiserver/openapi"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

func TestNegotiate(t *testing.T) {
	for _, tt := range []struct {
		accept string
		want   string
	}{
		{"", "application/json"},
		{"*/*", "application/json"},
		{"application/*", "application/json"},
		{"application/json", "application/json"},
		{"application/yaml", "application/yaml"},
		{"application/vnd.kubernetes.protobuf,application/json", "application/vnd.kubernetes.protobuf"},
		{"application/json;q=0.5, application/yaml", "application/yaml"},
		{"text/html, application/json;q=0.1", "application/json"},
		{"application/json;as=Table;v=v1;g=meta.k8s.io,application/json", "application/json Table v1"},
		{"application/json;as=Table;v=v9;g=meta.k8s.io,application/json", "application/json"},
		{"application/vnd.kubernetes.protobuf;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1;g=meta.k8s.io", "application/json Table v1"},
		{"application/vnd.kubernetes.protobuf;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io", "application/vnd.kubernetes.protobuf PartialObjectMetadataList v1"},
		{"application/json;as=Nothing;v=v1;g=x", "error"},
		{"text/html", "error"},
	} {
		out, err := negotiate(&http.Request{URL: &url.URL{}, Header: http.Header{"Accept": {tt.accept}}}, allowObjects)
		got := strings.TrimSpace(fmt.Sprint(out.Media, " ", out.Convert.Kind, " ", out.Convert.Version))
		if err != nil {
			got = "error"
		}
		if got != tt.want {
			t.Errorf("Accept %q: %s, want %s", tt.accept, got, tt.want)
		}
	}
}

// FuzzAccept: nothing that a client writes may break the negotiation.
func FuzzAccept(f *testing.F) {
	f.Add("application/json;as=Table;v=v1;g=meta.k8s.io,application/json;q=0.3", "application/vnd.kubernetes.protobuf; charset=x")
	f.Fuzz(func(t *testing.T, accept, contentType string) {
		r := &http.Request{URL: &url.URL{}, Header: http.Header{"Accept": {accept}, "Content-Type": {contentType}}}
		if out, err := negotiate(r, allowObjects); err == nil && !allowObjects(out.Media, out.Convert) {
			t.Fatalf("%q negotiates %+v, which is not allowed", accept, out)
		}
		_, _ = bodyMedia(r)
	})
}

// FuzzQuery: any query gives options or an error of the API, and a selector
// that was accepted can be asked.
func FuzzQuery(f *testing.F) {
	for _, q := range []string{"labelSelector=a%3Db,c!%3Dd&limit=3", "fieldSelector=spec.nodeName%3Dn,metadata.name!%3Dx", "continue=eyJ2IjoiMSJ9", "timeoutSeconds=-1&resourceVersion=5"} {
		f.Add(q, "pods")
	}
	item := &store.Item{Key: schema.Key{Namespace: "default", Name: "x"}, Object: &corev1.Pod{}}
	r := schema.ResourceFor[*corev1.Pod]()
	f.Fuzz(func(t *testing.T, query, name string) {
		q, err := url.ParseQuery(query)
		if err != nil {
			t.Skip()
		}
		o, err := parseListOptions(r, &route{Verb: "list", Name: name}, q)
		if err != nil {
			if st := statusOf(err); st.Code >= 500 {
				t.Fatalf("query %q: server error %v", query, err)
			}
			return
		}
		o.filter.matches(item)
		if o.token != "" {
			_, _, _ = decodeToken(o.token)
		}
	})
}

// FuzzBody: any body decodes or is refused as the client's mistake.
func FuzzBody(f *testing.F) {
	f.Add(uint8(0), []byte(`{"kind":"Pod","apiVersion":"v1","spec":{"containers":[{"name":"c"}]}}`))
	f.Add(uint8(1), []byte("kind: Pod\napiVersion: v1\nspec: {containers: [{name: c, name: d}]}\n"))
	pod := schema.ResourceFor[*corev1.Pod]().New()
	pb, _ := schema.Encode(pod, schema.Protobuf)
	f.Add(uint8(2), pb)
	r := schema.ResourceFor[*corev1.Pod]()
	f.Fuzz(func(t *testing.T, kind uint8, data []byte) {
		m := media(kind % 3)
		req := &http.Request{URL: &url.URL{}, Header: http.Header{"Content-Type": {m.String()}}}
		x := &exchange{r: req}
		if _, err := decodeBody(x, r, data, metav1.FieldValidationWarn); err != nil && statusOf(err).Code >= 500 {
			t.Fatalf("server error: %v", err)
		}
		_ = decodeDeleteOptions(x, data, &metav1.DeleteOptions{})
	})
}

// TestMetadata checks that the metadata cut out of shared bytes is the
// object's.
func TestMetadata(t *testing.T) {
	p := schema.ResourceFor[*corev1.Pod]().New().(*corev1.Pod)
	p.Name, p.Namespace, p.UID = "p", "default", "u"
	p.Annotations = map[string]string{"tricky": `"}{\" ]`, "more": "\\"}
	p.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "m", FieldsV1: &metav1.FieldsV1{Raw: []byte(`{"f:a":{}}`)}}}
	it := &store.Item{Resource: schema.ResourceFor[*corev1.Pod](), Object: p}
	want, _ := json.Marshal(p.ObjectMeta)
	if got := metadataOf(it); !bytes.Equal(got, want) {
		t.Errorf("JSON metadata\n got %s\nwant %s", got, want)
	}
	pb, _ := p.ObjectMeta.Marshal()
	if got := metadataMessage(it); !bytes.Equal(got, pb) {
		t.Errorf("protobuf metadata\n got %q\nwant %q", got, pb)
	}
	var back metav1.PartialObjectMetadata
	var u runtime.Unknown
	if err := u.Unmarshal(partialProtobuf("v1", it)[4:]); err != nil || u.Kind != "PartialObjectMetadata" {
		t.Fatalf("envelope: %+v %v", u, err)
	}
	if err := back.Unmarshal(u.Raw); err != nil || back.UID != "u" {
		t.Fatalf("partial metadata: %+v %v", back, err)
	}
}

func FuzzObjectEnd(f *testing.F) {
	f.Add([]byte(`{"a":"}\"{","b":[{}]},"rest":1`))
	f.Fuzz(func(t *testing.T, data []byte) {
		n := objectEnd(data)
		if n < 0 || n > len(data) {
			t.Fatalf("end %d of %d", n, len(data))
		}
		// On JSON it must find the same end as a decoder.
		dec := json.NewDecoder(bytes.NewReader(data))
		var raw json.RawMessage
		if len(data) > 0 && (data[0] == '{' || data[0] == '[') && dec.Decode(&raw) == nil && n != len(raw) {
			t.Fatalf("end %d, want %d in %q", n, len(raw), data)
		}
	})
}

// TestOpenAPICoversDiscovery: what discovery shows, `kubectl explain` finds.
func TestOpenAPICoversDiscovery(t *testing.T) {
	var versions []*groupVersion
	for _, g := range newDiscovery(schema.Builtin, nil).groups {
		versions = append(versions, g.versions...)
	}
	for _, g := range versions {
		path := "apis/" + g.String()
		if g.group == "" {
			path = "api/" + g.version
		}
		doc := openapi.Lookup(path)
		if doc == nil {
			t.Errorf("no document for %s", path)
			continue
		}
		data, err := doc.JSON()
		if err != nil {
			t.Fatal(err)
		}
		var v struct {
			Paths      map[string]any
			Components struct {
				Schemas map[string]struct {
					Description string
					GVK         []struct{ Kind string } `json:"x-kubernetes-group-version-kind"`
				}
			}
		}
		if err := json.Unmarshal(data, &v); err != nil {
			t.Fatal(err)
		}
		described := map[string]bool{}
		for _, s := range v.Components.Schemas {
			for _, gvk := range s.GVK {
				described[gvk.Kind] = s.Description != ""
			}
		}
		for _, r := range g.resources {
			where := "/" + path + "/" + r.Plural
			if r.Namespaced {
				where = "/" + path + "/namespaces/{namespace}/" + r.Plural
			}
			if v.Paths[where] == nil || !described[r.Kind] {
				t.Errorf("%s: path %v, described %v", r, v.Paths[where] != nil, described[r.Kind])
			}
		}
		for _, q := range g.virtuals {
			if q.Resource != componentStatuses && !described[q.Kind] {
				t.Errorf("%s is not described", q.Kind)
			}
		}
	}
}

// TestSelectableFields: every field that the table calls selectable is.
func TestSelectableFields(t *testing.T) {
	for _, r := range schema.Resources {
		for _, label := range append([]string{"metadata.name"}, r.SelectableFields...) {
			read, err := fieldReader(r, label)
			if err != nil {
				t.Errorf("%s: %v", r, err)
				continue
			}
			read(&store.Item{Resource: r, Object: r.New()})
		}
	}
}
