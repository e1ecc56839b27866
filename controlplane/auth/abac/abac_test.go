package abac

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

const file = `# who may do what
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"root","namespace":"*","resource":"*","apiGroup":"*","nonResourcePath":"*"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"readers","namespace":"shop","resource":"pods","readonly":true}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"jane","group":"ops","namespace":"shop","resource":"deployments","apiGroup":"apps"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"*","nonResourcePath":"/version*","readonly":true}}

{"user":"old","resource":"events","readonly":true}
{"user":"older"}
`

func policies(t *testing.T, text string) Policies {
	t.Helper()
	path := filepath.Join(t.TempDir(), "policy.jsonl")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var log strings.Builder
	p, err := Open(path, slog.New(slog.NewTextHandler(&log, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(log.String(), "level=WARN") {
		t.Error("no warning")
	}
	return p
}

func TestAuthorize(t *testing.T) {
	p := policies(t, file)
	for _, tt := range []struct {
		user, groups, request string // verb group/resource ns, or verb /path
		want                  bool
	}{
		{"root", "", "delete apps/deployments x", true}, {"root", "", "get /anything", true},
		{"joe", "readers", "list /pods shop", true}, {"joe", "readers", "delete /pods shop", false}, {"joe", "readers", "get /pods other", false}, {"joe", "", "get /pods shop", false},
		{"jane", "ops", "update apps/deployments shop", true}, {"jane", "", "update apps/deployments shop", false}, {"joe", "ops", "update apps/deployments shop", false}, {"jane", "ops", "update extensions/deployments shop", false},
		{"joe", "system:authenticated", "get /version", true}, {"joe", "system:authenticated", "get /version/x", true}, {"joe", "system:authenticated", "post /version", false},
		{"system:anonymous", "system:unauthenticated", "get /version", false},
		{"old", "", "list any/events shop", true}, {"old", "", "create any/events shop", false}, {"old", "", "get /version", false},
		{"older", "", "create a/b c", true}, {"older", "", "get /x", true},
		{"nobody", "system:authenticated", "get /pods shop", false},
	} {
		f := strings.Fields(tt.request)
		a := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: tt.user, Groups: strings.Fields(tt.groups)}, Verb: f[0], Path: f[1]}
		if len(f) == 3 {
			a.ResourceRequest, a.Namespace, a.Path = true, f[2], ""
			a.APIGroup, a.Resource, _ = strings.Cut(f[1], "/")
		}
		d, reason, err := p.Authorize(t.Context(), a)
		if err != nil || (d == authorizer.DecisionAllow) != tt.want || !tt.want && reason != "No policy matched." {
			t.Errorf("%s (%s) %s: %v %q %v, want %v", tt.user, tt.groups, tt.request, d, reason, err, tt.want)
		}
	}
	if d, _, _ := p.Authorize(t.Context(), authorizer.AttributesRecord{Verb: "get", Path: "/version"}); d != authorizer.DecisionNoOpinion {
		t.Error("allowed without a user")
	}
	r, n, incomplete, err := p.RulesFor(t.Context(), &user.DefaultInfo{Name: "joe", Groups: []string{"readers"}}, "shop")
	if err != nil || incomplete || len(r) != 1 || len(n) != 0 || r[0].GetVerbs()[0] != "get" || r[0].GetResources()[0] != "pods" {
		t.Errorf("rules %v %v %v %v", r, n, incomplete, err)
	}
}

func TestRefused(t *testing.T) {
	for text, want := range map[string]string{
		"{}\n{":       "line 2: {: decode policy",
		`["a"]`:       "line 1",
		`{"user": 1}`: "line 1",
		`{"apiVersion":"abac.authorization.kubernetes.io/v2","kind":"Policy","spec":{}}`: `no kind "Policy" is registered`,
		strings.Repeat("x", 70000): "token too long",
	} {
		if _, _, err := Read(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%.40q: %v, want %q", text, err, want)
		}
	}
}

func FuzzRead(f *testing.F) {
	for line := range strings.Lines(file) {
		f.Add(line)
	}
	f.Fuzz(func(t *testing.T, text string) {
		p, _, err := Read(strings.NewReader(text))
		if err != nil {
			return
		}
		// Nobody who is not known is let in by "*".
		anonymous := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}}, Verb: "get", Path: "/x"}
		if d, _, _ := p.Authorize(t.Context(), anonymous); d == authorizer.DecisionAllow && !strings.Contains(text, "anonymous") && !strings.Contains(text, "unauthenticated") && !strings.Contains(text, `\u`) {
			t.Errorf("%q lets strangers in", text)
		}
	})
}
