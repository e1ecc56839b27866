package house

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/writ-os/writ/"

type rule struct {
	of  string
	may []string
}

// rules say who may import whom, longest prefix first. A package may import
// what its own row names, packages below its own prefix, and nothing else of
// ours. Rows are folders of docs/ARCHITECTURE.md.
var rules = []rule{
	{"schema", nil},
	{"controlplane/client", []string{"schema"}},
	{"controlplane/controller", []string{"schema", "controlplane/client"}}, // the runner
	{"controlplane/controllers", []string{"schema", "controlplane/client", "controlplane/controller"}},
	{"controlplane/scheduler", []string{"schema", "controlplane/client", "controlplane/controller"}},
	{"controlplane/store", []string{"schema"}},
	{"controlplane/registry", []string{"schema", "controlplane/client", "controlplane/store"}},
	// Admission decides by who writes, so it knows identities; auth knows nothing of it.
	{"controlplane/admission", []string{"schema", "controlplane/client", "controlplane/controller", "controlplane/registry", "controlplane/auth"}},
	{"controlplane/durable", nil},
	{"controlplane/reload", nil}, // files that change under a running server
	{"controlplane/encryption", []string{"schema", "controlplane/reload"}},
	{"controlplane/crd", []string{"schema", "controlplane/client", "controlplane/registry"}},
	{"controlplane/bootstrap", []string{"schema"}},
	{"controlplane/auth", []string{"schema", "controlplane/client", "controlplane/reload"}},
	{"controlplane/endpoint", []string{"schema", "controlplane/client"}},
	{"controlplane/members", []string{"schema", "controlplane/client", "controlplane/store"}},
	{"controlplane/apiserver", []string{"schema", "controlplane/client", "controlplane/store", "controlplane/registry", "controlplane/auth", "controlplane/bootstrap", "controlplane/endpoint"}},
	// How a node writes its own slots.
	{"nodeagent/update", []string{"schema", "controlplane/client", "controlplane/controller/pace", "image/slot", "image/bundle"}},
	{"nodeagent", []string{"schema", "controlplane/client", "controlplane/controller"}},
	{"reconciler", []string{"schema", "controlplane/client", "controlplane/controller"}},
	{"image", []string{"schema"}},
	{"examples", []string{"*"}},
	{"ci", []string{"*"}},
	{"cmd", []string{"*", "examples"}}, // the seeds of a first cluster
}

// leaves import nothing of ours, and everybody may import them.
var leaves = []string{"controlplane/durable"}

type pkg struct {
	ImportPath string
	Name       string
	Doc        string
	Imports    []string
}

// list asks the go command for every package of the module.
func list(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Name,Doc,Imports", module+"...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("decode go list: %v", err)
		}
		all = append(all, p)
	}
}

func below(path, folder string) bool { return path == folder || strings.HasPrefix(path, folder+"/") }

// refuse says why from may not import to; "" when it may.
func refuse(from, to string) string {
	if slices.Contains(leaves, to) {
		return ""
	}
	for _, r := range rules {
		if !below(from, r.of) {
			continue
		}
		// Controllers meet in the store, never in each other.
		if r.of == "controlplane/controllers" && from != r.of && below(to, r.of) && !below(to, from) {
			return "controllers never import each other"
		}
		if below(to, r.of) {
			return ""
		}
		for _, m := range r.may {
			anything := m == "*" && (r.of == "ci" || !below(to, "ci") && !below(to, "examples"))
			if anything || below(to, m) {
				return ""
			}
		}
		return fmt.Sprintf("%s may import %v", r.of, r.may)
	}
	return "the package has no row in the import rules"
}

func TestImports(t *testing.T) {
	for _, p := range list(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		for _, imp := range p.Imports {
			to, ours := strings.CutPrefix(imp, module)
			if !ours {
				if strings.HasPrefix(imp, "k8s.io/kubernetes/") {
					t.Errorf("%s imports %s: k8s.io/kubernetes is no library", from, imp)
				}
				continue
			}
			if why := refuse(from, to); why != "" {
				t.Errorf("%s imports %s: %s", from, to, why)
			}
		}
	}
}

// TestRulesAreUsed: a permission that nobody uses is a door left open.
func TestRulesAreUsed(t *testing.T) {
	used := map[string]bool{}
	for _, p := range list(t) {
		from := strings.TrimPrefix(p.ImportPath, module)
		i := slices.IndexFunc(rules, func(r rule) bool { return below(from, r.of) })
		if i < 0 {
			continue
		}
		for _, imp := range p.Imports {
			to := strings.TrimPrefix(imp, module)
			for _, m := range rules[i].may {
				if below(to, m) {
					used[rules[i].of+" "+m] = true
				}
			}
		}
	}
	for _, r := range rules {
		for _, m := range r.may {
			if m != "*" && !used[r.of+" "+m] {
				t.Errorf("%s may import %s, and does not: take the permission away", r.of, m)
			}
		}
	}
}

func TestRulesRefuse(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"nodeagent/pod", "controlplane/client", true},
		{"nodeagent/pod", "controlplane/store", false},
		{"schema/validate", "schema", true},
		{"schema", "controlplane/client", false},
		{"controlplane/controllers/job", "controlplane/controllers/deployment", false},
		{"controlplane/controllers", "controlplane/controllers/deployment", true},
		{"reconciler/plan", "controlplane/apiserver", false},
		{"cmd/writ", "controlplane/apiserver", true},
		{"cmd/writ", "ci/house", false},
		{"cmd/writ/cluster", "examples", true},
		{"controlplane/apiserver", "examples", false},
		{"controlplane/auth", "controlplane/admission", false},
		{"controlplane/auth", "controlplane/store", false},
		{"image/config", "controlplane/durable", true},
		{"controlplane/durable", "schema", false},
		{"nowhere", "schema", false},
	} {
		if got := refuse(c.from, c.to) == ""; got != c.ok {
			t.Errorf("refuse(%s, %s) = %q", c.from, c.to, refuse(c.from, c.to))
		}
	}
}

func TestPackageComments(t *testing.T) {
	for _, p := range list(t) {
		want := "Package " + p.Name + " "
		if p.Name == "main" {
			want = "Command "
		}
		if !strings.HasPrefix(p.Doc, want) {
			t.Errorf("%s: the package comment must begin with %q and say what the package watches, owns and promises", p.ImportPath, want)
		}
	}
}
