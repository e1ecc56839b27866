package cuerule_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cuelang.org/go/cue"
	"cuelang.org/go/cue/cuecontext"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/writ-os/writ/reconciler/cuerule"
	"github.com/writ-os/writ/reconciler/cuerule/cueruletest"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// FuzzRules reads any file of rules: it ends soon, and what it refuses has a
// place and a word. Files that ask for work by themselves (comprehensions,
// packages of functions) are left out, for those are bounded by time alone.
func FuzzRules(f *testing.F) {
	for _, pattern := range []string{"../policy/testdata/*.txtar", "../health/testdata/*.txtar"} {
		files, _ := filepath.Glob(pattern)
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			for _, part := range txtar.Parse(data).Files {
				if filepath.Ext(part.Name) == ".cue" {
					f.Add(string(part.Data))
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 4<<10 || strings.Contains(text, "import") || strings.Contains(text, "for") || strings.Count(text, "|") > 20 || strings.ContainsAny(text, "*\\") {
			return
		}
		begin := time.Now()
		files, err := render.Policies(cueruletest.Files(map[string]string{"policy/a.cue": text}))
		if err != nil {
			t.Fatal(err)
		}
		sources, err := files.Read()
		if err != nil {
			t.Fatal(err)
		}
		packages, findings := sources.Load()
		ctx := cuecontext.New()
		schema := cuerule.Schema(ctx, "#Rule: {match: _match, except: _except, ...}\n")
		object := cuerule.Object{APIVersion: "v1", Kind: "ConfigMap", Namespace: "a", Name: "b", Labels: func() map[string]string { return nil }}
		for _, inst := range packages {
			p := cuerule.Build(ctx, inst)
			found := p.Read(func(r cuerule.Rule, own cue.Value) error {
				if err := r.ReadMatch(own.Unify(schema)); err != nil {
					return err
				}
				_ = r.Means(&object)
				if r.Pos.Filename == "" || r.Pos.Line < 1 {
					t.Errorf("the rule %q has no place: %v", r.Name, r.Pos)
				}
				return nil
			}, func(*cuerule.Rule, *v1alpha1.Finding) {})
			findings = append(findings, found...)
			_ = p.Place()
		}
		for _, finding := range findings {
			if finding.Message == "" || finding.Rule == "" || finding.File == "" {
				t.Errorf("a finding says nothing: %+v", finding)
			}
		}
		if took := time.Since(begin); took > 5*time.Second {
			t.Fatalf("took %s", took)
		}
	})
}
