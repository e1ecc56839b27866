package policy

import (
	"context"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-os/writ/reconciler/cuerule/cueruletest"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema/v1alpha1"
)

func line(kind string, f v1alpha1.Finding) string {
	return fmt.Sprintf("%s %s:%d:%d [%s] %s %s: %s (%s)\n", kind, f.File, f.Line, f.Column, f.Rule, f.Object, f.Field, f.Message, f.Hint)
}

func manifestsOf(t testing.TB, tree render.Tree) []render.Manifest {
	t.Helper()
	units, findings, err := render.Scan(tree)
	if err != nil || len(findings) > 0 {
		t.Fatal(err, findings)
	}
	var all []render.Manifest
	for i := range units {
		out, err := render.Render(context.Background(), &units[i])
		if err != nil || len(out.Findings) > 0 {
			t.Fatal(err, out.Findings)
		}
		all = append(all, out.Manifests...)
	}
	return all
}

func describe(t *testing.T, tree cueruletest.Tree) string {
	t.Helper()
	set, findings, err := Load(tree)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range findings {
		b.WriteString(line("!", f))
	}
	r, err := set.Check(context.Background(), manifestsOf(t, tree))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range r.Refused {
		b.WriteString(line("refuse", f))
	}
	for _, f := range r.Warned {
		b.WriteString(line("warn", f))
	}
	return b.String()
}

func TestGolden(t *testing.T) { cueruletest.Golden(t, describe) }

const small = `package policy
rules: "r": {match: kind: "ConfigMap", message: "m", require: metadata: labels: team!: string}
`

// TestWhere: policies apply from the root of the repository and from the
// followed folder, and from nowhere else; what they import changes the hash.
func TestWhere(t *testing.T) {
	object := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"
	for _, c := range []struct {
		name string
		root string
		at   []string
		want int
	}{
		{"root", ".", []string{"policy/a.cue"}, 1},
		{"root of the repository", "clusters/a", []string{"policy/a.cue"}, 1},
		{"followed", "clusters/a", []string{"clusters/a/policy/a.cue"}, 1},
		{"both", "clusters/a", []string{"policy/a.cue", "clusters/a/policy/a.cue"}, 2},
		{"another cluster's", "clusters/a", []string{"clusters/b/policy/a.cue"}, 0},
		{"below", ".", []string{"policy/old/a.cue"}, 0},
	} {
		tree := cueruletest.Tree{Files: map[string]string{"clusters/a/x.yaml": object}, Followed: c.root}
		for _, p := range c.at {
			tree.Files[p] = small
		}
		set, findings, err := Load(tree)
		if err != nil || len(findings) > 0 {
			t.Fatal(err, findings)
		}
		r, err := set.Check(context.Background(), manifestsOf(t, cueruletest.Files(map[string]string{"x.yaml": object})))
		if err != nil || len(r.Refused) != c.want {
			t.Errorf("%s: %v %v, want %d", c.name, err, r, c.want)
		}
	}
}

func TestHash(t *testing.T) {
	tree := cueruletest.Files(map[string]string{
		"policy/a.cue":             "package policy\nimport \"example.com/own/lib\"\nrules: lib.rules\n",
		"cue.mod/module.cue":       "module: \"example.com/own@v0\"\nlanguage: version: \"v0.15.0\"\n",
		"lib/lib.cue":              "package lib\nrules: r: {match: kind: \"ConfigMap\", message: \"m\", require: metadata: labels: team!: string}\n",
		"cue.mod/pkg/x.test/x.cue": "package x\n",
	})
	set, findings, err := Load(tree)
	if err != nil || len(findings) > 0 || len(set.rules) != 1 {
		t.Fatal(err, findings, set)
	}
	before := set.Hash()
	tree.Files["lib/lib.cue"] += "// changed\n"
	if set, _, err = Load(tree); err != nil || set.Hash() == before {
		t.Error("the hash does not know what is imported")
	}
	if set, _, err = Load(cueruletest.Files(map[string]string{"a.yaml": ""})); err != nil || set != nil || set.Hash() != "" {
		t.Error("no policy is no set", err)
	}
}

// TestSlow: a rule that takes for ever is left behind, and nobody waits behind
// it. When it has ended after all, the next may ask again.
func TestSlow(t *testing.T) {
	tree := cueruletest.Files(map[string]string{"policy/a.cue": `package policy
import "list"
rules: slow: {
	match: kind: "ConfigMap"
	message: "m"
	require: {N=metadata: {name: string}, count: len([for i in list.Range(0, 100, 1) for j in list.Range(0, 100, 1) if i*j < len(N.name) {i}])}
}
`, "x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"})
	set, findings, err := Load(tree)
	if err != nil || len(findings) > 0 {
		t.Fatal(err, findings)
	}
	m := manifestsOf(t, tree)
	set.turns.Limit = time.Millisecond
	for range 2 {
		if r, err := set.Check(t.Context(), m); err != nil || len(r.Refused) != 1 || r.Refused[0].Rule != "TooSlow" {
			t.Errorf("%v %v", r, err)
		}
	}
	set.turns.Limit = time.Hour
	for {
		r, err := set.Check(t.Context(), m)
		if err != nil {
			t.Fatal(err)
		}
		if len(r.Refused) != 1 || r.Refused[0].Rule != "TooSlow" {
			return
		}
		time.Sleep(time.Millisecond) // the first evaluation is not over
	}
}

// TestAtOnce: the files of a commit are checked at once. CUE's values may not
// be shared; the race detector tells.
func TestAtOnce(t *testing.T) {
	tree := cueruletest.Archive(t, "testdata/rules.txtar")
	set, findings, err := Load(tree)
	if err != nil || len(findings) > 0 {
		t.Fatal(err, findings)
	}
	m := manifestsOf(t, tree)
	want, err := set.Check(t.Context(), m)
	if err != nil || len(want.Refused) == 0 {
		t.Fatal(err, want)
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if got, err := set.Check(t.Context(), m); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%v\n%v\nwant\n%v", err, got, want)
			}
		})
	}
	all.Wait()
}

func TestCancelled(t *testing.T) {
	tree := cueruletest.Files(map[string]string{"policy/a.cue": small, "x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"})
	set, _, err := Load(tree)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := set.Check(ctx, manifestsOf(t, tree)); err == nil {
		t.Error("no error of a cancelled context")
	}
}

func BenchmarkCheck(b *testing.B) {
	tree := cueruletest.Archive(b, "testdata/rules.txtar")
	maps.DeleteFunc(tree.Files, func(p, _ string) bool { return !strings.HasSuffix(p, ".cue") })
	tree.Files["x.yaml"] = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web-1, namespace: shop, labels: {tier: frontend, owner: shop}}
spec:
  replicas: 3
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: web
        image: registry.example.com/web:1
        ports: [{containerPort: 8080, name: http}, {containerPort: 9090, name: metrics}]
        env: [{name: A, value: b}, {name: C, value: d}, {name: E, value: f}]
        resources: {requests: {cpu: 100m, memory: 1Gi}, limits: {memory: 1Gi}}
        livenessProbe: {httpGet: {path: /, port: 8080}}
`
	set, findings, err := Load(tree)
	if err != nil || len(findings) > 0 {
		b.Fatal(err, findings)
	}
	manifests := manifestsOf(b, tree)
	begin := time.Now()
	for b.Loop() {
		r, err := set.Check(context.Background(), manifests)
		if err != nil || len(r.Refused)+len(r.Warned) > 0 {
			b.Fatal(err, r)
		}
	}
	b.ReportMetric(float64(time.Since(begin).Milliseconds())/float64(b.N)*4000, "ms/4000-objects")
}
