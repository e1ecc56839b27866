package validate

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/parser"
	cueyaml "cuelang.org/go/encoding/yaml"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
)

// manifest is one document of the corpus.
type manifest struct {
	name     string
	resource *schema.Resource
	yaml     []byte
	json     []byte
}

// corpus reads the manifests that everybody must accept.
func corpus(t testing.TB) []manifest {
	t.Helper()
	files, err := filepath.Glob("testdata/valid/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no corpus: %v", err)
	}
	var out []manifest
	for _, f := range files {
		data, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		for _, doc := range bytes.Split(data, []byte("\n---\n")) {
			out = append(out, readManifest(t, f, doc))
		}
	}
	return out
}

func readManifest(t testing.TB, file string, doc []byte) manifest {
	t.Helper()
	j, err := yaml.YAMLToJSON(doc)
	if err != nil {
		t.Fatalf("%s: %v\n%s", file, err, doc)
	}
	v, _, err := decode(j)
	if err != nil {
		t.Fatal(err)
	}
	o := node{value: v}
	r := schema.ByGVK(kschema.FromAPIVersionAndKind(o.at("apiVersion").text(), o.at("kind").text()))
	if r == nil {
		t.Fatalf("%s: no resource for\n%s", file, doc)
		return manifest{}
	}
	name := o.at("metadata", "name").textOr(o.at("metadata", "generateName").text())
	return manifest{r.Kind + "/" + name, r, doc, j}
}

// extract parses YAML as the renderer does.
func extract(t testing.TB, file string, doc []byte) ast.Expr {
	t.Helper()
	f, err := cueyaml.Extract(file, doc)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
	return &ast.StructLit{Elts: f.Decls}
}

func TestCorpusIsAccepted(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range corpus(t) {
		seen[m.resource.Kind] = true
		v, plain, err := decode(m.json)
		if err != nil || !plain {
			t.Errorf("%s: decode: plain %v, %v", m.name, plain, err)
		} else if !accepts(m.resource, v) {
			t.Errorf("%s: refused by its JSON Schema", m.name)
		}
		for _, f := range JSON(m.resource, m.json) {
			t.Errorf("%s: JSON: %s (%s)", m.name, f.Message, f.Rule)
		}
		for _, f := range explain(m.resource, extract(t, m.name, m.yaml)) {
			t.Errorf("%s:%d: CUE: %s (%s)", m.name, f.Line, f.Message, f.Rule)
		}
		// What the API server decodes strictly must be the same fields.
		if _, err := schema.Decode(m.resource, schema.YAML, m.yaml, true); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	for _, r := range schema.Resources {
		if !seen[r.Kind] {
			t.Errorf("the corpus has no %s", r.Kind)
		}
	}
}

// parseCUE parses an expression.
func parseCUE(t testing.TB, src string) ast.Expr {
	t.Helper()
	e, err := parser.ParseExpr("in.cue", src)
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// TestTypedObjectsAreAccepted sends the corpus through Go types, protobuf and
// defaults, as objects reach validation in the API server: with zeros and empty
// objects where the manifest had nothing.
func TestTypedObjectsAreAccepted(t *testing.T) {
	for _, m := range corpus(t) {
		o, err := schema.Decode(m.resource, schema.JSON, m.json, true)
		if err != nil {
			t.Fatal(err)
		}
		defaults.Apply(o)
		stored, err := schema.EncodeStorage(o)
		if err != nil {
			t.Fatal(err)
		}
		if o, err = schema.DecodeStorage(m.resource, stored); err != nil {
			t.Fatal(err)
		}
		data, err := schema.Encode(o, schema.JSON)
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range JSON(m.resource, data) {
			t.Errorf("%s: %s (%s)", m.name, f.Message, f.Rule)
		}
		// And a status that says nothing yet.
		empty := m.resource.New()
		empty.SetName("cluster")
		if data, err = schema.Encode(empty, schema.JSON); err != nil {
			t.Fatal(err)
		}
		for _, f := range JSON(m.resource, data) {
			if strings.HasPrefix(f.Field, "status") {
				t.Errorf("empty %s: %s (%s)", m.resource, f.Message, f.Rule)
			}
		}
	}
}
