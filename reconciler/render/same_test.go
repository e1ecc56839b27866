package render

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"cuelang.org/go/cue/ast"
	"cuelang.org/go/cue/token"
	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// unitOf is all that the rest of the server sees of a rendered unit.
type unitOf struct {
	Path, Hash string
	Heads      []Head
	JSON       []string
	Exprs      []string // with the place of every node
	Findings   []v1alpha1.Finding
	Redacted   []v1alpha1.Finding
}

// everything renders a tree and keeps all that can be seen of it.
func everything(t *testing.T, tree Tree, o Options) ([]unitOf, []v1alpha1.Finding) {
	t.Helper()
	units, findings, err := Scan(tree, o)
	if err != nil {
		t.Fatal(err)
	}
	var all []unitOf
	for i := range units {
		r, err := Render(context.Background(), &units[i])
		if err != nil {
			t.Fatal(err)
		}
		u := unitOf{Path: units[i].Path, Hash: units[i].Hash, Findings: r.Findings,
			Redacted: r.Redact([]v1alpha1.Finding{{Rule: "Test", Message: "the password is hunter2"}})}
		for j := range r.Manifests {
			m := &r.Manifests[j]
			u.Heads, u.JSON, u.Exprs = append(u.Heads, m.Head), append(u.JSON, string(m.JSON)), append(u.Exprs, syntaxOf(m.Expr()))
		}
		all = append(all, u)
	}
	return all, findings
}

// syntaxOf writes a tree of syntax with the place of each of its nodes.
func syntaxOf(e ast.Expr) string {
	var b strings.Builder
	ast.Walk(e, func(n ast.Node) bool {
		value := ""
		if lit, ok := n.(*ast.BasicLit); ok {
			value = lit.Value
		}
		p := n.Pos()
		rel := token.NoRelPos
		if p.HasAbsPos() {
			rel = p.RelPos()
		}
		fmt.Fprintf(&b, "%T %s %+v %s\n", n, value, p.Position(), rel)
		return true
	}, nil)
	return b.String()
}

// TestSandboxIsTheSame: a child makes of every tree of testdata what this
// process makes: manifests, the places of all their fields, marks, findings.
func TestSandboxIsTheSame(t *testing.T) {
	s := guests(t)
	files, _ := filepath.Glob("testdata/*.txtar")
	if len(files) == 0 {
		t.Fatal("no testdata")
	}
	for _, name := range files {
		ar, err := txtar.ParseFile(name)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{}
		if given := optionsOf(string(ar.Comment)); given != nil {
			o = given[0]
		}
		same(t, filepath.Base(name), treeOf(t, filepath.Base(name)), o, s)
		o.Variables = map[string]string{} // none, and that is said
		same(t, filepath.Base(name)+" without variables", treeOf(t, filepath.Base(name)), o, s)
	}
	tags := memTree{"p/x.cue": "package p\nv: string @tag(v)\ncm: {apiVersion: \"v1\", kind: \"ConfigMap\", metadata: name: v}\n"}
	same(t, "tags", tags, Options{Variables: map[string]string{"v": "given"}}, s)
}

// same renders a tree both ways, and returns what comes out.
func same(t *testing.T, name string, tree Tree, o Options, s *sandbox.Sandbox) []unitOf {
	t.Helper()
	want, wantFindings := everything(t, tree, o)
	o.Sandbox = s
	for range 2 { // a child that has rendered it remembers nothing
		got, gotFindings := everything(t, tree, o)
		byPointer := cmp.Comparer(func(a, b *schema.Resource) bool { return a == b })
		if diff := cmp.Diff(want, got, byPointer); diff != "" {
			t.Errorf("%s is otherwise in a child (- here, + there):\n%s", name, diff)
		}
		if diff := cmp.Diff(wantFindings, gotFindings); diff != "" {
			t.Errorf("%s has other findings in a child:\n%s", name, diff)
		}
	}
	return want
}

// rot is a cipher for tests.
func rot(data []byte) []byte {
	return bytes.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' {
			return 'a' + (r-'a'+13)%26
		}
		return r
	}, data)
}

// openTest opens files that begin with "#sealed".
func openTest(masked bool) func(string, []byte) Opened {
	return func(_ string, data []byte) Opened {
		rest, ok := bytes.CutPrefix(data, []byte("#sealed"))
		if !ok {
			return Opened{Data: data}
		}
		return Opened{Data: append([]byte("#"), rot(rest)...), Sealed: true, Masked: masked, Redact: func(findings []v1alpha1.Finding) []v1alpha1.Finding {
			for i := range findings {
				findings[i].Message = strings.ReplaceAll(findings[i].Message, "hunter2", "***")
			}
			return findings
		}}
	}
}

// TestSandboxOpened: what is encrypted is opened here, and the marks of it are
// the same; kinds that are not built in are known.
func TestSandboxOpened(t *testing.T) {
	s := guests(t)
	seal := func(text string) string { return "#sealed" + string(rot([]byte(text))) }
	custom := *schema.ByGVK(kschema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"})
	custom.Group, custom.Kind = "example.com", "Thing"
	release := "\napiVersion: writ.dev/v1alpha1\nkind: HelmRelease\nmetadata: {name: x}\nspec:\n  chart: ./chart\n  valuesFiles: [./values.txt]\n"
	template := "apiVersion: example.com/v1\nkind: Thing\nmetadata: {name: x}\ndata: {a: {{ .Values.a }}}\n---\nkind: Nothing\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: y}\nstringData: {a: {{ .Values.a }}}\n---\napiVersion: v1\nkind: Notthing\nmetadata: {name: x}\n"
	build := "resources: [a.yaml]\nsecretGenerator: [{name: g, envs: [e.env]}]\n"
	for name, tree := range map[string]memTree{
		"values":         {"p/release.yaml": release, "p/values.txt": seal("\na: hunter2\n")},
		"release":        {"p/release.yaml": seal(release), "p/values.txt": "a: b\n"},
		"both":           {"p/release.yaml": seal(release), "p/values.txt": seal("\na: hunter2\n")},
		"values unread":  {"p/release.yaml": release, "p/values.txt": seal("\na: hunter2\n"), "p/chart/Chart.yaml": "name: ["},
		"chart and file": {"p/release.yaml": strings.ReplaceAll(release, "./values.txt", "./chart/v.yaml"), "p/chart/v.yaml": seal("\na: hunter2\n")},
		"kustomization":  {"p/kustomization.yaml": build, "p/a.yaml": seal("\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: x\n"), "p/e.env": "A=b\n"},
		"generator":      {"p/kustomization.yaml": build, "p/a.yaml": release, "p/values.txt": seal("\na: hunter2\n"), "p/e.env": seal("=\n")},
	} {
		for p, text := range chartOf("p", template) {
			if _, ok := tree[p]; !ok && p != "p/release.yaml" {
				tree[p] = text
			}
		}
		for _, masked := range []bool{false, true} {
			o := Options{Open: openTest(masked), KindsHash: "1", Kinds: func(gvk kschema.GroupVersionKind) *schema.Resource {
				if gvk == custom.GVK() {
					return &custom
				}
				return nil
			}}
			all := same(t, name, tree, o, s)
			sealed := false
			for _, u := range all {
				for _, h := range u.Heads {
					sealed = sealed || h.Sealed && h.Masked == masked
				}
				sealed = sealed || len(u.Heads) == 0
			}
			if !sealed {
				t.Errorf("%s: nothing is sealed: %v", name, all)
			}
		}
	}
}

// FuzzNodes: whatever a child sends is read within bounds.
func FuzzNodes(f *testing.F) {
	var w nodeWriter
	w.node(&node{kind: mapNode, fields: []field{{key: "a", val: &node{kind: listNode, items: []*node{{kind: stringNode, text: "b"}}}}}})
	f.Add(w.Data)
	f.Add([]byte{5, 0, 255, 255, 255, 255, 15})
	f.Add(bytes.Repeat([]byte{4, 0, 1}, 1000))
	f.Fuzz(func(t *testing.T, data []byte) {
		r := newNodeReader(nodes{Files: []wireFile{{"a", 10, packLines([]int{0, 5})}}, Data: data}, maxValues)
		n := r.node(0)
		if n == nil || r.err != nil {
			return
		}
		var again nodeWriter
		again.node(n)
		back := newNodeReader(again.nodes, maxValues)
		if m := back.node(0); back.err != nil || string(m.appendJSON(nil)) != string(n.appendJSON(nil)) {
			t.Errorf("%x came back as %x", data, again.Data)
		}
	})
}
