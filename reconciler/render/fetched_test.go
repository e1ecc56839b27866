package render

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestNothingIsFetched: however a kustomization asks for what is not in the
// repository, nobody is asked for it, and it is not built.
func TestNothingIsFetched(t *testing.T) {
	asked := make(chan string, 100)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		select {
		case asked <- r.URL.Path:
		default:
		}
		_, _ = w.Write([]byte("a=secret\n"))
	}))
	defer server.Close()
	url := server.URL + "/x"
	for _, k := range []string{
		`configMapGenerator: [{name: x, FILES: ["a=URL"]}]`,
		`configMapGenerator: [{name: x, Envs: ["URL"]}]`,
		`configMapGenerator: [{name: x, envſ: ["URL"]}]`,
		`configMapGenerator: [{name: x, files: ["a=URL"]}]`,
		`ConfigMapGenerator: [{name: x, files: ["a=URL"]}]`,
		`secretGenerator: [{name: x, eNv: "URL"}]`,
		`{resources: [r.yaml], patches: [{PATH: "URL"}]}`,
		`{resources: [r.yaml], patchesJson6902: [{target: {version: v1, kind: ConfigMap, name: r}, Path: "URL"}]}`,
		`{resources: [r.yaml], replacements: [{Path: "URL"}]}`,
		`{resources: [r.yaml], openapi: {Path: "URL"}}`,
		`{resources: [r.yaml], patchesStrategicMerge: ["URL"]}`,
		`{resources: [r.yaml], CRDS: ["URL"]}`,
		`{resources: [r.yaml], configurations: ["URL"]}`,
		`{Resources: ["URL"]}`,
		"generators: [\"apiVersion: builtin\\nkind: ConfigMapGenerator\\nmetadata: {name: x}\\nfiles: ['a=URL']\\n\"]",
		"generators: [\"apiVersion: builtin\\nkind: ConfigMapGenerator\\nmetadata: {name: x}\\nFILES: ['a=URL']\\n\"]",
		"generators: [g.yaml]",
		"{resources: [r.yaml], transformers: [\"apiVersion: builtin\\nkind: PatchTransformer\\nmetadata: {name: x}\\npath: URL\\n\"]}",
		"{resources: [r.yaml], transformers: [\"apiVersion: builtin\\nkind: PatchTransformer\\nmetadata: {name: x}\\nPath: URL\\n\"]}",
		"{resources: [r.yaml], transformers: [t.yaml]}",
		"{resources: [r.yaml], transformers: [t]}",
	} {
		tree := memTree{"k/kustomization.yaml": k, "k/r.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: r}\n",
			"k/g.yaml":               "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: x}\nFiles: ['a=URL']\n",
			"k/t.yaml":               "apiVersion: builtin\nkind: ReplacementTransformer\nmetadata: {name: x}\nreplacements: [{PATH: 'URL'}]\n",
			"k/t/kustomization.yaml": "resources: [t.yaml]\n",
			"k/t/t.yaml":             "apiVersion: builtin\nkind: PatchTransformer\nmetadata: {name: x}\nPATH: URL\n"}
		for name, text := range tree {
			tree[name] = strings.ReplaceAll(text, "URL", url)
		}
		objects, findings := rendered(t, tree, Options{})
		for len(asked) > 0 {
			t.Errorf("%s: asked for %s, made %v", k, <-asked, objects)
		}
		if len(findings) == 0 {
			t.Errorf("%s: no finding, and %v", k, objects)
		}
	}
}
