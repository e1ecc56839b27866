package trust

import (
	"strings"
	"testing"
)

const scoped = `scopes:
- signers: [admins]
  allow:
  - {kinds: ["*"], namespaces: ["*"], clusterScoped: true}
- paths: [/apps/shop/]
  signers: [bob]
  allow:
  - {kinds: [Deployment.apps, Service.core, "Ingress*"], namespaces: ["shop-*"]}
  - {kinds: [Namespace], names: ["shop-*"], clusterScoped: true}
- paths: [/apps/shop/config/]
  authors: ["*@example.org"]
  allow:
  - {kinds: [ConfigMap], namespaces: [shop-a]}
`

func TestScope(t *testing.T) {
	w := newWorld(t)
	base := w.by("alice", ".writ/trust.yaml", w.policy+scoped)
	w.by("bob", "apps/shop/a.yaml", "a: 1\n")
	w.by("bob", "other.yaml", "a: 1\n")
	w.by("bob", "apps/shop/config/c.yaml", "a: 1\n")
	res := w.check(base, w.by("alice", "infra/a.yaml", "a: 1\n"))
	expect(t, res)
	for _, c := range []struct {
		op   Op
		want string // "" when it is allowed
	}{
		{Op{Group: "apps", Kind: "Deployment", Namespace: "shop-a", File: "apps/shop/a.yaml"}, ""},
		{Op{Kind: "Service", Namespace: "shop-a", File: "apps/shop/a.yaml"}, ""},
		{Op{Group: "networking.k8s.io", Kind: "Ingress", Namespace: "shop-a", File: "apps/shop/a.yaml"}, ""},
		{Op{Group: "serving.knative.dev", Kind: "Service", Namespace: "shop-a", File: "apps/shop/a.yaml"}, "Deployment.apps, Service.core, Ingress* in shop-*"},
		{Op{Group: "apps", Kind: "Deployment", Namespace: "shop", File: "apps/shop/a.yaml"}, "it may declare"},
		{Op{Kind: "Secret", Namespace: "shop-a", File: "apps/shop/a.yaml"}, "it may declare"},
		{Op{Kind: "Namespace", Name: "shop-a", File: "apps/shop/a.yaml"}, ""},
		{Op{Kind: "Namespace", Name: "kube-system", File: "apps/shop/a.yaml"}, "it may declare"},
		{Op{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "x", File: "apps/shop/a.yaml"}, "it may declare"},
		{Op{Kind: "Secret", Namespace: "shop-a", Action: "delete", File: "other.yaml"}, "no scope"},
		{Op{Kind: "ConfigMap", Namespace: "shop-a", File: "apps/shop/config/c.yaml"}, ""},
		{Op{Kind: "ConfigMap", Namespace: "shop-b", File: "apps/shop/config/c.yaml"}, "it may declare"},
		{Op{Kind: "Secret", Namespace: "kube-system", File: "infra/a.yaml"}, ""},                         // alice's
		{Op{Kind: "Secret", Namespace: "kube-system", File: "untouched.yaml"}, ""},                       // drift
		{Op{Kind: "Secret", Namespace: "kube-system", File: "untouched.cue", Derived: true}, "no scope"}, // bob is in the range
	} {
		got := res.Scope([]Op{c.op})
		switch {
		case c.want == "" && len(got) == 0:
		case c.want != "" && len(got) == 1 && got[0].Rule == RuleScope && got[0].File == c.op.File && strings.Contains(got[0].Hint, c.want) && strings.Contains(got[0].Message, "signed by bob"):
		default:
			t.Errorf("%+v: %+v; want %q", c.op, got, c.want)
		}
	}
	if res.Mode = Off; res.Scope([]Op{{Kind: "Secret", Namespace: "x", File: "other.yaml"}}) != nil {
		t.Error("judged although verification is off")
	}
}

// Without scopes anything may be declared.
func TestScopeNone(t *testing.T) {
	w := newWorld(t)
	base := w.by("alice", ".writ/trust.yaml", w.policy)
	res := w.check(base, w.by("bob", "a.yaml", "a: 1\n"))
	if got := res.Scope([]Op{{Kind: "ClusterRole", Name: "x", File: "a.yaml"}}); len(got) > 0 {
		t.Errorf("%+v", got)
	}
}
