package reconciler

import (
	"context"
	"fmt"
	"runtime"
	"testing"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/apply"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// shop is a tree of n Deployments, Services and ConfigMaps in turn, ten to a
// file, each Service before the pods of a Deployment; version changes those of
// the first files.
func shop(n, changed int) memTree {
	t := memTree{}
	for i := range n {
		v := 1
		if i < changed {
			v = 2
		}
		name := fmt.Sprintf("apps/f%05d.yaml", i/10)
		switch i % 3 {
		case 0:
			t[name] += fmt.Sprintf(`---
apiVersion: apps/v1
kind: Deployment
metadata: {name: o%[1]d, labels: {app: o%[1]d}}
spec:
  replicas: 3
  selector: {matchLabels: {app: o%[1]d}}
  template:
    metadata: {labels: {app: o%[1]d}}
    spec:
      containers:
      - name: web
        image: registry.local/web:%[2]d
        args: ["--port=8080"]
        env:
        - name: LOG_LEVEL
          value: info
        - name: POD_NAME
          valueFrom: {fieldRef: {fieldPath: metadata.name}}
        ports: [{name: http, containerPort: 8080}]
        resources: {requests: {cpu: 100m, memory: 128Mi}, limits: {cpu: "1", memory: 256Mi}}
        readinessProbe: {httpGet: {path: /ready, port: http}}
`, i, v)
		case 1:
			t[name] += fmt.Sprintf("---\napiVersion: v1\nkind: Service\nmetadata: {name: o%[1]d}\nspec: {selector: {app: o%[3]d}, ports: [{port: %[2]d}]}\n", i, 80+v, i-1)
		default:
			t[name] += fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: o%d}\ndata: {v: \"%d\", text: \"some text\"}\n", i, v)
		}
	}
	return t
}

// store plans a tree and applies it.
func store(b testing.TB, e *evaluator, f *client.Fake, t memTree, sha string) {
	w := World{Repository: "cluster", Live: f.Cache(), Inventories: inventories(f)}
	p, ev, err := e.plan(context.Background(), t, Commit{SHA: sha}, w, false)
	if err != nil || len(p.Findings) > 0 {
		b.Fatal(err, p.Findings)
	}
	if _, err := apply.Do(context.Background(), f, p); err != nil {
		b.Fatal(err)
	}
	ev.drop()
}

// BenchmarkPlanTenOf5000 is what a commit costs that changes ten of 5,000
// objects, up to the transaction.
func BenchmarkPlanTenOf5000(b *testing.B) {
	e, f := newEvaluator(), client.NewFake()
	one, two := shop(5000, 0), shop(5000, 10)
	store(b, e, f, one, "1")
	w := World{Repository: "cluster", Live: f.Cache(), Inventories: inventories(f)}
	for b.Loop() {
		b.StopTimer()
		if _, _, err := e.plan(context.Background(), one, Commit{SHA: "1"}, w, false); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		p, _, err := e.plan(context.Background(), two, Commit{SHA: "2"}, w, false)
		if err != nil || len(p.Ops) != 10 {
			b.Fatal(err, len(p.Ops))
		}
	}
}

// BenchmarkPlan4000New is reading, checking and planning 4,000 new objects.
func BenchmarkPlan4000New(b *testing.B) {
	f, tree := client.NewFake(), shop(4000, 0)
	for b.Loop() {
		w := World{Repository: "cluster", Live: f.Cache()}
		p, _, err := newEvaluator().plan(context.Background(), tree, Commit{SHA: "1"}, w, false)
		if err != nil || len(p.Ops) != 4000 {
			b.Fatal(err, len(p.Ops), p.Findings)
		}
	}
}

// BenchmarkPlan4000NewPolicies is the same where policies say what all of them
// must be: some that are answered at once, and one that only CUE can answer.
func BenchmarkPlan4000NewPolicies(b *testing.B) {
	const simple = `package policy
rules: "registry": {match: podSpec: true, message: "m", require: containers: [...{image: =~"^registry\\.local/"}]}
rules: "replicas": {match: kind: "Deployment", message: "m", require: spec: replicas: >=1 & <=50}
rules: "ports": {match: kind: "Service", message: "m", require: spec: ports: [...{port: >0}]}
`
	const cue = simple + "rules: \"count\": {match: kind: \"*\", message: \"m\", require: {metadata: {name: string}, _n: len(metadata.name) & >0}}\n"
	for name, rules := range map[string]string{"simple": simple, "cue": cue} {
		b.Run(name, func(b *testing.B) {
			f, tree, options := client.NewFake(), shop(4000, 0), inSandbox(b)
			tree["policy/a.cue"] = rules
			for b.Loop() {
				w := World{Repository: "cluster", Live: f.Cache(), Render: options}
				p, _, err := newEvaluator().plan(context.Background(), tree, Commit{SHA: "1"}, w, false)
				if err != nil || len(p.Ops) != 4000 {
					b.Fatal(err, len(p.Ops), p.Findings)
				}
			}
		})
	}
}

func inSandbox(b *testing.B) render.Options {
	s := sandbox.New(sandbox.Config{})
	b.Cleanup(s.Close)
	return render.Options{Sandbox: s}
}

// BenchmarkFullCompare5000 is the first look of a process at a cluster that is
// as declared: every object is compared.
func BenchmarkFullCompare5000(b *testing.B) {
	f, tree := client.NewFake(), shop(5000, 0)
	store(b, newEvaluator(), f, tree, "1")
	w := World{Repository: "cluster", Live: f.Cache(), Inventories: inventories(f)}
	for b.Loop() {
		p, _, err := newEvaluator().plan(context.Background(), tree, Commit{SHA: "1"}, w, true)
		if err != nil || !p.Empty() {
			b.Fatal(err, p.Summary(), p.Ops[0].Diffs)
		}
	}
}

// TestMemoryIsFlat: what is remembered is that of one tree, however many
// commits come.
func TestMemoryIsFlat(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds")
	}
	e, f := newEvaluator(), client.NewFake()
	store(t, e, f, shop(500, 0), "0")
	heap := func() uint64 {
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	w := World{Repository: "cluster", Live: f.Cache(), Inventories: inventories(f)}
	run := func(n int) {
		for i := range n {
			tree := shop(500, i%30+1)
			tree["bad.yaml"] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: x%d}\ndatum: {}\n", i)
			if _, _, err := e.plan(context.Background(), tree, Commit{SHA: "1"}, w, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	run(30)
	before := heap()
	run(120)
	if after := heap(); after > before+before/5+1<<20 {
		t.Errorf("heap grew from %d to %d bytes in 120 commits", before, after)
	}
}

func inventories(f *client.Fake) []*v1alpha1.Inventory {
	return client.CachedList[*v1alpha1.Inventory](f.Cache(), "")
}

// live are the keys of the ConfigMaps.
func live(f *client.Fake) (keys []schema.Key) {
	for _, o := range f.Cache().List(kind("ConfigMap"), "") {
		keys = append(keys, schema.KeyOf(o))
	}
	return keys
}
