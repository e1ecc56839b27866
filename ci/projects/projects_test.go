package projects

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/writ-os/writ/reconciler"
	"github.com/writ-os/writ/reconciler/cli"
	"github.com/writ-os/writ/reconciler/sandbox"
)

var update = flag.Bool("update", false, "rewrite what testdata/*.txtar want")

func TestMain(m *testing.M) {
	if !sandbox.Serve(reconciler.Functions()...) {
		os.Exit(m.Run())
	}
}

// TestShapes: writ check says of each folder what its file "want" says.
func TestShapes(t *testing.T) {
	names, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(names) == 0 {
		t.Fatal("no testdata", err)
	}
	for _, name := range names {
		t.Run(strings.TrimSuffix(filepath.Base(name), ".txtar"), func(t *testing.T) {
			ar, err := txtar.ParseFile(name)
			if err != nil {
				t.Fatal(err)
			}
			dir, want, files := t.TempDir(), "", ar.Files[:0:0]
			for _, f := range ar.Files {
				if f.Name == "want" {
					want = string(f.Data)
					continue
				}
				files = append(files, f)
				if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, f.Name)), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(filepath.Join(dir, f.Name), f.Data, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			got := review(t, dir)
			if *update {
				ar.Files = append(files, txtar.File{Name: "want", Data: []byte(got)})
				if err := os.WriteFile(name, txtar.Format(ar), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func review(t *testing.T, dir string) string {
	t.Helper()
	r, err := cli.ReviewDir(t.Context(), dir, cli.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := cli.WriteReview(&b, r, "the folder", cli.Options{}); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// TestFolders counts what is found in folders that are not ours.
func TestFolders(t *testing.T) {
	folders := os.Getenv("WRIT_PROJECTS")
	if folders == "" {
		t.Skip("WRIT_PROJECTS names no folders")
	}
	for dir := range strings.SplitSeq(folders, ":") {
		r, err := cli.ReviewDir(t.Context(), dir, cli.Options{})
		if err != nil {
			t.Errorf("%s: %v", dir, err)
			continue
		}
		rules := map[string]int{}
		for _, f := range r.Findings {
			rules[f.Rule]++
		}
		t.Logf("%s: %d objects, refused %v, %d warnings", dir, r.Objects, rules, len(r.Warnings))
	}
}
