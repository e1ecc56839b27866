package plan

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// world is a cluster under test: plans are applied to it by the client's fake,
// whose server-side apply is upstream's own.
type world struct {
	t    testing.TB
	fake *client.Fake
}

func (w world) input(units []Unit) Input {
	return Input{Repository: "cluster", SHA: "c0ffee", Units: units, Live: w.fake.Cache(), AllowDeletes: true,
		Inventories: client.CachedList[*v1alpha1.Inventory](w.fake.Cache(), "")}
}

// apply plans the units and stores the plan.
func (w world) apply(units []Unit) *Plan {
	w.t.Helper()
	p := Compute(w.input(units))
	if len(p.Findings) > 0 {
		w.t.Fatalf("findings: %v", p.Findings)
	}
	w.store(p)
	return p
}

// store writes a plan into the cluster.
func (w world) store(p *Plan) {
	w.t.Helper()
	var ops []client.Op
	for _, o := range p.Ops {
		if o.Action == Delete || o.Action == Replace {
			ops = append(ops, client.Op{Verb: client.VerbDelete, Resource: o.Resource, Key: o.Key})
			continue
		}
		ops = append(ops, client.Op{Verb: client.VerbApply, Resource: o.Resource, Key: o.Key, Object: o.Object, Fields: o.Fields, FieldManager: Manager, Force: true})
	}
	for _, o := range p.Inventories {
		op := client.Op{Verb: client.VerbUpdate, Resource: schema.ResourceFor[*v1alpha1.Inventory](), Key: schema.Key{Name: o.Name}, ResourceVersion: o.ResourceVersion}
		switch {
		case o.Object == nil:
			op.Verb = client.VerbDelete
		case o.ResourceVersion == "0":
			op.Verb = client.VerbCreate
		}
		if o.Object != nil {
			op.Object = o.Object
		}
		ops = append(ops, op)
	}
	if _, err := w.fake.Transact(context.Background(), ops, false); err != nil {
		w.t.Fatal(err)
	}
}

func unit(t testing.TB, path, yaml string) Unit {
	t.Helper()
	units, _, err := render.Scan(oneFile{path, yaml})
	if err != nil {
		t.Fatal(err)
	}
	out, err := render.Render(context.Background(), &units[0])
	if err != nil || len(out.Findings) > 0 {
		t.Fatal(err, out.Findings)
	}
	u := Unit{Path: path, Hash: units[0].Hash}
	for _, m := range out.Manifests {
		u.Objects = append(u.Objects, Desired{Head: m.Head, Fields: m.JSON})
	}
	return u
}

// manifests makes a random set of units out of few names, so that two of them
// share, change, move and lose objects.
func manifests(t testing.TB, rnd *rand.Rand) []Unit {
	var units []Unit
	used := map[string]bool{}
	for file := range 3 {
		var b strings.Builder
		for range rnd.IntN(4) {
			kind, name := []string{"ConfigMap", "Secret", "Service", "Deployment"}[rnd.IntN(4)], string(rune('a'+rnd.IntN(3)))
			if used[kind+name] {
				continue
			}
			used[kind+name] = true
			b.WriteString("---\n" + manifest(rnd, kind, name))
		}
		if b.Len() > 0 {
			units = append(units, unit(t, fmt.Sprintf("f%d.yaml", file), b.String()))
		}
	}
	return units
}

func manifest(rnd *rand.Rand, kind, name string) string {
	pick := func(options ...string) string { return options[rnd.IntN(len(options))] }
	meta := fmt.Sprintf("metadata:\n  name: %s\n%s", name, pick("", "  labels: {a: b}\n", "  annotations: {x: y, z: w}\n"))
	switch kind {
	case "ConfigMap":
		return "apiVersion: v1\nkind: ConfigMap\n" + meta + pick("", "data: {a: \"1\"}\n", "data: {a: \"2\", b: \"3\"}\n", "immutable: false\n")
	case "Secret":
		return "apiVersion: v1\nkind: Secret\n" + meta + pick("", "data: {a: MQ==}\n", "stringData: {a: one, b: two}\n")
	case "Service":
		return "apiVersion: v1\nkind: Service\n" + meta + "spec:\n  selector: {app: x}\n  ports:\n" +
			pick("  - port: 80\n", "  - {port: 80, protocol: UDP}\n", "  - {name: a, port: 80}\n  - {name: b, port: 81, targetPort: web}\n", "  - {port: 80, targetPort: 8080}\n")
	}
	return "apiVersion: apps/v1\nkind: Deployment\n" + meta + "spec:\n" + pick("", "  replicas: 0\n", "  replicas: 3\n") +
		"  selector: {matchLabels: {app: x}}\n  template:\n    metadata: {labels: {app: x}}\n    spec:\n" +
		pick("", "      hostNetwork: false\n", "      hostNetwork: true\n", "      terminationGracePeriodSeconds: 0\n", "      volumes: [{name: v, emptyDir: {}}]\n") +
		"      containers:\n      - name: c\n        image: " + pick("i:1", "i:2") + "\n" +
		pick("", "        env: [{name: A, value: \"1\"}, {name: B}]\n", "        resources: {limits: {cpu: 1000m, memory: 1Gi}}\n", "        resources: {limits: {cpu: 1}}\n") +
		pick("", "      - name: side\n        image: s:1\n        args: [a, b]\n", "        ports: [{containerPort: 80}]\n")
}

// TestProperties: whatever two commits declare, applying the second leaves
// nothing to do, and the cluster has what it would have without the first.
func TestProperties(t *testing.T) {
	for seed := range uint64(400) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		a, b := manifests(t, rnd), manifests(t, rnd)
		w := world{t, client.NewFake()}
		first := Compute(w.input(a))
		for _, o := range first.Ops {
			if o.Action != Create {
				t.Fatalf("seed %d: %s of %s in an empty cluster", seed, o.Action, o.Ref)
			}
		}
		w.apply(a)
		if p := Compute(w.input(a)); !p.Empty() || p.Unchanged != p.Declared {
			t.Fatalf("seed %d: plan(a, a) is not empty: %s", seed, describe(p))
		}
		if p := Compute(w.input(b)); hasImmutable(p) {
			continue
		}
		w.apply(b)
		if p := Compute(w.input(b)); !p.Empty() {
			t.Fatalf("seed %d: plan(b, b) is not empty: %s", seed, describe(p))
		}
		fresh := world{t, client.NewFake()}
		fresh.apply(b)
		if diff := cmp.Diff(dump(fresh.fake), dump(w.fake)); diff != "" {
			t.Fatalf("seed %d: apply(plan(a, b), a) is not b: %s", seed, diff)
		}
	}
}

func hasImmutable(p *Plan) bool { return len(p.Findings) > 0 }

func describe(p *Plan) string {
	var b strings.Builder
	_ = p.Write(&b, Style{})
	for _, i := range p.Inventories {
		fmt.Fprintf(&b, "inventory %s\n", i.Name)
	}
	return b.String()
}

// dump is the cluster without what differs from run to run.
func dump(f *client.Fake) map[string]string {
	out := map[string]string{}
	for _, r := range schema.Resources {
		for _, o := range f.Cache().List(r, "") {
			o := o.DeepCopyObject().(schema.Object)
			o.SetUID("")
			o.SetResourceVersion("")
			o.SetManagedFields(nil)
			o.SetGeneration(0)
			o.SetCreationTimestamp(metav1.Time{})
			data, _ := json.Marshal(o)
			out[r.Kind+"/"+schema.KeyOf(o).String()] = string(data)
		}
	}
	return out
}

func TestOthersFieldsAreLeft(t *testing.T) {
	w := world{t, client.NewFake()}
	u := []Unit{unit(t, "a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {git: \"1\"}\n")}
	w.apply(u)
	live, _ := client.Cached[*corev1.ConfigMap](w.fake.Cache(), schema.Key{Namespace: "default", Name: "a"})
	next := live.DeepCopy()
	next.Data["other"] = "x"
	if _, err := client.Update(context.Background(), w.fake, next, client.WriteOptions{FieldManager: "someone"}); err != nil {
		t.Fatal(err)
	}
	if p := Compute(w.input(u)); !p.Empty() {
		t.Errorf("plan: %s", describe(p))
	}
	next = next.DeepCopy()
	next.ResourceVersion = ""
	next.Data["git"] = "2"
	if _, err := client.Update(context.Background(), w.fake, next, client.WriteOptions{FieldManager: "someone"}); err != nil {
		t.Fatal(err)
	}
	p := Compute(w.input(u))
	if len(p.Ops) != 1 || len(p.Ops[0].Diffs) != 1 || p.Ops[0].Diffs[0] != (Diff{"data.git", `"2"`, `"1"`}) {
		t.Errorf("plan: %s", describe(p))
	}
}

func TestSecretsAreHidden(t *testing.T) {
	w := world{t, client.NewFake()}
	w.apply([]Unit{unit(t, "a.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {p: hunter2}\n")})
	p := Compute(w.input([]Unit{unit(t, "a.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {p: hunter3, q: x}\n")}))
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	all := string(text) + describe(p)
	for _, secret := range []string{"hunter", "aHVudGVy", `"x"`, "eA=="} {
		if strings.Contains(all, secret) {
			t.Errorf("%q is in %s", secret, all)
		}
	}
	if len(p.Ops) != 1 || len(p.Ops[0].Diffs) != 2 {
		t.Errorf("plan: %s", describe(p))
	}
}

func TestGuards(t *testing.T) {
	many := func(n int) (units []Unit) {
		for i := range n {
			units = append(units, unit(t, fmt.Sprintf("%03d.yaml", i), fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\n", i)))
		}
		return units
	}
	for _, tt := range []struct {
		before, after int
		allow         bool
		rule          string
	}{
		{8, 7, false, ""}, {8, 0, false, "EmptyRepository"}, {8, 0, true, ""},
		{12, 2, false, ""}, {40, 29, false, "TooManyDeletes"}, {40, 29, true, ""},
		{400, 349, false, "TooManyDeletes"}, {400, 350, false, ""},
	} {
		w := world{t, client.NewFake()}
		w.apply(many(tt.before))
		in := w.input(many(tt.after))
		in.AllowDeletes = tt.allow
		p := Compute(in)
		got := ""
		if len(p.Findings) > 0 {
			got = p.Findings[0].Rule
		}
		if got != tt.rule {
			t.Errorf("%d -> %d, allowed %v: %q, want %q", tt.before, tt.after, tt.allow, got, tt.rule)
		}
		if n := p.Count(Delete); n != tt.before-tt.after {
			t.Errorf("%d -> %d: %d deletes", tt.before, tt.after, n)
		}
	}
}

func TestOtherRepositories(t *testing.T) {
	w := world{t, client.NewFake()}
	u := []Unit{unit(t, "a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")}
	w.apply(u)
	in := w.input(u)
	in.Repository = "other"
	if p := Compute(in); len(p.Findings) != 1 || p.Findings[0].Rule != "Duplicate" {
		t.Errorf("findings: %v", p.Findings)
	}
	in = w.input(nil)
	in.Repository = "other"
	if p := Compute(in); !p.Empty() {
		t.Errorf("another repository's objects are touched: %s", describe(p))
	}
}

func TestOrder(t *testing.T) {
	w := world{t, client.NewFake()}
	yaml := `{apiVersion: apps/v1, kind: Deployment, metadata: {name: a}, spec: {selector: {}, template: {}}}
---
{apiVersion: v1, kind: Service, metadata: {name: a}}
---
{apiVersion: v1, kind: ServiceAccount, metadata: {name: a}}
---
{apiVersion: v1, kind: Namespace, metadata: {name: a}}
`
	kinds := func(p *Plan) (out []string) {
		for _, o := range p.Ops {
			out = append(out, o.Resource.Kind)
		}
		return out
	}
	p := w.apply([]Unit{unit(t, "a.yaml", yaml)})
	if diff := cmp.Diff([]string{"Namespace", "ServiceAccount", "Service", "Deployment"}, kinds(p)); diff != "" {
		t.Error(diff)
	}
	p = Compute(w.input(nil))
	if diff := cmp.Diff([]string{"Deployment", "Service", "ServiceAccount", "Namespace"}, kinds(p)); diff != "" {
		t.Error(diff)
	}
	if len(p.Consequences) != 1 || p.Consequences[0].Kind != "NamespaceDelete" {
		t.Errorf("consequences: %v", p.Consequences)
	}
}

// TestZeroValues: a declared zero is a declaration, though Go leaves it out.
func TestZeroValues(t *testing.T) {
	pod := func(field string) []Unit {
		return []Unit{unit(t, "a.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: a}\nspec:\n  containers: [{name: c, image: i}]\n"+field)}
	}
	w := world{t, client.NewFake()}
	w.apply(pod("  hostNetwork: true\n"))
	p := w.apply(pod("  hostNetwork: false\n"))
	if len(p.Ops) != 1 || len(p.Ops[0].Diffs) != 1 || p.Ops[0].Diffs[0].Path != "spec.hostNetwork" {
		t.Errorf("plan: %s", describe(p))
	}
	if p := Compute(w.input(pod("  hostNetwork: false\n"))); !p.Empty() {
		t.Errorf("plan: %s", describe(p))
	}
}
