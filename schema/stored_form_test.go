package schema

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apiregistrationv1 "k8s.io/kube-aggregator/pkg/apis/apiregistration/v1"
)

// TestStoredForms writes kinds that Kubernetes keeps in a form of their own.
func TestStoredForms(t *testing.T) {
	definition := parse[*apiextensionsv1.CustomResourceDefinition](t, `
metadata: {name: widgets.example.com, resourceVersion: "7"}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget, listKind: WidgetList}
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {name: a, namespace: b, port: 443}}}}
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, properties: {size: {type: integer, default: 3}}}}}
  - {name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object}}}
status: {conditions: null, acceptedNames: {plural: "", kind: ""}, storedVersions: [v1]}`)
	for _, c := range []struct {
		o      Object
		prefix string
	}{
		{definition, `{"kind":"CustomResourceDefinition","apiVersion":"apiextensions.k8s.io/v1beta1"`},
		{parse[*apiregistrationv1.APIService](t, `{metadata: {name: v1.example.com}, spec: {group: example.com, version: v1, groupPriorityMinimum: 1, versionPriority: 1}, status: {}}`),
			`{"kind":"APIService","apiVersion":"apiregistration.k8s.io/v1"`},
		{parse[*admissionregistrationv1.MutatingAdmissionPolicy](t, `{metadata: {name: p}, spec: {reinvocationPolicy: Never}}`),
			"k8s\x00\n?\n$admissionregistration.k8s.io/v1beta1\x12"},
		{parse[*admissionregistrationv1.ValidatingAdmissionPolicy](t, `{metadata: {name: p}, spec: {}}`),
			"k8s\x00\n<\n\x1fadmissionregistration.k8s.io/v1\x12"},
	} {
		data, err := EncodeStorage(c.o)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.HasPrefix(string(data), c.prefix) {
			t.Errorf("stored as %.90q, want %q", data, c.prefix)
		}
		back, err := DecodeStorage(ResourceOf(c.o), data)
		if err != nil {
			t.Fatal(err)
		}
		back.SetResourceVersion(c.o.GetResourceVersion())
		if diff := cmp.Diff(c.o, back); diff != "" {
			t.Errorf("%s after storage (-want +got):\n%s", c.o.GetName(), diff)
		}
	}
}

// TestCustomStorage reads a custom resource in the version it was kept in, and
// does not change what it writes.
func TestCustomStorage(t *testing.T) {
	r := &Resource{Kind: "Widget", Plural: "widgets", Group: "example.com", New: func() Object { return &unstructured.Unstructured{} }}
	in := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "example.com/v2", "kind": "Widget", "metadata": map[string]any{"name": "w", "resourceVersion": "5"}, "spec": map[string]any{"n": int64(3)},
	}}
	data, err := EncodeStorage(in)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "resourceVersion") || in.GetResourceVersion() != "5" {
		t.Errorf("stored %s, left %s", data, in.GetResourceVersion())
	}
	out, err := DecodeStorage(r, data)
	if err != nil {
		t.Fatal(err)
	}
	out.SetResourceVersion("5")
	if diff := cmp.Diff(Object(in), out); diff != "" {
		t.Error(diff)
	}
	if _, err := DecodeStorage(r, []byte(`{"spec":{}}`)); err == nil {
		t.Error("an object without a kind was read")
	}
}
