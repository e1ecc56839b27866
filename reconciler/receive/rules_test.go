package receive

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
)

func TestRightsOf(t *testing.T) {
	ann := &user.DefaultInfo{Name: "ann", Groups: []string{"web", "all"}}
	rules := []Rule{
		{Users: []string{"ann"}, Refs: []string{"refs/heads/ann/*"}},
		{Groups: []string{"web"}, Refs: []string{"refs/heads/main"}, Paths: []string{"apps/web/"}},
		{Groups: []string{"all"}, Refs: []string{"refs/heads/main"}, Paths: []string{"docs", "README.md"}},
		{Users: []string{"root"}, Force: true, Delete: true},
	}
	for _, tt := range []struct {
		ref, path     string
		push, allowed bool
	}{
		{"refs/heads/main", "apps/web/a.yaml", true, true},
		{"refs/heads/main", "apps/web", true, true},
		{"refs/heads/main", "apps/website/a.yaml", true, false},
		{"refs/heads/main", "docs/x", true, true},
		{"refs/heads/main", "README.md", true, true},
		{"refs/heads/main", "README.md.yaml", true, false},
		{"refs/heads/ann/try", "anything", true, true},
		{"refs/heads/bob/try", "anything", false, true},
	} {
		got := rightsOf(rules, ann, tt.ref)
		if got.push != tt.push || got.allows(tt.path) != tt.allowed || got.force || got.delete {
			t.Errorf("%s %s: %+v", tt.ref, tt.path, got)
		}
	}
	if got := rightsOf([]Rule{}, ann, "refs/heads/main"); got.push {
		t.Error("no rule allows, and yet")
	}
	if got := rightsOf(rules, &user.DefaultInfo{Name: "root"}, "refs/heads/main"); !got.force || !got.delete || got.paths != nil {
		t.Errorf("root: %+v", got)
	}
}

// Who may push what is decided by the identity that the HTTP layer gives.
func TestRules(t *testing.T) {
	s, clone := seeded(t, func(c *Config) {
		c.Protected = []string{"refs/heads/release/*"}
		c.Rules = func(string) []Rule {
			return []Rule{
				{Users: []string{"pusher"}, Refs: []string{"refs/heads/*"}, Paths: []string{"web"}},
				{Users: []string{"viewer"}, Refs: []string{"refs/heads/viewer"}},
				{Groups: []string{user.SystemPrivilegedGroup}, Force: true, Delete: true},
			}
		}
	})
	push := func(who, spec string) string {
		out, err := tryGit(t, clone, "push", "--force", s.as(who), spec)
		if err == nil {
			return ""
		}
		return out
	}
	refused := func(who, spec, why string) {
		t.Helper()
		if out := push(who, spec); !strings.Contains(out, why) {
			t.Errorf("push of %s by %s: %q, want %q", spec, who, out, why)
		}
	}
	accepted := func(who, spec string) {
		t.Helper()
		if out := push(who, spec); out != "" {
			t.Errorf("push of %s by %s: %s", spec, who, out)
		}
	}
	write(t, clone, map[string]string{"web/a.yaml": "a"})
	commit(t, clone, "Mine")
	accepted("pusher", "main")
	accepted("viewer", "main:viewer")
	write(t, clone, map[string]string{"infra/a.yaml": "a", "infra/b/c.yaml": "a", "web/b.yaml": "b"})
	commit(t, clone, "Not mine")
	refused("pusher", "main", `user "pusher" may not change infra/a.yaml, infra/b/c.yaml on refs/heads/main: the right is to change web`)
	refused("viewer", "main", `user "viewer" may not push to refs/heads/main`)
	refused("pusher", "main:new", `may not change infra/a.yaml`)
	refused("pusher", "main:refs/tags/v1", `may not push to refs/tags/v1`)
	accepted("admin", "main")
	refused("pusher", ":viewer", "may not delete")
	git(t, clone, "rm", "-q", "-r", "infra")
	commit(t, clone, "Take it away")
	refused("pusher", "main", "may not change infra/a.yaml")
	git(t, clone, "reset", "-q", "--hard", "HEAD~1")

	accepted("admin", "main:release/1")
	git(t, clone, "reset", "-q", "--hard", "HEAD~2")
	write(t, clone, map[string]string{"web/c.yaml": "c"})
	commit(t, clone, "Other")
	refused("pusher", "main", "non-fast-forward")
	refused("pusher", "main:release/1", "non-fast-forward: protected branch")
	refused("pusher", ":release/1", "protected branch; it cannot be deleted")
	accepted("admin", "main:release/1")
	accepted("admin", "main")
	accepted("admin", ":release/1")
	if out, err := tryGit(t, filepath.Dir(clone), "push", s.as("stranger"), "main"); err == nil {
		t.Errorf("a stranger pushes: %s", out)
	}
	s.verify(t)
}
