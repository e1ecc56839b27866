package validate

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"cuelang.org/go/cue/ast"
	cueyaml "cuelang.org/go/encoding/yaml"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/schema"
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
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Metadata   struct {
			Name         string `json:"name"`
			GenerateName string `json:"generateName"`
		} `json:"metadata"`
	}
	if err := yaml.Unmarshal(doc, &head); err != nil {
		t.Fatal(err)
	}
	r := schema.ByGVK(kschema.FromAPIVersionAndKind(head.APIVersion, head.Kind))
	if r == nil {
		t.Fatalf("%s: no resource for %s %s", file, head.APIVersion, head.Kind)
	}
	return manifest{head.Kind + "/" + head.Metadata.Name + head.Metadata.GenerateName, r, doc, j}
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
