package render

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"testing"

	cueformat "cuelang.org/go/cue/format"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the golden parts of testdata")

// memTree is a tree in memory: path to content.
type memTree map[string]string

func (t memTree) Walk() iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		var paths []string
		for p := range t {
			paths = append(paths, p)
		}
		sort.Strings(paths)
		for _, p := range paths {
			f, err := t.file(p)
			if !yield(f, err) {
				return
			}
		}
	}
}

func (t memTree) file(p string) (File, error) {
	content, ok := t[p]
	if !ok {
		return File{}, fs.ErrNotExist
	}
	sum := sha1.Sum([]byte(content))
	return File{Path: p, Blob: hex.EncodeToString(sum[:]), Size: int64(len(content)),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }}, nil
}

// Folder is the rest of Outside for a tree that also has a File.
func (t memTree) folder(dir string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		for f, err := range t.Walk() {
			if below(f.Path, dir) && !yield(f, err) {
				return
			}
		}
	}
}

// describe renders a tree and prints manifests and findings.
func describe(t *testing.T, tree Tree, options ...Options) string {
	t.Helper()
	units, findings, err := Scan(tree, options...)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for i := range units {
		out, err := Render(context.Background(), &units[i])
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range out.Manifests {
			fmt.Fprintf(&b, "%s:%d:%d %s %s\n  %s\n", m.File, m.Line, m.Column, m.Resource.APIVersion(), m.Object(), m.JSON)
		}
		findings = append(findings, out.Findings...)
		for _, f := range out.Warnings {
			fmt.Fprintf(&b, "? %s:%d:%d [%s] %s (%s)\n", f.File, f.Line, f.Column, f.Rule, f.Message, f.Hint)
		}
	}
	for _, f := range findings {
		fmt.Fprintf(&b, "! %s:%d:%d [%s] %s", f.File, f.Line, f.Column, f.Rule, f.Message)
		if f.Hint != "" {
			fmt.Fprintf(&b, " (%s)", f.Hint)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// optionsOf reads the variables of a scenario: "vars: a=1 b=2".
func optionsOf(comment string) []Options {
	line, _, _ := strings.Cut(comment, "\n")
	rest, ok := strings.CutPrefix(line, "vars:")
	if !ok {
		return nil
	}
	vars := map[string]string{}
	for _, pair := range strings.Fields(rest) {
		name, value, _ := strings.Cut(pair, "=")
		vars[name] = value
	}
	return []Options{{Variables: vars}}
}

// TestGolden renders the trees of testdata/*.txtar; their file "want" is what
// comes out.
func TestGolden(t *testing.T) {
	files, _ := filepath.Glob("testdata/*.txtar")
	if len(files) == 0 {
		t.Fatal("no testdata")
	}
	for _, name := range files {
		t.Run(filepath.Base(name), func(t *testing.T) {
			ar, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			tree, want := memTree{}, -1
			for i, f := range ar.Files {
				if f.Name == "want" {
					want = i
					continue
				}
				tree[f.Name] = strings.ReplaceAll(string(f.Data), "<TAB>", "\t")
			}
			got := describe(t, tree, optionsOf(string(ar.Comment))...)
			if *update {
				if want < 0 {
					ar.Files, want = append(ar.Files, txtar.File{Name: "want"}), len(ar.Files)
				}
				ar.Files[want].Data = []byte(got)
				if err := os.WriteFile(name, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if want < 0 {
				t.Fatal("no want; run with -update")
			}
			if diff := cmp.Diff(string(ar.Files[want].Data), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestExprHasPositions(t *testing.T) {
	tree := memTree{"a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  grüße: x\n  n: \"1\"\n"}
	units, _, _ := Scan(tree)
	out, err := Render(context.Background(), &units[0])
	if err != nil {
		t.Fatal(err)
	}
	text, err := cueformat.Node(out.Manifests[0].Expr())
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"grüße": "x"`, `"n": "1"`} {
		if !strings.Contains(strings.Join(strings.Fields(string(text)), " "), want) {
			t.Errorf("no %s in %s", want, text)
		}
	}
}
