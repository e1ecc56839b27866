package plan

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// waved makes random units of which some objects have a wave.
func waved(t testing.TB, rnd *rand.Rand) []Unit {
	var units []Unit
	used := map[string]bool{}
	for file := range 3 {
		var b strings.Builder
		for range 1 + rnd.IntN(4) {
			kind, name := []string{"ConfigMap", "Secret", "Service", "Deployment"}[rnd.IntN(4)], string(rune('a'+rnd.IntN(4)))
			if used[kind+name] {
				continue
			}
			used[kind+name] = true
			text := manifest(rnd, kind, name)
			if !strings.Contains(text, "annotations:") {
				text = strings.Replace(text, "  name: "+name+"\n", fmt.Sprintf("  name: %s\n  annotations: {%s: \"%d\"}\n", name, v1alpha1.WaveAnnotation, rnd.IntN(5)-2), 1)
			}
			b.WriteString("---\n" + text)
		}
		if b.Len() > 0 {
			units = append(units, unit(t, fmt.Sprintf("f%d.yaml", file), b.String()))
		}
	}
	return units
}

func headsOf(units []Unit) (heads []render.Head) {
	for _, u := range units {
		for _, o := range u.Objects {
			heads = append(heads, o.Head)
		}
	}
	return heads
}

// TestWavesComeToRest: wave after wave every object comes, in the order of the
// waves, and then nothing is left to do.
func TestWavesComeToRest(t *testing.T) {
	all := func(*schema.Resource) bool { return true }
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		w := world{t, client.NewFake()}
		for range 2 {
			units := waved(t, rnd)
			heads := headsOf(units)
			healthy := func(ref render.Ref) bool { _, ok := w.fake.Cache().Get(ref.Resource, ref.Key); return ok }
			p := Compute(w.input(units))
			if hasImmutable(p) {
				continue
			}
			total := len(p.Ops)
			held := Gate(p, heads, healthy, all)
			if len(p.Ops)+len(held) != total {
				t.Fatalf("seed %d: %d ops and %d held of %d", seed, len(p.Ops), len(held), total)
			}
			w.store(p)
			for rounds := 0; len(held) > 0; rounds++ {
				step := Drift(w.input(units))
				held = Gate(step, heads, healthy, all)
				if len(step.Ops) == 0 || rounds > 6 {
					t.Fatalf("seed %d: %d ops wait for ever, the first for %s", seed, len(held), held[0].For)
				}
				w.store(step)
			}
			if p := Compute(w.input(units)); !p.Empty() {
				t.Fatalf("seed %d: plan(b, b) is not empty: %s", seed, describe(p))
			}
		}
	}
}

// TestIgnoredComesToRest: with rules that ignore, applying a commit leaves
// nothing to do, nor does what somebody writes into an ignored field.
func TestIgnoredComesToRest(t *testing.T) {
	rules := [][]v1alpha1.IgnoreRule{
		{{Kind: "Deployment", Fields: []string{"/spec/replicas"}}},
		{{Kind: "ConfigMap", Fields: []string{"/data/a"}}, {Kind: "Service", Fields: []string{"/spec/ports/*"}}},
		{{Name: "a"}},
		{{Kind: "Deployment", Fields: []string{"/spec/template/spec/containers/name=c/image", "/metadata/labels/a"}}},
	}
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		w := world{t, client.NewFake()}
		ignore := rules[rnd.IntN(len(rules))]
		for range 3 {
			units := waved(t, rnd)
			in := w.input(units)
			in.Ignore = ignore
			p := Compute(in)
			if hasImmutable(p) {
				continue
			}
			w.store(p)
			w.meddle(rnd, ignore[0])
			in = w.input(units)
			in.Ignore = ignore
			if p := Compute(in); !p.Empty() {
				t.Fatalf("seed %d: plan(b, b) is not empty under %+v: %s", seed, ignore, describe(p))
			}
		}
	}
}

// meddle has somebody change what the rule names.
func (w world) meddle(rnd *rand.Rand, rule v1alpha1.IgnoreRule) {
	w.t.Helper()
	patch := map[string]string{"Deployment": `{"spec":{"replicas":7}}`, "ConfigMap": `{"data":{"a":"meddled"}}`}[rule.Kind]
	if patch == "" || len(rule.Fields) != 1 && rule.Kind == "Deployment" || strings.Contains(rule.Fields[0], "image") {
		return
	}
	for _, r := range schema.Resources {
		if r.Kind != rule.Kind {
			continue
		}
		for _, o := range w.fake.Cache().List(r, "") {
			if rnd.IntN(2) == 0 {
				continue
			}
			if _, err := w.fake.Patch(w.t.Context(), r, schema.KeyOf(o), types.MergePatchType, []byte(patch), client.WriteOptions{FieldManager: "someone"}); err != nil {
				w.t.Fatal(err)
			}
		}
	}
}

// TestPrioritiesComeToRest: two repositories that declare the same objects come
// to rest, and each object is as the one of the higher priority says.
func TestPrioritiesComeToRest(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		w := world{t, client.NewFake()}
		priorities := map[string]int32{"cluster": int32(rnd.IntN(2)*2 - 1), "team": 0}
		for range 2 {
			units := map[string][]Unit{"cluster": waved(t, rnd), "team": waved(t, rnd)}
			compute := func(repository string) *Plan {
				in := w.input(units[repository])
				in.Repository, in.Priorities = repository, priorities
				return Compute(in)
			}
			for _, name := range []string{"cluster", "team", "cluster", "team"} {
				p := compute(name)
				if hasImmutable(p) {
					t.Fatalf("seed %d: %s is refused: %v", seed, name, p.Findings)
				}
				w.store(p)
			}
			for name := range units {
				if p := compute(name); !p.Empty() {
					t.Fatalf("seed %d: %s does not come to rest: %s", seed, name, describe(p))
				}
			}
			higher := "team"
			if priorities["cluster"] > 0 {
				higher = "cluster"
			}
			if p := compute(higher); p.Shadowed > 0 {
				t.Fatalf("seed %d: %d objects of the higher priority are shadowed", seed, p.Shadowed)
			}
		}
	}
}

// TestPlansTellNoSecret: whatever happens to Secrets, and to what is encrypted
// in the repository, no value of theirs is in what a plan says.
func TestPlansTellNoSecret(t *testing.T) {
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 6))
		var words []string
		word := func() string {
			words = append(words, fmt.Sprintf("word%016x", rnd.Uint64()))
			return words[len(words)-1]
		}
		tree := func() []Unit {
			var b strings.Builder
			for _, name := range []string{"a", "b", "c"}[:1+rnd.IntN(3)] {
				fmt.Fprintf(&b, "---\napiVersion: v1\nkind: Secret\nmetadata: {name: %s}\ntype: example.com/%d\n", name, rnd.IntN(2))
				if rnd.IntN(2) == 0 {
					fmt.Fprintf(&b, "data: {x: %s, y%d: %s}\n", base64.StdEncoding.EncodeToString([]byte(word())), rnd.IntN(2), base64.StdEncoding.EncodeToString([]byte(word())))
				}
				if rnd.IntN(2) == 0 {
					fmt.Fprintf(&b, "stringData: {s: %s}\n", word())
				}
			}
			sealed := unit(t, "sealed.yaml", fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: sealed, labels: {l: %s}}\ndata: {x: %s}\n", word(), word()))
			for i := range sealed.Objects {
				sealed.Objects[i].Sealed = true
			}
			return []Unit{unit(t, "s.yaml", b.String()), sealed}
		}
		w := world{t, client.NewFake()}
		for range 3 {
			p := Compute(w.input(tree()))
			var said strings.Builder
			data, err := json.Marshal(p)
			if err == nil {
				err = p.Markdown(&said, "Plan")
			}
			if err == nil {
				err = p.Write(&said, Style{Color: true})
			}
			if err != nil {
				t.Fatal(err)
			}
			said.Write(data)
			fmt.Fprint(&said, p.Findings, p.Consequences)
			for _, word := range words {
				if strings.Contains(said.String(), word) || strings.Contains(said.String(), base64.StdEncoding.EncodeToString([]byte(word))) {
					t.Fatalf("seed %d: %q is in %s", seed, word, said.String())
				}
			}
			if !hasImmutable(p) {
				w.store(p)
			}
		}
	}
}
