package reconciler

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/apply"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/custom"
	"github.com/writ-os/writ/schema/v1alpha1"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"
)

// versionedMem is a tree in memory that knows its other versions.
type versionedMem struct {
	memTree
	at  int
	all *[]memTree
}

func (v versionedMem) Version() (string, error) { return strconv.Itoa(v.at), nil }

func (v versionedMem) Fits(int, int64) bool { return true }

func (v versionedMem) Since(version string) ([]render.Difference, bool, error) {
	at, _ := strconv.Atoi(version)
	before, now := files((*v.all)[at]), files(v.memTree)
	var out []render.Difference
	for _, p := range slices.Sorted(maps.Keys(union(before, now))) {
		f, ok := now[p]
		switch {
		case !ok:
			out = append(out, render.Difference{Path: p})
		case before[p].Blob != f.Blob:
			out = append(out, render.Difference{Path: p, File: &f})
		}
	}
	return out, true, nil
}

func files(t memTree) map[string]render.File {
	out := map[string]render.File{}
	for f := range t.Walk() {
		out[f.Path] = f
	}
	return out
}

func union[V any](a, b map[string]V) map[string]V {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

// fortune is a repository and its cluster, which random things happen to. What is
// known of the commits before is used by one evaluator; another one looks at
// everything anew, each time.
type fortune struct {
	t     *testing.T
	rnd   *rand.Rand
	fake  *client.Fake
	live  *schema.Live
	known *evaluator
	all   []memTree
	tree  memTree
	spec  v1alpha1.RepositorySpec

	refused, some, applied int
}

const widgetCRD = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: widgets.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: widgets, singular: widget, kind: Widget}
  versions:
  - name: v1
    served: true
    storage: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {size: {type: %s}}}}}}
`

// pool is what the files of random commits hold. Most objects have a file of
// their own; now and then two files declare the same.
func (l *fortune) pool() map[string][]string {
	value := strconv.Itoa(l.rnd.IntN(3))
	out := map[string][]string{}
	for i, p := range []string{"a.yaml", "b.yaml", "c.yml", "x/d.yaml", "x/e.yaml", "y/f.yaml", "y/g/h.yaml"} {
		n := strconv.Itoa(i)
		if l.rnd.IntN(20) == 0 {
			n = strconv.Itoa(l.rnd.IntN(7))
		}
		object := func(name, head, text string) string {
			return fmt.Sprintf("---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: %s%s, %s}\n%s", name, n, head, text)
		}
		plain := object("c", "labels: {team: a}", fmt.Sprintf("data: {v: %q, x: \"v${x:=1}\"}\n", value))
		out[p] = []string{plain, plain, plain + object("e", "labels: {team: b}", ""), plain + "---\napiVersion: v1\nkind: Namespace\nmetadata: {name: n" + n + "}\n",
			"---\napiVersion: v1\nkind: Namespace\nmetadata: {name: n" + n + "}\n" + object("c", "namespace: n"+n, ""), object("c", "namespace: n"+strconv.Itoa(l.rnd.IntN(7)), ""),
			object("c", "annotations: {writ.dev/wave: \"1\"}", ""),
			object("d", "annotations: {writ.dev/depends-on: ConfigMap/default/c"+value+"}", ""),
			"---\napiVersion: v1\nkind: Service\nmetadata: {name: s" + n + "}\nspec: {selector: {n: \"" + value + "\"}, ports: [{port: 1, targetPort: http}]}\n",
			"---\napiVersion: v1\nkind: Pod\nmetadata: {name: p" + n + ", labels: {n: \"" + value + "\"}}\nspec: {containers: [{name: a, image: a, envFrom: [{configMapRef: {name: c" + value + "}}]}]}\n",
			"---\napiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w" + n + "}\nspec: {size: " + value + "}\n"}
	}
	out["bad.yaml"] = []string{"apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bad}\ndatum: {}\n"}
	out["crd.yaml"] = []string{fmt.Sprintf(widgetCRD, "integer"), fmt.Sprintf(widgetCRD, "string")}
	out["widget.yaml"] = []string{"apiVersion: example.com/v1\nkind: Widget\nmetadata: {name: w}\nspec: {size: 1}\n"}
	out[".writignore"] = []string{"bad.yaml\n", "x/\n", "bad.yaml\nc.yml\n"}
	out["y/kustomization.yaml"] = []string{"resources: [f.yaml]\nnamePrefix: k-\n", "resources: [f.yaml, g/h.yaml]\n"}
	out["y/kustomization.yml"] = []string{"resources: [f.yaml]\n"}
	out["policy/p.cue"] = []string{
		"package policy\n\nrules: team: {match: kind: \"ConfigMap\", message: \"no team\", severity: \"warn\", require: metadata: labels: team: string}\n",
		"package policy\n\nrules: team: {match: kind: \"ConfigMap\", message: \"other team\", severity: \"warn\", require: metadata: labels: team: \"b\"}\n" +
			"rules: there: {finding: \"MissingReference\", severity: \"refuse\"}\n"}
	return out
}

func (l *fortune) pick(from []string) string { return from[l.rnd.IntN(len(from))] }

// commit changes some files.
func (l *fortune) commit() {
	pool := l.pool()
	l.tree = maps.Clone(l.tree)
	for range 1 + l.rnd.IntN(3) {
		p := l.pick(slices.Sorted(maps.Keys(pool)))
		if special := len(pool[p]) < 4; special && l.tree[p] == "" && l.rnd.IntN(2) > 0 {
			continue // there are enough plain commits
		} else if special && l.rnd.IntN(2) == 0 {
			delete(l.tree, p)
			continue
		}
		switch l.rnd.IntN(8) {
		case 0:
			delete(l.tree, p)
		case 3: // a folder gets another name
			for q, text := range l.tree {
				if rest, ok := strings.CutPrefix(q, "x/"); ok {
					delete(l.tree, q)
					l.tree["z/"+rest] = text
				} else if rest, ok := strings.CutPrefix(q, "z/"); ok {
					delete(l.tree, q)
					l.tree["x/"+rest] = text
				}
			}
		case 4: // a file moves
			if text, ok := l.tree[p]; ok && strings.HasSuffix(p, "yaml") && !strings.Contains(p, "kustomization") {
				delete(l.tree, p)
				l.tree["moved-"+strings.ReplaceAll(p, "/", "-")] = text
			}
		default:
			l.tree[p] = l.pick(pool[p])
		}
	}
	l.all = append(l.all, l.tree)
}

// meddle is what happens besides commits.
func (l *fortune) meddle() {
	ctx := l.t.Context()
	maps := client.CachedList[*corev1.ConfigMap](l.fake.Cache(), "")
	switch l.rnd.IntN(10) {
	case 9: // somebody takes an inventory away
		if all := inventories(l.fake); len(all) > 0 {
			_ = l.fake.Delete(ctx, kind("Inventory"), schema.KeyOf(all[l.rnd.IntN(len(all))]), client.DeleteOptions{})
		}
	case 0, 1:
		if len(maps) > 0 {
			_ = l.fake.Delete(ctx, kind("ConfigMap"), schema.KeyOf(maps[l.rnd.IntN(len(maps))]), client.DeleteOptions{})
		}
	case 2:
		if len(maps) > 0 {
			_, _ = l.fake.Patch(ctx, kind("ConfigMap"), schema.KeyOf(maps[l.rnd.IntN(len(maps))]), types.MergePatchType, []byte(`{"data":{"v":"hacked"}}`), client.WriteOptions{FieldManager: "someone"})
		}
	case 3:
		l.spec.Variables = map[string]string{"x": strconv.Itoa(l.rnd.IntN(2))}
	case 4: // another repository declares something
		name := "other-" + strconv.Itoa(l.rnd.IntN(2))
		_ = l.fake.Delete(ctx, kind("Inventory"), schema.Key{Name: name}, client.DeleteOptions{})
		if l.rnd.IntN(2) == 0 {
			l.fake.Put(&v1alpha1.Inventory{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: v1alpha1.InventorySpec{Repository: "other", File: "f.yaml",
				Objects: []v1alpha1.InventoryObject{{Version: "v1", Kind: "ConfigMap", Namespace: "default", Name: "c" + strconv.Itoa(l.rnd.IntN(7)), Line: 1}}}})
		}
	case 5: // the server has read a definition, or lost it
		if l.rnd.IntN(3) == 0 {
			l.live.Publish(schema.NewCatalog())
			break
		}
		def := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.Unmarshal([]byte(fmt.Sprintf(widgetCRD, "integer")), def); err != nil {
			l.t.Fatal(err)
		}
		custom.Defaults(def)
		rows, err := custom.Resources(def, nil, nil)
		if err != nil {
			l.t.Fatal(err)
		}
		l.live.Publish(schema.NewCatalog(rows.Served...))
	case 6:
		l.spec.OnError = []v1alpha1.OnError{"", v1alpha1.OnErrorContinue}[l.rnd.IntN(2)]
	}
}

// missing are the declared objects that are not live: what a watch tells of.
func (l *fortune) missing() []render.Ref {
	var out []render.Ref
	for _, inv := range inventories(l.fake) {
		for i := range inv.Spec.Objects {
			if ref, ok := plan.RefOf(&inv.Spec.Objects[i], l.live.Load().ByGVK); ok {
				if _, ok := l.fake.Cache().Get(ref.Resource, ref.Key); !ok {
					out = append(out, ref)
				}
			}
		}
	}
	return out
}

func (l *fortune) world() World {
	return World{Repository: "cluster", Spec: &l.spec, Live: l.fake.Cache(), Inventories: inventories(l.fake), Kinds: l.live.Load().ByGVK, AllowDeletes: true,
		Priorities: map[string]int32{"other": int32(l.rnd.IntN(3) - 1)}}
}

// step plans a commit both ways, and applies it now and then.
func (l *fortune) step(seed uint64) {
	t, c := versionedMem{l.tree, len(l.all) - 1, &l.all}, Commit{SHA: strconv.Itoa(len(l.all))}
	w := l.world()
	alone := newEvaluator()
	alone.catalog = l.live
	want, wev, err := alone.plan(context.Background(), t, c, w, false)
	if err != nil {
		l.t.Fatal(err)
	}
	w.touched = func() ([]render.Ref, bool) { return l.missing(), l.rnd.IntN(10) > 0 }
	got, ev, err := l.known.plan(context.Background(), t, c, w, false)
	if err != nil {
		l.t.Fatal(err)
	}
	if diff := gocmp.Diff(told(l.t, want, wev), told(l.t, got, ev)); diff != "" {
		l.t.Fatalf("seed %d, commit %d (-from nothing +with what is known):\n%s", seed, len(l.all), diff)
	}
	if ev.looked != nil {
		l.some++
		l.hear(w, ev)
	}
	if len(got.Findings) > 0 {
		l.refused++
		return
	}
	if l.rnd.IntN(4) == 0 { // it was only looked at
		return
	}
	if _, err := apply.Do(l.t.Context(), l.fake, got); err == nil {
		l.applied++
	}
	ev.drop()
}

// hear wants the watch to follow what is declared after a plan that has not
// looked at everything.
func (l *fortune) hear(w World, ev *evaluation) {
	declared := map[string]bool{}
	for _, inv := range w.Inventories {
		for i := range inv.Spec.Objects {
			if ref, ok := plan.RefOf(&inv.Spec.Objects[i], ev.judge.kinds.find); ok && inv.Spec.Repository == "cluster" {
				declared[ref.String()] = true
			}
		}
	}
	for _, ref := range ev.undeclared() {
		delete(declared, ref.String())
	}
	for _, h := range headsOf(ev.looked) {
		declared[h.Object()] = true
	}
	want := map[string]bool{}
	for _, h := range ev.heads() {
		want[h.Object()] = true
	}
	if diff := gocmp.Diff(want, declared); diff != "" {
		l.t.Fatalf("the watch follows (-what is declared +what it hears of):\n%s", diff)
	}
}

// told is all that a plan and an evaluation say.
func told(t *testing.T, p *plan.Plan, ev *evaluation) map[string]any {
	t.Helper()
	ops := make([]string, 0, len(p.Ops))
	for i := range p.Ops {
		o := &p.Ops[i]
		ops = append(ops, fmt.Sprint(o.Action, o.Ref.String(), o.File, o.Line, o.Hash, o.Diffs, string(o.Fields)))
	}
	var invs []string
	for _, o := range p.Inventories {
		data, err := json.Marshal(o.Object)
		if err != nil {
			t.Fatal(err)
		}
		invs = append(invs, fmt.Sprint(o.Name, o.ResourceVersion, string(data)))
	}
	slices.Sort(invs)
	var heads, all []string
	for _, h := range ev.heads() {
		heads = append(heads, fmt.Sprint(h.Object(), h.File, h.Line, h.Hash, h.Wave, h.DependsOn))
	}
	for u := range ev.units.All() {
		all = append(all, u.Path+" "+u.Hash)
	}
	slices.SortFunc(p.Consequences, func(a, b plan.Consequence) int { return cmp.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	return map[string]any{"ops": ops, "inventories": invs, "heads": heads, "units": all, "counts": []int{p.Declared, p.Unchanged, p.Shadowed}, "consequences": p.Consequences,
		"elsewhere": slices.Sorted(maps.Keys(p.Elsewhere)), "findings": p.Findings, "warnings": p.Warnings, "left": ev.left, "leftFindings": ev.leftFindings}
}

// TestIncrementalIsFromNothing: whatever commits come and whatever happens in
// between, a plan that is made with what is known of the commits before is the
// plan that is made from nothing.
func TestIncrementalIsFromNothing(t *testing.T) {
	var refused, some, applied int
	for seed := range uint64(envInt("WRIT_LIVES", 40)) {
		l := &fortune{t: t, rnd: rand.New(rand.NewPCG(seed, 7)), fake: client.NewFake(), live: &schema.Live{}, known: newEvaluator(), tree: memTree{}}
		l.fake.Catalog = l.live
		l.known.catalog = l.live
		for range 40 {
			if l.rnd.IntN(6) > 0 {
				l.commit()
			} else if len(l.all) > 0 { // back to another one
				l.tree = l.all[l.rnd.IntN(len(l.all))]
				l.all = append(l.all, l.tree)
			}
			if l.rnd.IntN(2) == 0 {
				l.meddle()
			}
			if len(l.all) > 0 {
				l.step(seed)
			}
		}
		refused, some, applied = refused+l.refused, some+l.some, applied+l.applied
	}
	t.Logf("%d refused, %d applied, %d plans that did not look at all", refused, applied, some)
	if some < applied/2 || applied < 10 || refused < 10 {
		t.Error("the test looks at too little")
	}
}
