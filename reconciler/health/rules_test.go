package health

import (
	"bytes"
	"encoding/json"
	"fmt"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"go.uber.org/goleak"

	"github.com/writ-os/writ/reconciler/cuerule/cueruletest"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/schema"
)

// TestRules has the objects of each archive judged by its rules.
func TestRules(t *testing.T) {
	cueruletest.Golden(t, func(t *testing.T, tree cueruletest.Tree) string {
		objects := tree.Files["objects"]
		delete(tree.Files, "objects")
		return judged(t, tree, objects)
	})
}

func TestMain(m *testing.M) {
	if sandbox.Serve(Functions()...) {
		return
	}
	goleak.VerifyTestMain(m)
}

func box(t testing.TB) *sandbox.Sandbox {
	s := sandbox.New(sandbox.Config{})
	t.Cleanup(s.Close)
	return s
}

func judged(t *testing.T, tree cueruletest.Tree, objects string) string {
	t.Helper()
	r, findings, err := Load(t.Context(), tree, box(t))
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, f := range findings {
		fmt.Fprintf(&b, "! %s:%d:%d [%s] %s (%s)\n", f.File, f.Line, f.Column, f.Rule, f.Message, f.Hint)
	}
	for text := range strings.SplitSeq(objects, "---\n") {
		if strings.TrimSpace(text) == "" {
			continue
		}
		u := parse(t, text)
		h := r.Of(u)
		fmt.Fprintf(&b, "%s/%s: %s", u.GetKind(), u.GetName(), h.Status)
		if h.Message != "" {
			fmt.Fprintf(&b, ": %s", h.Message)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

const database = `package health
rules: "db": {
	match: kind: "Database"
	healthy: status: phase: "Running"
}
`

func TestWhere(t *testing.T) {
	for _, c := range []struct {
		root string
		at   string
		want bool
	}{{".", "health/a.cue", true}, {"clusters/a", "health/a.cue", true}, {"clusters/a", "clusters/a/health/a.cue", true},
		{"clusters/a", "clusters/b/health/a.cue", false}, {".", "health/old/a.cue", false}, {".", "health/a_test.cue", false}} {
		tree := cueruletest.Tree{Files: map[string]string{c.at: database, "clusters/a/x.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x}\n"}, Followed: c.root}
		r, findings, err := Load(t.Context(), tree, nil)
		if err != nil || len(findings) > 0 || (r != nil) != c.want {
			t.Errorf("%+v: %v %v %v", c, r, findings, err)
		}
		if !c.want {
			continue
		}
		// The rules are no manifests.
		units, findings, err := render.Scan(tree)
		if err != nil || len(findings) > 0 || len(units) != 1 {
			t.Errorf("%+v: %v %v %v", c, units, findings, err)
		}
	}
}

func TestReload(t *testing.T) {
	tree := cueruletest.Files(map[string]string{"health/a.cue": database})
	first, _, err := Load(t.Context(), tree, nil)
	if err != nil {
		t.Fatal(err)
	}
	if again, _, err := Reload(t.Context(), tree, nil, first, nil); err != nil || again != first {
		t.Error("rules that have not changed are read again", err)
	}
	tree.Files["health/a.cue"] += "// more\n"
	if again, _, err := Reload(t.Context(), tree, nil, first, nil); err != nil || again == first {
		t.Error("rules that have changed are not read again", err)
	}
	if none, _, err := Reload(t.Context(), cueruletest.Files(map[string]string{}), nil, first, nil); err != nil || none != nil || none.Hash() != "" {
		t.Error("no rules are nil", none, err)
	}
}

// TestTyped: rules see built-in kinds too, and go before the judgement of the
// kind; what nobody has a rule for is judged as before; nil rules are none.
func TestTyped(t *testing.T) {
	r, findings, err := Load(t.Context(), cueruletest.Files(map[string]string{"health/a.cue": `package health
rules: "config": {
	match: {apiVersion: "v1", kind: "ConfigMap", namespace: "shop*", labels: tier: "*"}
	healthy: data: ready: "yes"
	message: "is \(object.data.ready)"
	object: _
}
rules: "all ready": {
	match: kind: "Deployment"
	object: _
	healthy: status: readyReplicas: object.spec.replicas
}
rules: "secret": {
	match: kind: "Secret"
	object: _
	healthy: false
	message: "holds \(object.data.password)"
}
`}), box(t))
	if err != nil || len(findings) > 0 {
		t.Fatal(err, findings)
	}
	config := func(ns, ready string) *corev1.ConfigMap {
		return &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: ns, Name: "x", Labels: map[string]string{"tier": "a"}}, Data: map[string]string{"ready": ready}}
	}
	deploy := func(want, ready int32) *appsv1.Deployment {
		return &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &want}, Status: appsv1.DeploymentStatus{ReadyReplicas: ready}}
	}
	for _, c := range []struct {
		name string
		got  Health
		want Status
		says string
	}{
		{"meant", r.Of(config("shop-a", "no")), Progressing, "is no"},
		{"meant and well", r.Of(config("shop-a", "yes")), Healthy, ""},
		{"another namespace", r.Of(config("other", "no")), Healthy, ""},
		{"fields compared", r.Of(deploy(3, 3)), Healthy, ""},
		{"fields differ", r.Of(deploy(3, 2)), Progressing, "by the rule all ready (health/a.cue:8)"},
		{"missing", r.Of(nil), Missing, "does not exist"},
		{"none", (*Rules)(nil).Of(config("shop-a", "no")), Healthy, ""},
		{"secrets are not told", r.Of(&corev1.Secret{Data: map[string][]byte{"password": []byte("geheim")}}), Progressing, "by the rule secret"},
	} {
		if c.got.Status != c.want || !strings.Contains(c.got.Message, c.says) {
			t.Errorf("%s: %+v", c.name, c.got)
		}
	}
}

// TestTooSlow: a rule without end costs five seconds once, whoever asks.
func TestTooSlow(t *testing.T) {
	r, findings, err := Load(t.Context(), cueruletest.Files(map[string]string{"health/a.cue": `package health
import "list"
rules: "endless": {
	match: kind: "ConfigMap"
	object: _
	_n: list.Range(0, len(object.data) * 220, 1)
	healthy: len([for a in _n for b in _n for c in _n if a + b + c < 0 {a}]) == 0
}
`}), box(t))
	if err != nil || len(findings) > 0 {
		t.Fatal(err, findings)
	}
	start := time.Now()
	var wg sync.WaitGroup
	for range 5 {
		wg.Go(func() {
			if h := r.Of(&corev1.ConfigMap{Data: map[string]string{"a": "b"}}); h.Status != Degraded || !strings.Contains(h.Message, "endless (health/a.cue:") {
				t.Error(h)
			}
		})
	}
	wg.Wait()
	if took := time.Since(start); took > 10*time.Second {
		t.Errorf("five objects took %s", took)
	}
}

// TestMemory: judging does not pile up what it has judged.
func TestMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	r, _, err := Load(t.Context(), cueruletest.Files(map[string]string{"health/a.cue": database}), nil)
	if err != nil {
		t.Fatal(err)
	}
	judge := func(n int) uint64 {
		for i := range n {
			u := parse(t, fmt.Sprintf("kind: Database\nmetadata: {name: x%d}\nstatus: {phase: Running}\n", i))
			if h := r.Of(u); h.Status != Healthy {
				t.Fatal(h)
			}
		}
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	before := judge(1000)
	after := judge(4000)
	if after > before+2<<20 {
		t.Errorf("4,000 objects left %d bytes", after-before)
	}
}

func BenchmarkRule(b *testing.B) {
	for name, s := range map[string]*sandbox.Sandbox{"here": nil, "child": box(b)} {
		r, _, err := Load(b.Context(), cueruletest.Files(map[string]string{"health/a.cue": database}), s)
		if err != nil {
			b.Fatal(err)
		}
		u := parse(b, "kind: Database\nmetadata: {name: x}\nstatus: {phase: Running}\n")
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				r.Of(u)
			}
		})
		many := make([]schema.Object, together)
		for i := range many {
			many[i] = u
		}
		b.Run(name+"/together", func(b *testing.B) {
			for b.Loop() {
				r.All(many, nil)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*len(many)), "us/object")
		})
	}
}

func FuzzCustom(f *testing.F) {
	f.Add([]byte(`{"kind":"X","status":{"conditions":[{"type":"Ready","status":"True"}]}}`))
	r, _, err := Load(f.Context(), cueruletest.Files(map[string]string{"health/a.cue": strings.ReplaceAll(database, "Database", "*")}), nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if !bytes.HasPrefix(data, []byte("{")) {
			return
		}
		u := parseJSON(data)
		if u == nil {
			return
		}
		if h := Of(u); h.Status == "" {
			t.Error("no status")
		}
		if h := r.Of(u); h.Status == "" {
			t.Error("no status")
		}
	})
}

func parseJSON(data []byte) *unstructured.Unstructured {
	u := &unstructured.Unstructured{}
	if json.Unmarshal(data, &u.Object) != nil || u.Object == nil || normalize(u) != nil {
		return nil
	}
	return u
}
