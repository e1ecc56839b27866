package cueruletest

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
)

var update = flag.Bool("update", false, "rewrite the golden parts of testdata")

// Archive returns the files of an archive as a tree that is followed whole.
func Archive(t testing.TB, name string) Tree {
	t.Helper()
	ar, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	tree := Files(map[string]string{})
	for _, f := range ar.Files {
		tree.Files[f.Name] = string(f.Data)
	}
	return tree
}

// Golden compares what is said of the files of each archive in testdata with
// its file want.
func Golden(t *testing.T, say func(t *testing.T, tree Tree) string) {
	t.Helper()
	archives, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(archives) == 0 {
		t.Fatal("no testdata", err)
	}
	for _, name := range archives {
		t.Run(filepath.Base(name), func(t *testing.T) {
			tree := Archive(t, name)
			want := tree.Files["want"]
			delete(tree.Files, "want")
			got := say(t, tree)
			if *update {
				rewrite(t, name, got)
			} else if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func rewrite(t *testing.T, name, want string) {
	t.Helper()
	ar, err := txtar.ParseFile(name)
	if err != nil {
		t.Fatal(err)
	}
	ar.Files = slices.DeleteFunc(ar.Files, func(f txtar.File) bool { return f.Name == "want" })
	ar.Files = append(ar.Files, txtar.File{Name: "want", Data: []byte(want)})
	if err := os.WriteFile(name, txtar.Format(ar), 0o644); err != nil {
		t.Fatal(err)
	}
}
