package validate

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"io"
	"iter"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/writ-os/writ/reconciler/render"
)

type archive []txtar.File

func (a archive) Walk() iter.Seq2[render.File, error] {
	return func(yield func(render.File, error) bool) {
		for _, f := range a {
			sum := sha1.Sum(f.Data)
			file := render.File{Path: f.Name, Blob: hex.EncodeToString(sum[:]), Size: int64(len(f.Data)),
				Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(string(f.Data))), nil }}
			if f.Name != "want" && !yield(file, nil) {
				return
			}
		}
	}
}

// TestRenderedIsAdmitted: what kustomizations and charts make is held against
// the definitions of the kinds, and nothing is wrong with the good ones.
func TestRenderedIsAdmitted(t *testing.T) {
	for _, name := range []string{"kustomize", "helm"} {
		ar, err := txtar.ParseFile(filepath.Join("..", "render", "testdata", name+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		units, findings, err := render.Scan(archive(ar.Files))
		if err != nil || len(findings) > 0 {
			t.Fatal(err, findings)
		}
		for i := range units {
			out, err := render.Render(context.Background(), &units[i])
			if err != nil {
				t.Fatal(err)
			}
			found := out.Findings
			for j := range out.Manifests {
				found = append(found, Manifest(&out.Manifests[j])...)
			}
			for _, f := range found {
				t.Errorf("%s: %+v", name, f)
			}
		}
	}
}

// TestMistakeInRendered: a typo in a patch or a template is found at its line,
// with the same hint as in plain YAML.
func TestMistakeInRendered(t *testing.T) {
	for _, c := range []struct{ name, file, old, typo, want string }{
		{"kustomize", "apps/base/deployment.yaml", "replicas: 1", "replica: 1", "replicas"},
		{"kustomize", "apps/prod/limits.yaml", "resources:", "resuorces:", "resources"},
		{"helm", "charts/web/templates/deployment.yaml", "        image: ", "        imgae: ", "image"},
	} {
		ar, err := txtar.ParseFile(filepath.Join("..", "render", "testdata", c.name+".txtar"))
		if err != nil {
			t.Fatal(err)
		}
		line := 0
		for i := range ar.Files {
			if f := &ar.Files[i]; f.Name == c.file {
				before, _, ok := strings.Cut(string(f.Data), c.old)
				if !ok {
					t.Fatal("no ", c.old)
				}
				line = 1 + strings.Count(before, "\n")
				f.Data = []byte(strings.Replace(string(f.Data), c.old, c.typo, 1))
			}
		}
		units, _, err := render.Scan(archive(ar.Files))
		if err != nil {
			t.Fatal(err)
		}
		found := false
		for i := range units {
			out, err := render.Render(context.Background(), &units[i])
			if err != nil {
				t.Fatal(err)
			}
			for j := range out.Manifests {
				for _, f := range Manifest(&out.Manifests[j]) {
					t.Logf("%+v", f)
					found = found || f.File == c.file && f.Line == line && strings.Contains(f.Hint, c.want)
				}
			}
		}
		if !found {
			t.Errorf("%s: no finding at %s:%d", c.typo, c.file, line)
		}
	}
}
