package auth

import (
	"context"
	"slices"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/policy"
	"github.com/writ-os/writ/controlplane/client"
)

// TestDefaultPolicy asks, with nothing but the default roles, what the
// identities may do that writ hands out.
func TestDefaultPolicy(t *testing.T) {
	f := client.NewFake()
	if err := policy.Ensure(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	a := NewAuthorizer(AuthorizerConfig{Cache: f.Cache(), Explain: func(authorizer.Attributes) string { return "declared in Git: edit web.yaml:1" }})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- a.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	users := map[string]user.Info{
		"viewer":    &user.DefaultInfo{Name: identity.Viewer, Groups: []string{identity.ViewersGroup, user.AllAuthenticated}},
		"admin":     &user.DefaultInfo{Name: identity.Admin, Groups: []string{user.SystemPrivilegedGroup, user.AllAuthenticated}},
		"pusher":    &user.DefaultInfo{Name: identity.Pusher, Groups: []string{identity.PushersGroup, user.AllAuthenticated}},
		"anonymous": &user.DefaultInfo{Name: user.Anonymous, Groups: []string{user.AllUnauthenticated}},
		"account":   &user.DefaultInfo{Name: "system:serviceaccount:shop:web", Groups: []string{"system:serviceaccounts", "system:serviceaccounts:shop", user.AllAuthenticated}},
		"scheduler": &user.DefaultInfo{Name: user.KubeScheduler, Groups: []string{user.AllAuthenticated}},
		"node":      &user.DefaultInfo{Name: "system:node:a", Groups: []string{user.NodesGroup, user.AllAuthenticated}},
	}
	for _, tt := range []struct {
		who, allowed, refused string // requests separated by commas
	}{
		{"viewer", "get core/pods, list core/nodes, watch apps/deployments, get core/pods/log, list core/namespaces, list core/events, get core/configmaps, " +
			"list storage.k8s.io/storageclasses, list core/persistentvolumes, list scheduling.k8s.io/priorityclasses, list rbac.authorization.k8s.io/clusterroles, " +
			"list writ.dev/commits, get writ.dev/repositories, list discovery.k8s.io/endpointslices, list coordination.k8s.io/leases, " +
			"create authorization.k8s.io/selfsubjectaccessreviews, get /apis, get /openapi/v3, get /version",
			"get core/secrets, list core/secrets, create core/pods/exec, get core/pods/exec, create core/pods/portforward, delete core/pods, create core/pods, patch apps/deployments, " +
				"update apps/deployments/scale, create core/serviceaccounts/token, create core/pods/eviction, delete writ.dev/commits, update writ.dev/repositories, impersonate core/users, " +
				"create rbac.authorization.k8s.io/clusterrolebindings, patch core/nodes, get core/nodes/proxy, get /metrics"},
		{"admin", "delete apps/deployments, get core/secrets, create core/pods/exec, get /metrics, impersonate core/users", ""},
		{"pusher", "get /version, create authorization.k8s.io/selfsubjectaccessreviews", "get core/pods, create core/configmaps, list core/namespaces"},
		{"anonymous", "get /healthz, get /livez, get /readyz, get /version", "get /metrics, get /readyz/etcd, get /apis, get /openapi/v2, get core/pods, list core/namespaces, create authorization.k8s.io/selfsubjectaccessreviews"},
		{"account", "get /apis, get /openid/v1/jwks, create authorization.k8s.io/selfsubjectrulesreviews", "get core/pods, get core/secrets, create core/configmaps"},
		{"scheduler", "create core/pods/binding, patch core/pods/status, list core/nodes, create core/events", "create core/pods, delete core/nodes, get core/secrets"},
		{"node", "list core/services, create core/events, list core/nodes, watch discovery.k8s.io/endpointslices, list networking.k8s.io/networkpolicies", "list core/secrets, list core/pods, create apps/deployments, list apps/deployments"},
	} {
		check := func(requests string, want bool) {
			for _, s := range strings.Split(requests, ", ") {
				if s == "" {
					continue
				}
				d, reason, err := a.Authorize(t.Context(), attributes(users[tt.who], s))
				if err != nil || (d == authorizer.DecisionAllow) != want {
					t.Errorf("%s %s: decision %v (%s, %v), want allowed %v", tt.who, s, d, reason, err, want)
				}
			}
		}
		check(tt.allowed, true)
		check(tt.refused, false)
	}

	// Who may see an object learns where to edit it, and nobody else.
	for _, tt := range []struct{ who, request, want string }{
		{"viewer", "delete apps/deployments", "declared in Git: edit web.yaml:1"},
		{"viewer", "get core/secrets", ""},
		{"viewer", "delete core/secrets", ""},
		{"account", "delete apps/deployments", ""},
		{"anonymous", "delete apps/deployments", ""},
	} {
		if _, reason, _ := a.Authorize(t.Context(), attributes(users[tt.who], tt.request)); reason != tt.want {
			t.Errorf("%s %s: reason %q, want %q", tt.who, tt.request, reason, tt.want)
		}
	}
	if _, _, incomplete, err := a.RulesFor(t.Context(), users["node"], "shop"); !incomplete || err == nil {
		t.Errorf("rules of a node: incomplete %v, %v", incomplete, err)
	}
	if rules, _, _, err := a.RulesFor(t.Context(), users["admin"], "shop"); err != nil || len(rules) == 0 || !slices.ContainsFunc(rules, func(r authorizer.ResourceRuleInfo) bool { return r.GetVerbs()[0] == "*" && r.GetResources()[0] == "*" }) {
		t.Errorf("rules of the admin: %v, %v", rules, err)
	}
}

func attributes(u user.Info, s string) authorizer.AttributesRecord {
	verb, what, _ := strings.Cut(s, " ")
	r := authorizer.AttributesRecord{User: u, Verb: verb}
	if strings.HasPrefix(what, "/") {
		r.Path = what
		return r
	}
	parts := strings.Split(what, "/")
	r.ResourceRequest, r.APIGroup, r.Resource, r.APIVersion, r.Namespace, r.Name = true, parts[0], parts[1], "v1", "shop", "web"
	if r.APIGroup == "core" {
		r.APIGroup = ""
	}
	if len(parts) > 2 {
		r.Subresource = parts[2]
	}
	if verb == "list" || verb == "watch" {
		r.Name = ""
	}
	return r
}
