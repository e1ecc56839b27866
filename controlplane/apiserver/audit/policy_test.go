package audit

import (
	"path/filepath"
	"testing"

	auditinternal "k8s.io/apiserver/pkg/apis/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// TestOwnPolicy: what is recorded when nobody says what, and how much of it.
func TestOwnPolicy(t *testing.T) {
	p, err := readPolicy("")
	if err != nil {
		t.Fatal(err)
	}
	rules := policy.NewPolicyRuleEvaluator(p)
	const none, metadata, request = auditinternal.LevelNone, auditinternal.LevelMetadata, auditinternal.LevelRequest
	node := []string{user.NodesGroup}
	for _, tt := range []struct {
		user                     string
		groups                   []string
		verb, group, plural, sub string
		path                     string // of what is no resource
		want                     auditinternal.Level
	}{
		{"jane", nil, "create", "apps", "deployments", "", "", metadata},
		{"jane", nil, "list", "apps", "deployments", "", "", none},
		{"jane", nil, "get", "", "secrets", "", "", metadata},
		{"jane", nil, "create", "", "secrets", "", "", metadata},
		{"jane", nil, "create", "", "serviceaccounts", "token", "", metadata},
		{"jane", nil, "get", "", "pods", "exec", "", metadata},
		{"jane", nil, "get", "", "pods", "log", "", none},
		{"jane", nil, "delete", "", "pods", "", "", metadata},
		{"jane", nil, "create", "", "events", "", "", none},
		{"jane", nil, "create", "authorization.k8s.io", "selfsubjectaccessreviews", "", "", none},
		{"system:node:a", node, "update", "", "nodes", "status", "", none},
		{"system:node:a", node, "patch", "", "pods", "status", "", none},
		{"system:node:a", node, "get", "", "secrets", "", "", none},
		{"system:node:a", node, "update", "coordination.k8s.io", "leases", "", "", none},
		{"system:node:a", node, "create", "", "serviceaccounts", "token", "", metadata},
		{"system:node:a", node, "create", "certificates.k8s.io", "certificatesigningrequests", "", "", metadata},
		{"writ:break-glass", nil, "patch", "rbac.authorization.k8s.io", "clusterroles", "", "", request},
		{"writ:break-glass", nil, "patch", "", "secrets", "", "", metadata},
		{"writ:break-glass", nil, "patch", "", "configmaps", "", "", metadata},
		{"writ:break-glass", nil, "patch", "apps", "deployments", "", "", metadata},
		{"writ:break-glass", nil, "create", "", "serviceaccounts", "token", "", metadata},
		{"writ:break-glass", nil, "create", "example.com", "widgets", "", "", metadata},
		{"writ:break-glass", nil, "list", "", "pods", "", "", metadata},
		{"jane", nil, "get", "", "", "", "/git/cluster.git/info/refs", metadata},
		{"jane", nil, "post", "", "", "", "/git/cluster.git/git-receive-pack", metadata},
		{"jane", nil, "get", "", "", "", "/ui/", metadata},
		{"jane", nil, "get", "", "", "", "/ui/static/app.css", none},
		{"jane", nil, "post", "", "", "", "/servers/join", metadata},
		{"jane", nil, "get", "", "", "", "/readyz", none},
		{"jane", nil, "get", "", "", "", "/apis/apps/v1", none},
	} {
		a := authorizer.AttributesRecord{User: &user.DefaultInfo{Name: tt.user, Groups: tt.groups}, Verb: tt.verb, APIGroup: tt.group, APIVersion: "v1",
			Resource: tt.plural, Subresource: tt.sub, Path: tt.path, ResourceRequest: tt.path == ""}
		if got := rules.EvaluatePolicyRule(a).Level; got != tt.want {
			t.Errorf("%s %s %s/%s %s%s: %s, want %s", tt.user, tt.verb, tt.group, tt.plural, tt.sub, tt.path, got, tt.want)
		}
	}
}

// TestIn: a log that nobody asked for is bounded; one that somebody asked for is
// as they say.
func TestIn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "audit.log")
	if c := (Config{MaxSize: 100}).In(file); c.LogPath != file || c.MaxBackups != backups {
		t.Errorf("by default: %+v", c)
	}
	if c := (Config{MaxBackups: 9}).In(file); c.MaxBackups != 9 {
		t.Errorf("with a flag: %+v", c)
	}
	if c := (Config{LogPath: "/x"}).In(file); c != (Config{LogPath: "/x"}) {
		t.Errorf("elsewhere: %+v", c)
	}
}
