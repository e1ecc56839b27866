package render

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

// TestSameBytes: the same tree renders to the same bytes and hashes, whatever
// the order of maps and the number of processors.
func TestSameBytes(t *testing.T) {
	for _, name := range []string{"kustomize.txtar", "kustomizebad.txtar", "helm.txtar", "helmbad.txtar", "variables.txtar", "cue.txtar"} {
		ar, err := txtar.ParseFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		tree, options := treeOf(t, name), optionsOf(string(ar.Comment))
		once := func() string {
			units, _, err := Scan(tree, options...)
			if err != nil {
				t.Fatal(err)
			}
			var hashes strings.Builder
			for _, u := range units {
				fmt.Fprintf(&hashes, "%s %s\n", u.Path, u.Hash)
			}
			return hashes.String() + describe(t, tree, options...)
		}
		want := once()
		for _, procs := range []int{1, 2, 8} {
			before := runtime.GOMAXPROCS(procs)
			got := once()
			runtime.GOMAXPROCS(before)
			if got != want {
				t.Errorf("%s with GOMAXPROCS=%d:\n%s\nbefore:\n%s", name, procs, got, want)
			}
		}
		if len(options) == 0 {
			options = []Options{{}}
		}
		for range 2 { // each in a child of its own
			options[0].Sandbox = guests(t)
			if got := once(); got != want {
				t.Errorf("%s in a child:\n%s\nbefore:\n%s", name, got, want)
			}
		}
	}
}

// TestHashKnowsWhatIsRead: whatever file of a release changes, the hash of its
// unit changes when and only when what it renders may.
func TestHashKnowsWhatIsRead(t *testing.T) {
	tree := treeOf(t, "helm.txtar")
	hash := func(tree memTree) string {
		units, _, err := Scan(tree)
		if err != nil || len(units) != 1 {
			t.Fatal(err, units)
		}
		return units[0].Hash
	}
	before := hash(tree)
	for p := range tree {
		changed := memTree{}
		for q, content := range tree {
			changed[q] = content
		}
		changed[p] += "\n"
		unread := strings.HasPrefix(p, "charts/unused/") || strings.HasSuffix(p, ".bak")
		if (hash(changed) == before) != unread {
			t.Errorf("%s changed, and the hash: %v", p, hash(changed) != before)
		}
	}
}

// fuzzTree puts any text in the place of one file of a tree.
func fuzzTree(f *testing.F, name, file string) {
	f.Add(treeOf(f, name)[file])
	f.Add("")
	f.Add("resources: [../..]\nconfigMapGenerator: [{name: x, files: [.]}]")
	f.Add("{{ range $i := until 9 }}{{ include \"x\" $ }}{{ end }}")
	f.Fuzz(func(t *testing.T, text string) {
		tree := treeOf(t, name)
		tree[file] = text
		begin := time.Now()
		units, findings, err := Scan(tree)
		if err != nil {
			t.Fatal(err)
		}
		for i := range units {
			out, err := Render(context.Background(), &units[i])
			if err != nil {
				t.Fatal(err)
			}
			again, err := Render(context.Background(), &units[i])
			if err != nil || fmt.Sprint(out.Findings) != fmt.Sprint(again.Findings) || len(out.Manifests) != len(again.Manifests) {
				t.Fatalf("the second time it was otherwise: %v\n%v", out.Findings, again.Findings)
			}
			for j := range out.Manifests {
				m := &out.Manifests[j]
				if string(m.JSON) != string(again.Manifests[j].JSON) {
					t.Errorf("the second time it was %s, and not %s", again.Manifests[j].JSON, m.JSON)
				}
				if m.File == "" || m.Line < 1 {
					t.Errorf("no place: %+v", m.Head)
				}
			}
			findings = append(findings, out.Findings...)
		}
		for _, finding := range findings {
			if finding.Message == "" || finding.Rule == "" || finding.File == "" {
				t.Errorf("a finding says nothing: %+v", finding)
			}
		}
		if took := time.Since(begin); took > slower*10*time.Second {
			t.Fatalf("took %s", took)
		}
	})
}

func FuzzKustomization(f *testing.F) {
	fuzzTree(f, "kustomize.txtar", "apps/prod/kustomization.yaml")
}
func FuzzKustomizePatch(f *testing.F) { fuzzTree(f, "kustomize.txtar", "apps/prod/limits.yaml") }
func FuzzTemplate(f *testing.F)       { fuzzTree(f, "helm.txtar", "charts/web/templates/deployment.yaml") }
func FuzzRelease(f *testing.F)        { fuzzTree(f, "helm.txtar", "apps/shop.yaml") }
func FuzzChart(f *testing.F)          { fuzzTree(f, "helm.txtar", "charts/web/Chart.yaml") }

func FuzzVariables(f *testing.F) {
	f.Add("a ${b} $${c} ${d:=e} ${", "b", "v")
	f.Fuzz(func(t *testing.T, text, name, value string) {
		u := &Unit{opts: &Options{Variables: map[string]string{name: value}}}
		out := &Rendered{unit: u}
		n := &node{kind: mapNode, fields: []field{{key: "x", val: &node{kind: stringNode, text: text, style: plainStyle}}}}
		substitute(out, n)
		if !strings.Contains(text, "${") && n.str("x") != text && n.get("x").kind == stringNode {
			t.Errorf("%q became %q", text, n.str("x"))
		}
	})
}

// TestMemory: a file that has not changed is not searched for releases again.
func TestMemory(t *testing.T) {
	tree := treeOf(t, "helm.txtar")
	for i := range 50 {
		tree[fmt.Sprintf("plain/%d.yaml", i)] = fmt.Sprintf("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c%d}\n", rand.Int())
	}
	memory := &Memory{}
	if _, _, err := Scan(counting{tree, nil}, Options{Memory: memory}); err != nil {
		t.Fatal(err)
	}
	reads := 0
	units, _, err := Scan(counting{tree, &reads}, Options{Memory: memory})
	if err != nil || len(units) != 51 || reads > 1 { // the .helmignore
		t.Errorf("%d units, %d reads, %v", len(units), reads, err)
	}
}
