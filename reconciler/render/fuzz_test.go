package render

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// fuzz renders any content: it ends soon, what it makes is JSON with a name
// and a place, and what it refuses has a place.
func fuzz(f *testing.F, name string) {
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range ar.Files {
			if filepath.Ext(part.Name) == filepath.Ext(name) {
				f.Add(part.Data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		begin := time.Now()
		first := render(t, name, data)
		if took := time.Since(begin); took > 5*time.Second {
			t.Fatalf("took %s", took)
		}
		for _, m := range first.Manifests {
			if !json.Valid(m.JSON) {
				t.Errorf("not JSON: %q", m.JSON)
			}
			var value any
			d := json.NewDecoder(bytes.NewReader(m.JSON))
			d.UseNumber()
			if err := d.Decode(&value); err != nil || !reflect.DeepEqual(value, m.Plain()) {
				t.Errorf("%s is %#v, and not %#v (%v)", m.JSON, m.Plain(), value, err)
			}
			if m.Line < 1 || m.Column < 1 || m.File != name {
				t.Errorf("no place: %+v", m.Head)
			}
			if p := Locate(m.Expr(), "metadata.name"); m.Key.Name != "" && p.Line < 1 {
				t.Errorf("no place of the name in %q", data)
			}
		}
		for _, finding := range first.Findings {
			if finding.Message == "" || finding.Rule == "" || finding.File != name {
				t.Errorf("a finding says nothing: %+v", finding)
			}
		}
		again := render(t, name, data)
		if len(again.Manifests) != len(first.Manifests) || len(again.Findings) != len(first.Findings) {
			t.Fatal("the second time it was otherwise")
		}
		for i := range again.Manifests {
			if !bytes.Equal(again.Manifests[i].JSON, first.Manifests[i].JSON) {
				t.Errorf("the second time it was %s, and not %s", again.Manifests[i].JSON, first.Manifests[i].JSON)
			}
		}
	})
}

func render(t *testing.T, name string, data []byte) *Rendered {
	t.Helper()
	units, _, err := Scan(memTree{name: string(data)})
	if err != nil || len(units) != 1 {
		t.Fatal(err, units)
	}
	out, err := Render(context.Background(), &units[0])
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func FuzzYAML(f *testing.F) { fuzz(f, "f.yaml") }
func FuzzJSON(f *testing.F) { fuzz(f, "f.json") }

// FuzzCUE scans any CUE file, beside a package that it may import and a module
// that it may name: which files a package reads is found without evaluating
// it, soon, and the same each time.
func FuzzCUE(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.txtar")
	for _, file := range files {
		ar, err := txtar.ParseFile(file)
		if err != nil {
			f.Fatal(err)
		}
		for _, part := range ar.Files {
			if filepath.Ext(part.Name) == ".cue" {
				f.Add(part.Data, []byte(`module: "example.com/own@v0"`))
				f.Add([]byte("package a\nimport \"example.com/own/lib\"\n"), part.Data)
			}
		}
	}
	f.Fuzz(func(t *testing.T, data, module []byte) {
		tree := memTree{"a/x.cue": string(data), "a/b/y.cue": "package a\n", "lib/lib.cue": "package lib\nimport \"example.com/own/a\"\n",
			"policy/p.cue": string(data), "cue.mod/module.cue": string(module)}
		begin := time.Now()
		units, findings, err := Scan(tree)
		if err != nil {
			t.Fatal(err)
		}
		for _, finding := range findings {
			if finding.Message == "" || finding.Rule == "" || finding.File == "" {
				t.Errorf("a finding says nothing: %+v", finding)
			}
		}
		again, _, _ := Scan(tree)
		if len(again) != len(units) {
			t.Fatal("the second time it was otherwise")
		}
		for i := range again {
			if again[i].Path != units[i].Path || again[i].Hash != units[i].Hash {
				t.Errorf("the second time it was %s %s, and not %s %s", again[i].Path, again[i].Hash, units[i].Path, units[i].Hash)
			}
		}
		rules, err := Policies(tree)
		if err != nil {
			t.Fatal(err)
		}
		if more, err := Policies(tree); err != nil || more.Hash != rules.Hash {
			t.Error("the policies hash otherwise the second time", err)
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Fatalf("took %s", took)
		}
	})
}
