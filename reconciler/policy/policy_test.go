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

	"go.uber.org/goleak"

	"github.com/writ-os/writ/reconciler/cuerule/cueruletest"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// check holds manifests against the rules as one unit.
func check(ctx context.Context, s *Set, manifests []render.Manifest) (Result, error) {
	r, err := s.Check(ctx, []*Open{s.Open(manifests)})
	if err != nil {
		return Result{}, err
	}
	return r[0], nil
}

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

func describe(t *testing.T, tree cueruletest.Tree, box *sandbox.Sandbox) string {
	t.Helper()
	set, findings, err := Load(t.Context(), tree, box)
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range findings {
		b.WriteString(line("!", f))
	}
	r, err := check(t.Context(), set, manifestsOf(t, tree))
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

func TestMain(m *testing.M) {
	if sandbox.Serve(Functions()...) {
		return
	}
	goleak.VerifyTestMain(m)
}

func TestGolden(t *testing.T) {
	box := sandbox.New(sandbox.Config{})
	t.Cleanup(box.Close)
	cueruletest.Golden(t, func(t *testing.T, tree cueruletest.Tree) string {
		here, there := describe(t, tree, nil), describe(t, tree, box)
		if here != there {
			t.Errorf("in this process it is otherwise:\n%s", here)
		}
		return there
	})
}

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
		set, findings, err := Load(t.Context(), tree, nil)
		if err != nil || len(findings) > 0 {
			t.Fatal(err, findings)
		}
		r, err := check(t.Context(), set, manifestsOf(t, cueruletest.Files(map[string]string{"x.yaml": object})))
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
	set, findings, err := Load(t.Context(), tree, nil)
	if err != nil || len(findings) > 0 || len(set.rules) != 1 {
		t.Fatal(err, findings, set)
	}
	before := set.Hash()
	tree.Files["lib/lib.cue"] += "// changed\n"
	if set, _, err = Load(t.Context(), tree, nil); err != nil || set.Hash() == before {
		t.Error("the hash does not know what is imported")
	}
	if set, _, err = Load(t.Context(), cueruletest.Files(map[string]string{"a.yaml": ""}), nil); err != nil || set != nil || set.Hash() != "" {
		t.Error("no policy is no set", err)
	}
}

// TestDeath: a rule that takes for ever, or all memory, costs the unit that it
// is about, and says so at its object; the others are checked.
func TestDeath(t *testing.T) {
	box := sandbox.New(sandbox.Config{})
	t.Cleanup(box.Close)
	for name, c := range map[string]struct{ rule, want string }{
		"slow":   {`require: {N=metadata: {name: string}, count: len([for i in list.Range(0, 1000, 1) for j in list.Range(0, 1000, 1) for k in list.Range(0, 1000, 1) if i*j*k < len(N.name) {i}])}`, "TooSlow"},
		"greedy": {greedy(), "TooLarge"},
	} {
		tree := cueruletest.Files(map[string]string{"policy/a.cue": "package policy\nimport (\n\"list\"\n\"strings\"\n)\n_a: list.Range(0, 1, 1)\n_b: strings.ToUpper(\"x\")\n" +
			"rules: bad: {match: name: \"bad\", message: \"m\"\n" + c.rule + "}\n" +
			"rules: good: {match: kind: \"ConfigMap\", message: \"has no team\", require: metadata: labels: team!: string}\n"})
		set, findings, err := Load(t.Context(), tree, box)
		if err != nil || len(findings) > 0 {
			t.Fatal(err, findings)
		}
		set.limit = 5 * time.Second
		var units []*Open
		for _, object := range []string{"one", "bad", "two"} {
			units = append(units, set.Open(manifestsOf(t, cueruletest.Files(map[string]string{object + ".yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: " + object + "}\n"}))))
		}
		got, err := set.Check(t.Context(), units)
		if err != nil {
			t.Fatal(err)
		}
		for i, want := range []string{"one.yaml:3 good ConfigMap/default/one has no team", "bad.yaml:1 " + c.want + " ConfigMap/default/bad the policy bad (policy/a.cue:8)", "two.yaml:3 good ConfigMap/default/two has no team"} {
			f := v1alpha1.Finding{}
			if len(got[i].Refused) > 0 {
				f = got[i].Refused[0]
			}
			if len(got[i].Refused) > 0 && c.want == "TooLarge" && f.Rule == "TooSlow" {
				want = strings.Replace(want, "TooLarge", "TooSlow", 1) // at its bound of memory a child is slow
			}
			if have := fmt.Sprintf("%s:%d %s %s %s", f.File, f.Line, f.Rule, f.Object, f.Message); len(got[i].Refused) != 1 || !strings.HasPrefix(have, want) {
				t.Errorf("%s: %d: %v\nwant %s", name, i, got[i], want)
			}
		}
	}
}

// greedy is a rule that takes gigabytes for one object.
func greedy() string {
	var b strings.Builder
	b.WriteString("require: {N=metadata: {name: string}, s0: strings.Repeat(N.name, 1000000)")
	for i := range 12 {
		fmt.Fprintf(&b, ", s%d: s%d + s%d", i+1, i, i)
	}
	return b.String() + "}"
}

// TestLoadDeath: policies that cannot be read within bounds are a finding, and
// are not read again before they change.
func TestLoadDeath(t *testing.T) {
	box := sandbox.New(sandbox.Config{})
	t.Cleanup(box.Close)
	tree := cueruletest.Files(map[string]string{"policy/a.cue": "package policy\nimport \"list\"\nrules: r: {match: kind: [for i in list.Range(0, 3000, 1) for j in list.Range(0, 3000, 1) {\"\\(i*j)\"}], message: \"m\", require: {}}\n"})
	set, findings, err := Load(t.Context(), tree, box)
	if err != nil || len(findings) != 1 || findings[0].File != "policy" || findings[0].Rule != "TooSlow" && findings[0].Rule != "TooLarge" {
		t.Fatal(err, findings)
	}
	if again, wrong, err := Reload(t.Context(), tree, box, set, findings); again != set || len(wrong) != 1 || err != nil {
		t.Error("read again:", wrong, err)
	}
	t.Log(findings)
}

// TestAtOnce: the files of a commit are checked at once. CUE's values may not
// be shared; the race detector tells.
func TestAtOnce(t *testing.T) {
	tree := cueruletest.Archive(t, "testdata/rules.txtar")
	set, findings, err := Load(t.Context(), tree, nil)
	if err != nil || len(findings) > 0 {
		t.Fatal(err, findings)
	}
	m := manifestsOf(t, tree)
	want, err := check(t.Context(), set, m)
	if err != nil || len(want.Refused) == 0 {
		t.Fatal(err, want)
	}
	var all sync.WaitGroup
	for range 16 {
		all.Go(func() {
			if got, err := check(t.Context(), set, m); err != nil || !reflect.DeepEqual(got, want) {
				t.Errorf("%v\n%v\nwant\n%v", err, got, want)
			}
		})
	}
	all.Wait()
}

func TestCancelled(t *testing.T) {
	tree := cueruletest.Files(map[string]string{"policy/a.cue": small, "x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"})
	set, _, err := Load(t.Context(), tree, nil)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := check(ctx, set, manifestsOf(t, tree)); err == nil {
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
	set, findings, err := Load(b.Context(), tree, nil)
	if err != nil || len(findings) > 0 {
		b.Fatal(err, findings)
	}
	manifests := manifestsOf(b, tree)
	begin := time.Now()
	for b.Loop() {
		r, err := check(b.Context(), set, manifests)
		if err != nil || len(r.Refused)+len(r.Warned) > 0 {
			b.Fatal(err, r)
		}
	}
	b.ReportMetric(float64(time.Since(begin).Milliseconds())/float64(b.N)*4000, "ms/4000-objects")
}
