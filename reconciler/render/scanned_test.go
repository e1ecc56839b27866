package render

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// versions is a tree in memory that knows its other versions.
type versions struct {
	memTree
	at  int
	all *[]memTree
	max int // files
	not bool
}

func (v versions) Version() (string, error) { return strconv.Itoa(v.at), nil }

func (v versions) Fits(files int, _ int64) bool { return files <= v.max }

func (v versions) Since(version string) ([]Difference, bool, error) {
	if v.not {
		return nil, false, nil
	}
	at, _ := strconv.Atoi(version)
	before := (*v.all)[at]
	var out []Difference
	paths := maps.Clone(before)
	maps.Copy(paths, v.memTree)
	for _, p := range slices.Sorted(maps.Keys(paths)) {
		was, had := before[p]
		now, has := v.memTree[p]
		if had == has && was == now {
			continue
		}
		d := Difference{Path: p}
		if has {
			f, _ := v.file(p)
			d.File = &f
		}
		out = append(out, d)
	}
	return out, true, nil
}

// material is what random trees are made of: few files, so that each is what
// another one looks for, or would if it were there.
var material = map[string][]string{
	"a.yaml":                      {configMapText("a"), configMapText("a2"), "kind: [", "", releaseText("charts/web", "")},
	"b.yml":                       {configMapText("b"), releaseText("charts/none", "values.yaml")},
	"c.json":                      {`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"}}`, `{`},
	"README.md":                   {"one", "two"},
	".writignore":                 {"a.yaml\n", "prod/\n*.yml\n", "#\n"},
	"prod/kustomization.yaml":     {"resources: [../base, x.yaml]\n", "resources: [x.yaml, y.yaml]\n", "resources: [../base]\npatches: [{path: ../b.yml}]\n", "resources: ["},
	"prod/kustomization.yml":      {"resources: [x.yaml]\n"},
	"prod/x.yaml":                 {configMapText("x"), configMapText("x2")},
	"prod/y.yaml":                 {configMapText("y")},
	"prod/sub/z.yaml":             {configMapText("z")},
	"base/kustomization.yaml":     {"resources: [w.yaml]\n", "resources: [w.yaml, ../a.yaml]\nconfigMapGenerator: [{name: g, files: [../README.md]}]\n"},
	"base/w.yaml":                 {configMapText("w"), configMapText("w2")},
	"charts/web/Chart.yaml":       {"apiVersion: v2\nname: web\nversion: 1.0.0\n"},
	"other/Chart.yaml":            {"apiVersion: v2\nname: other\nversion: 1.0.0\n"},
	"charts/web/templates/t.yaml": {configMapText("{{ .Release.Name }}"), configMapText("t")},
	"charts/web/values.yaml":      {"a: 1\n", "a: 2\n"},
	"values.yaml":                 {"a: 3\n", "a: 4\n"},
	"apps/r.yaml":                 {releaseText("../charts/web", ""), releaseText("../charts/web", "../values.yaml"), releaseText("../_charts/web", ""), configMapText("r"), releaseText("../_charts/web", "")},
	"_charts/web/Chart.yaml":      {"apiVersion: v2\nname: web\nversion: 1.0.0\n"},
	"_charts/web/templates/t.yml": {configMapText("u"), configMapText("v")},
	"_charts/web/templates/s.yml": {configMapText("u"), configMapText("v")},
	"_hidden/h.yaml":              {configMapText("h")},
	"apps/p.cue":                  {"package p\n\nx: {apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: \"p\"}\n", "package p\n\nimport \"example.com/m/lib\"\n\nx: lib.x\n"},
	"lib/l.cue":                   {"package lib\n\nx: {apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: \"l\"}\n"},
	"cue.mod/module.cue":          {"module: \"example.com/m@v0\"\nlanguage: version: \"v0.9.0\"\n"},
	"policy/p.cue":                {"package policy\n", "package policy\n\nx: 1\n"},
	"policy/q.yaml":               {configMapText("q")},
	"health/h.cue":                {"package health\n"},
}

func configMapText(name string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: \"" + name + "\"}\n"
}

func releaseText(chart, values string) string {
	text := "apiVersion: writ.dev/v1alpha1\nkind: HelmRelease\nmetadata: {name: r}\nspec:\n  chart: " + chart + "\n"
	if values != "" {
		text += "  valuesFiles: [" + values + "]\n"
	}
	return text
}

// seen is all that anybody can learn of a scan.
type seen struct {
	Units    []string
	Findings []v1alpha1.Finding
	Policies PolicyFiles
	Health   PolicyFiles
	Rendered []string
}

func look(t *testing.T, s *Scanned) seen {
	t.Helper()
	out := seen{Findings: slices.Clone(s.Findings())}
	slices.SortFunc(out.Findings, func(a, b v1alpha1.Finding) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Message, b.Message))
	})
	for u := range s.Units() {
		out.Units = append(out.Units, u.Path+" "+u.Hash)
		if u.format == formatKustomize || len(u.charts) > 0 {
			continue // they take long, and are rendered from what the hash covers
		}
		r, err := s.Render(t.Context(), u)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range r.Manifests {
			out.Rendered = append(out.Rendered, fmt.Sprint(m.File, m.Line, m.Object(), string(m.JSON)))
		}
		out.Rendered = append(out.Rendered, fmt.Sprint(r.Findings))
	}
	var err error
	if out.Policies, err = Policies(s.Rules()); err != nil {
		t.Fatal(err)
	}
	if out.Health, err = HealthRules(s.Rules()); err != nil {
		t.Fatal(err)
	}
	for _, p := range []*PolicyFiles{&out.Policies, &out.Health} {
		p.files = nil // the hash is of them, and they have functions
	}
	return out
}

// TestReadOfAnotherVersion: what is read with what is known of other versions
// is what is read from nothing, and what is said to be the same is.
func TestReadOfAnotherVersion(t *testing.T) {
	paths := slices.Sorted(maps.Keys(material))
	patched := 0
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		memory := &Memory{}
		all := []memTree{}
		tree, variables := memTree{}, map[string]string(nil)
		var before *Scanned
		for range 40 {
			tree = maps.Clone(tree)
			for range rnd.IntN(3) {
				p := paths[rnd.IntN(len(paths))]
				if texts := material[p]; rnd.IntN(3) == 0 {
					delete(tree, p)
				} else {
					tree[p] = texts[rnd.IntN(len(texts))]
				}
			}
			if rnd.IntN(15) == 0 {
				variables = map[string]string{"v": strconv.Itoa(rnd.IntN(2))}
			}
			all = append(all, tree)
			v := versions{tree, len(all) - 1, &all, 4 + rnd.IntN(20)*10, rnd.IntN(8) == 0}
			s, err := Read(v, Options{Memory: memory, Variables: variables})
			if err != nil {
				t.Fatal(err)
			}
			alone, err := Read(v, Options{Variables: variables})
			if err != nil {
				t.Fatal(err)
			}
			got, want := look(t, s), look(t, alone)
			if diff := gocmp.Diff(want, got, gocmp.AllowUnexported(PolicyFiles{}), gocmp.FilterPath(func(p gocmp.Path) bool { return p.Last().String() == ".files" }, gocmp.Ignore())); diff != "" {
				t.Fatalf("seed %d, version %d (-from nothing +with what is known):\n%s", seed, v.at, diff)
			}
			if before != nil {
				if changed, ok := s.Since(before); ok {
					patched++
					unchanged(t, before, s, changed)
				}
			}
			if rnd.IntN(4) > 0 {
				before = s
			}
		}
	}
	if patched < 1000 {
		t.Errorf("only %d versions were told from another", patched)
	}
}

// unchanged says whether two scans have the same units but for some.
func unchanged(t *testing.T, a, b *Scanned, but []string) {
	t.Helper()
	hashes := func(s *Scanned) map[string]string {
		out := map[string]string{}
		for u := range s.Units() {
			if !slices.Contains(but, u.Path) {
				out[u.Path] = u.Hash
			}
		}
		return out
	}
	if diff := gocmp.Diff(hashes(a), hashes(b)); diff != "" {
		t.Fatalf("units that are said to be the same:\n%s", diff)
	}
}
