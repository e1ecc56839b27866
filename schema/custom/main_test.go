package custom

import (
	"encoding/json"
	"os"
	"testing"

	"go.uber.org/goleak"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// load reads a definition of testdata with its defaults.
func load(t testing.TB, name string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	return parse(t, string(data))
}

func parse(t testing.TB, text string) *apiextensionsv1.CustomResourceDefinition {
	t.Helper()
	def := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.UnmarshalStrict([]byte(text), def); err != nil {
		t.Fatal(err)
	}
	Defaults(def)
	return def
}

// serve returns the rows of a definition by version.
func serve(t testing.TB, def *apiextensionsv1.CustomResourceDefinition, post Post) (*Rows, map[string]*schema.Resource) {
	t.Helper()
	rows, err := Resources(def, nil, post)
	if err != nil {
		t.Fatal(err)
	}
	by := map[string]*schema.Resource{}
	for _, r := range rows.Served {
		by[r.Version] = r
	}
	return rows, by
}

func widget(t testing.TB, text string) *unstructured.Unstructured {
	t.Helper()
	u := &unstructured.Unstructured{Object: map[string]any{}}
	data, err := yaml.YAMLToJSON([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &u.Object); err != nil {
		t.Fatal(err)
	}
	data, _ = json.Marshal(u.Object)
	u = &unstructured.Unstructured{}
	if _, ok := jsonObject(data)["kind"]; !ok {
		m := jsonObject(data)
		m["apiVersion"], m["kind"] = "example.com/v1", "Widget"
		data, _ = json.Marshal(m)
	}
	if err := u.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	return u
}

func jsonObject(data []byte) map[string]any {
	m := map[string]any{}
	_ = json.Unmarshal(data, &m)
	return m
}

// fuzzed is an object as the server would have it after decoding.
func fuzzed(v *Version, text string) *unstructured.Unstructured {
	m := jsonObject([]byte(text))
	m["apiVersion"], m["kind"] = "example.com/v1", "Widget"
	data, _ := json.Marshal(m)
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		u.Object = map[string]any{"apiVersion": "example.com/v1", "kind": "Widget"}
	}
	settle(v, u.Object)
	return u
}
