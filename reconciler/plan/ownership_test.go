package plan

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/google/go-cmp/cmp"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/merge"
	"github.com/writ-os/writ/schema/v1alpha1"
)

func configMap(annotations, data string) string {
	return "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\n  annotations: {" + annotations + "}\ndata: {" + data + "}\n"
}

// applyAs applies one file as another repository.
func (w world) applyAs(repository, yaml string, priorities map[string]int32) *Plan {
	w.t.Helper()
	var units []Unit
	if yaml != "" {
		units = []Unit{unit(w.t, "a.yaml", yaml)}
	}
	in := w.input(units)
	in.Repository, in.Priorities = repository, priorities
	p := Compute(in)
	if len(p.Findings) == 0 {
		w.store(p)
	}
	return p
}

func (w world) data(t *testing.T) string {
	o, ok := w.fake.Cache().Get(schema.ByGVK(render.NamespaceKind.GroupVersion().WithKind("ConfigMap")), schema.Key{Namespace: "default", Name: "a"})
	if !ok {
		return "gone"
	}
	return encode(t, o)
}

func consequences(p *Plan) (out []string) {
	for _, c := range p.Consequences {
		out = append(out, c.Kind+" "+c.Object)
	}
	return out
}

// TestPriority: the repository of the higher priority keeps an object, whoever
// came first; when it lets go, the other's declaration holds and nothing is
// deleted.
func TestPriority(t *testing.T) {
	w := world{t, client.NewFake()}
	pr := map[string]int32{"team": 0, "platform": 10}
	w.applyAs("team", configMap("", "by: team"), pr)
	if p := w.applyAs("platform", configMap("", "by: platform"), pr); len(p.Findings) > 0 || p.Count(Update) != 1 {
		t.Fatalf("the higher priority does not take over: %s", describe(p))
	}
	p := w.applyAs("team", configMap("", "by: team2"), pr)
	if p.Shadowed != 1 || len(p.Ops) != 0 || !slices.Equal(consequences(p), []string{"Shadowed ConfigMap/default/a"}) {
		t.Fatalf("the lower priority is not shadowed: %s %v", describe(p), p.Consequences)
	}
	if p := w.applyAs("platform", "", pr); p.Count(Delete) != 0 {
		t.Fatalf("an object that another repository declares is deleted: %s", describe(p))
	}
	if w.applyAs("team", configMap("", "by: team3"), pr); !strings.Contains(w.data(t), "team3") {
		t.Errorf("is %s", w.data(t))
	}
}

// TestMoveBetweenRepositories: an object changes hands without being deleted.
func TestMoveBetweenRepositories(t *testing.T) {
	w := world{t, client.NewFake()}
	w.applyAs("old", configMap("", "by: old"), nil)
	if p := w.applyAs("new", configMap("", "by: new"), nil); len(p.Findings) != 1 || p.Findings[0].Rule != "Duplicate" {
		t.Fatalf("findings: %v", p.Findings)
	}
	moved := configMap("writ.dev/move-from: old", "by: new")
	if p := w.applyAs("new", moved, nil); len(p.Findings) > 0 || p.Count(Update) != 1 {
		t.Fatalf("not taken over: %v %s", p.Findings, describe(p))
	}
	if p := w.applyAs("old", configMap("", "by: old"), nil); len(p.Findings) > 0 || p.Shadowed != 1 {
		t.Fatalf("the old repository does not give way: %v %s", p.Findings, describe(p))
	}
	if p := w.applyAs("new", moved, nil); !p.Empty() {
		t.Errorf("a second time: %s", describe(p))
	}
	if p := w.applyAs("old", "", nil); p.Count(Delete) != 0 || !strings.Contains(w.data(t), "new") {
		t.Errorf("%s; is %s", describe(p), w.data(t))
	}
}

func TestKeptAndProtected(t *testing.T) {
	for _, tt := range []struct {
		annotations string
		keep        bool
		deletes     int
		rule        string
		consequence []string
	}{
		{"", false, 1, "", nil},
		{"", true, 0, "", []string{"Kept ConfigMap/default/a"}},
		{"writ.dev/prune: disabled", false, 0, "", []string{"Kept ConfigMap/default/a"}},
		{"kustomize.toolkit.fluxcd.io/prune: disabled", false, 0, "", []string{"Kept ConfigMap/default/a"}},
		{`argocd.argoproj.io/sync-options: "Validate=false, Prune=false"`, false, 0, "", []string{"Kept ConfigMap/default/a"}},
		{`writ.dev/protect: "true"`, false, 0, "Protected", nil},
	} {
		w := world{t, client.NewFake()}
		w.apply([]Unit{unit(t, "a.yaml", configMap(tt.annotations, ""))})
		in := w.input(nil)
		in.KeepUndeclared = tt.keep
		p := Compute(in)
		rule := ""
		if len(p.Findings) > 0 {
			rule = p.Findings[0].Rule
		}
		if p.Count(Delete) != tt.deletes || rule != tt.rule || !slices.Equal(consequences(p), tt.consequence) {
			t.Errorf("%s, keep %v: %s, finding %q, %v", tt.annotations, tt.keep, describe(p), rule, consequences(p))
		}
	}
}

const secretType = "apiVersion: v1\nkind: Secret\nmetadata: {name: a, annotations: {%s}}\ntype: %s\nstringData: {k: v}\n"

// TestReplace: what cannot be changed is made anew where the manifest says so.
func TestReplace(t *testing.T) {
	set := func(annotations, kind string) []Unit {
		return []Unit{unit(t, "a.yaml", strings.Replace(strings.Replace(secretType, "%s", annotations, 1), "%s", kind, 1))}
	}
	w := world{t, client.NewFake()}
	w.apply(set("", "example.com/one"))
	p := Compute(w.input(set("", "example.com/two")))
	if len(p.Findings) != 1 || p.Findings[0].Rule != "Immutable" || !strings.Contains(p.Findings[0].Hint, v1alpha1.ReplaceAnnotation) {
		t.Fatalf("findings: %v", p.Findings)
	}
	for _, word := range []string{"writ.dev/replace: allowed", "kustomize.toolkit.fluxcd.io/force: enabled"} {
		p = Compute(w.input(set(word, "example.com/two")))
		if len(p.Findings) > 0 || p.Count(Replace) != 1 || !slices.Equal(consequences(p), []string{"Replace Secret/default/a"}) {
			t.Fatalf("%s: %v %s", word, p.Findings, describe(p))
		}
	}
	w.store(p)
	if p = w.apply(set("kustomize.toolkit.fluxcd.io/force: enabled", "example.com/two")); p.Count(Create) != 1 {
		t.Errorf("not made anew: %s", describe(p))
	}
	w.apply(set(`writ.dev/protect: "true", writ.dev/replace: allowed`, "example.com/two"))
	p = Compute(w.input(set("writ.dev/replace: allowed", "example.com/three")))
	if len(p.Findings) != 1 || p.Findings[0].Rule != "Protected" {
		t.Errorf("findings: %v", p.Findings)
	}
}

// TestIgnore: a field that a rule names belongs to whoever has changed it.
func TestIgnore(t *testing.T) {
	d := func(replicas, image string) []Unit {
		return []Unit{unit(t, "a.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: a}\nspec:\n  replicas: "+replicas+
			"\n  selector: {matchLabels: {a: b}}\n  template:\n    metadata: {labels: {a: b}}\n    spec: {containers: [{name: c, image: "+image+"}]}\n")}
	}
	rules := []v1alpha1.IgnoreRule{{Kind: "Deploy*", Fields: []string{"/spec/replicas"}}}
	w := world{t, client.NewFake()}
	w.apply(d("1", "i:1"))
	plan := func(units []Unit, rules []v1alpha1.IgnoreRule) *Plan {
		in := w.input(units)
		in.Ignore = rules
		return Compute(in)
	}
	if p := plan(d("2", "i:1"), rules); len(p.Ops) != 0 {
		t.Fatalf("set a second time: %s", describe(p))
	}
	var deployments *schema.Resource
	for _, r := range schema.Resources {
		if r.Kind == "Deployment" {
			deployments = r
		}
	}
	if _, err := w.fake.Patch(context.Background(), deployments, schema.Key{Namespace: "default", Name: "a"}, types.MergePatchType,
		[]byte(`{"spec":{"replicas":7}}`), client.WriteOptions{FieldManager: "autoscaler"}); err != nil {
		t.Fatal(err)
	}
	if p := plan(d("1", "i:1"), nil); len(p.Ops) != 1 {
		t.Fatalf("no rule: %s", describe(p))
	}
	if p := plan(d("1", "i:1"), rules); len(p.Ops) != 0 {
		t.Fatalf("ignored: %s", describe(p))
	}
	p := plan(d("1", "i:2"), rules)
	if len(p.Ops) != 1 || len(p.Ops[0].Diffs) != 1 {
		t.Fatalf("another field changes: %s", describe(p))
	}
	w.store(p)
	o, _ := w.fake.Cache().Get(deployments, schema.Key{Namespace: "default", Name: "a"})
	if text := encode(t, o); !strings.Contains(text, `"replicas":7`) || !strings.Contains(text, "i:2") {
		t.Errorf("is %s", text)
	}
	whole := []v1alpha1.IgnoreRule{{Kind: "Deployment", Name: "a"}}
	if p := plan(d("3", "i:3"), whole); len(p.Ops) != 0 {
		t.Errorf("whole object: %s", describe(p))
	}
}

func TestPointers(t *testing.T) {
	for _, tt := range []struct{ pointer, want string }{
		{"/spec/replicas", `{"spec":{"list":[{"name":"a","x":1},{"name":"b","x":2}]}}`},
		{"/spec/list/*/x", `{"spec":{"list":[{"name":"a"},{"name":"b"}],"replicas":1}}`},
		{"/spec/list/1/x", `{"spec":{"list":[{"name":"a","x":1},{"name":"b"}],"replicas":1}}`},
		{"/spec/list/name=a/x", `{"spec":{"list":[{"name":"a"},{"name":"b","x":2}],"replicas":1}}`},
		{"/spec/list/name=z/x", `{"spec":{"list":[{"name":"a","x":1},{"name":"b","x":2}],"replicas":1}}`},
	} {
		v := decodeJSON(t, `{"spec":{"replicas":1,"list":[{"name":"a","x":1},{"name":"b","x":2}]}}`)
		settle(v, nil, merge.ParsePointer(tt.pointer), false)
		if diff := cmp.Diff(decodeJSON(t, tt.want), v); diff != "" {
			t.Errorf("%s: %s", tt.pointer, diff)
		}
	}
	v := decodeJSON(t, `{"list":[{"name":"a","x":1},{"name":"b","x":2}]}`)
	settle(v, decodeJSON(t, `{"list":[{"name":"b","x":9}]}`), merge.ParsePointer("/list/*/x"), true)
	if diff := cmp.Diff(decodeJSON(t, `{"list":[{"name":"a"},{"name":"b","x":9}]}`), v); diff != "" {
		t.Error(diff)
	}
}
