package plan

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/render"
)

func encode(t testing.TB, v any) string {
	t.Helper()
	data, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func decodeJSON(t testing.TB, s string) (v any) {
	t.Helper()
	if err := json.Unmarshal([]byte(s), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func waves(annotations ...string) string {
	var b strings.Builder
	for i, a := range annotations {
		b.WriteString("---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c" + string(rune('0'+i)) + "\n  annotations: {" + a + "}\n")
	}
	return b.String()
}

// TestGate plays a commit step by step: what waits, and for what.
func TestGate(t *testing.T) {
	w := world{t, client.NewFake()}
	u := []Unit{unit(t, "a.yaml", waves(`writ.dev/wave: "-1"`, "", `argocd.argoproj.io/sync-wave: "2"`, "writ.dev/depends-on: ConfigMap/default/c1"))}
	var heads []render.Head
	for _, d := range u[0].Objects {
		heads = append(heads, d.Head)
	}
	sick := map[string]bool{}
	step := func() string {
		p := Compute(w.input(u))
		if len(p.Findings) > 0 {
			t.Fatal(p.Findings)
		}
		held := Gate(p, heads, func(r render.Ref) bool {
			_, ok := w.fake.Cache().Get(r.Resource, r.Key)
			return ok && !sick[r.Key.Name]
		}, nil)
		var out []string
		for _, o := range p.Ops {
			out = append(out, o.Key.Name)
		}
		for _, h := range held {
			out = append(out, h.Key.Name+" waits for "+h.For)
		}
		w.store(p)
		return strings.Join(out, "; ")
	}
	sick["c0"] = true
	first := "wave -1 (ConfigMap/default/c0)"
	for i, want := range []string{
		"c0; c1 waits for " + first + "; c2 waits for " + first + "; c3 waits for " + first,
		"c1 waits for " + first + "; c2 waits for " + first + "; c3 waits for " + first,
	} {
		if diff := cmp.Diff(want, step()); diff != "" {
			t.Errorf("step %d: %s", i, diff)
		}
	}
	sick["c0"], sick["c1"] = false, true
	if diff := cmp.Diff("c1; c2 waits for wave 0 (ConfigMap/default/c1); c3 waits for ConfigMap/default/c1", step()); diff != "" {
		t.Error(diff)
	}
	sick["c1"] = false
	if diff := cmp.Diff("c3; c2 waits for wave 0 (ConfigMap/default/c3)", step()); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff("c2", step()); diff != "" {
		t.Error(diff)
	}
	if got := step(); got != "" {
		t.Errorf("after the last: %s", got)
	}
}

func TestDependencies(t *testing.T) {
	for _, tt := range []struct{ yaml, want string }{
		{waves("writ.dev/depends-on: ConfigMap/default/c9"), "ConfigMap/default/c0 depends on ConfigMap/default/c9, which no commit declares"},
		{waves("writ.dev/depends-on: ConfigMap/default/c1", "writ.dev/depends-on: ConfigMap/default/c0"),
			"objects wait for each other: ConfigMap/default/c0 -> ConfigMap/default/c1 -> ConfigMap/default/c0"},
		{waves("", `writ.dev/depends-on: "ConfigMap/default/c0, ConfigMap/default/c0"`), ""},
	} {
		w := world{t, client.NewFake()}
		p := Compute(w.input([]Unit{unit(t, "a.yaml", tt.yaml)}))
		got := ""
		if len(p.Findings) > 0 {
			got = p.Findings[0].Message
		}
		if got != tt.want {
			t.Errorf("%q, want %q", got, tt.want)
		}
	}
}

// TestBroken: a unit that is left out keeps what it declared, wherever its
// objects have gone.
func TestBroken(t *testing.T) {
	w := world{t, client.NewFake()}
	w.apply([]Unit{unit(t, "a.yaml", waves("", "")), unit(t, "b.yaml", strings.ReplaceAll(waves(""), "c0", "b0"))})
	p := Compute(w.input([]Unit{{Path: "a.yaml", Hash: "x", Broken: true}, unit(t, "c.yaml", strings.ReplaceAll(waves("x: y"), "c0", "n0"))}))
	if p.Count(Delete) != 0 || p.Count(Create) != 1 || len(p.Inventories) != 1 || p.Inventories[0].Object == nil {
		t.Errorf("plan: %s, inventories %v", describe(p), p.Inventories)
	}
}

func TestMarkdown(t *testing.T) {
	w := world{t, client.NewFake()}
	w.apply([]Unit{unit(t, "a.yaml", configMap("", "k: v"))})
	p := Compute(w.input([]Unit{unit(t, "a.yaml", configMap("", "k: \"```|@all<b>\"")), unit(t, "b.yaml", waves(""))}))
	var b strings.Builder
	if err := p.Markdown(&b, "Plan of 1234567"); err != nil {
		t.Fatal(err)
	}
	want := `### Plan of 1234567

**1 to create, 1 to change, 0 to delete, 0 unchanged.**

<details><summary><b>change</b> <code>ConfigMap/default/a</code> (a.yaml:1)</summary>

` + "```diff" + `
- data.k: "v"
+ data.k: "'''|@all\u003cb\u003e"
` + "```" + `

</details>

<details><summary><b>create</b> <code>ConfigMap/default/c0</code> (b.yaml:2)</summary>


</details>
`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Error(diff)
	}
}
