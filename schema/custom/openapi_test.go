package custom

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestOpenAPI compares with what upstream's builder writes for the same
// definitions (gen/main.go).
func TestOpenAPI(t *testing.T) {
	for _, name := range []string{"widgets", "clusters"} {
		_, served := serve(t, load(t, name), nil)
		for version, r := range served {
			t.Run(name+"/"+version, func(t *testing.T) {
				v := r.Custom.(*Version)
				d3, err := OpenAPIV3(v)
				if err != nil {
					t.Fatal(err)
				}
				got, err := Join(d3)
				if err != nil {
					t.Fatal(err)
				}
				same(t, golden(t, name+"."+version+".v3"), got)

				d2, err := OpenAPIV2(v)
				if err != nil {
					t.Fatal(err)
				}
				got, err = json.Marshal(map[string]any{
					"swagger": "2.0", "info": map[string]string{"title": "Kubernetes CRD Swagger", "version": "v0.1.0"},
					"paths": d2.Paths, "definitions": d2.Schemas, "parameters": d2.Parameters,
				})
				if err != nil {
					t.Fatal(err)
				}
				same(t, golden(t, name+"."+version+".v2"), got)
			})
		}
	}
}

func golden(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name + ".json.gz")
	if err != nil {
		t.Fatal(err)
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	if data, err = io.ReadAll(r); err != nil {
		t.Fatal(err)
	}
	return data
}

func same(t *testing.T, want, got []byte) {
	t.Helper()
	var w, g any
	if err := json.Unmarshal(want, &w); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(got, &g); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(w, g); diff != "" {
		t.Errorf("differs from upstream (-want +got):\n%s", diff)
	}
}

func TestArticle(t *testing.T) {
	for kind, want := range map[string]string{"Widget": " a ", "Apple": " an ", "Class": " a ", "Settings": " "} {
		if got := article(kind); got != want {
			t.Errorf("article(%s) = %q, want %q", kind, got, want)
		}
	}
}
