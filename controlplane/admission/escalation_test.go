package admission

import (
	"context"
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/auth/rbac"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// TestEscalation: an operator with the right to write roles and bindings
// cannot make itself more than it is.
func TestEscalation(t *testing.T) {
	rule := func(verbs []string, group, resource string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{group}, Resources: []string{resource}}
	}
	read := rule([]string{"get"}, "", "pods")
	fake := client.NewFake(
		&rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: "operator"},
			Rules: []rbacv1.PolicyRule{read, rule([]string{"*"}, "rbac.authorization.k8s.io", "rolebindings")}},
		&rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: "reader"}, Rules: []rbacv1.PolicyRule{read}},
		&rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: "cluster-admin"},
			Rules: []rbacv1.PolicyRule{rule([]string{"*"}, "*", "*")}},
		&rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: "binder"},
			Rules: []rbacv1.PolicyRule{rule([]string{"bind", "escalate"}, "rbac.authorization.k8s.io", "clusterroles"), rule([]string{"escalate"}, "rbac.authorization.k8s.io", "roles")}},
		binding("operators", "operator", "operator"), binding("binders", "binder", "binder"),
	)
	roles := rbac.New(fake.Cache())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- roles.Run(ctx) }()
	defer func() { cancel(); <-done }()
	c := open(t, roles)

	role := func(name string, rules ...rbacv1.PolicyRule) schema.Object {
		return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name}, Rules: rules}
	}
	bind := func(name, clusterRole string) schema.Object {
		return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: name},
			RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "x"}}}
	}
	operator, binder := as("operator"), as("binder")
	if err := tryCreate(c, operator, role("same", read)); err != nil {
		t.Errorf("a role with no more than one's own: %v", err)
	}
	wantRefused(t, tryCreate(c, operator, role("more", read, rule([]string{"get"}, "", "secrets"))),
		`user "operator" (groups=[]) is attempting to grant RBAC permissions not currently held:`+"\n"+`{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`)
	if err := tryCreate(c, operator, bind("reader", "reader")); err != nil {
		t.Errorf("a binding to no more than one's own: %v", err)
	}
	wantRefused(t, tryCreate(c, operator, bind("root", "cluster-admin")), "is attempting to grant RBAC permissions not currently held")
	if err := tryCreate(c, binder, bind("root", "cluster-admin")); err != nil {
		t.Errorf("a binding by who may bind: %v", err)
	}
	if err := tryCreate(c, binder, role("escalated", rule([]string{"*"}, "*", "*"))); err != nil {
		t.Errorf("a role by who may escalate: %v", err)
	}
	if err := tryCreate(c, admin, role("admins", rule([]string{"*"}, "*", "*"))); err != nil {
		t.Errorf("a role by system:masters: %v", err)
	}
	// As upstream: whoever changes a role grants what is in it.
	label := func(r *rbacv1.Role) { r.Labels = map[string]string{"a": "b"} }
	wantRefused(t, change(c, operator, shop("admins"), "", label), "is attempting to grant RBAC permissions not currently held")
	if err := change(c, binder, shop("admins"), "", label); err != nil {
		t.Errorf("a label by who may escalate: %v", err)
	}
	if err := change(c, operator, shop("admins"), "", func(r *rbacv1.Role) { r.Finalizers = []string{"example.com/hold"} }); err != nil {
		t.Errorf("a finalizer grants nothing: %v", err)
	}
}

// TestEscalationByAggregation: who may write cluster roles, and is bound to one
// that gathers others by label, cannot label a stronger one for it, nor stop a
// gathering one from being taken back, nor select anew what it gathers.
func TestEscalationByAggregation(t *testing.T) {
	const to = "rbac.authorization.k8s.io/aggregate-to-view"
	rule := func(group, resource string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: verbs, APIGroups: []string{group}, Resources: []string{resource}}
	}
	role := func(name string, rules ...rbacv1.PolicyRule) *rbacv1.ClusterRole {
		return &rbacv1.ClusterRole{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRole"}, ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules}
	}
	read, all := rule("", "pods", "get"), rule("*", "*", "*")
	view := role("view", read)
	view.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{to: "true"}}}}
	fake := client.NewFake(role("writer", read, rule("rbac.authorization.k8s.io", "clusterroles", "create", "get", "patch", "update")),
		role("escalator", rule("rbac.authorization.k8s.io", "clusterroles", "escalate")),
		role("reader", read), role("root", all), view,
		binding("writers", "writer", "writer"), binding("escalators", "escalator", "escalator"))
	roles := rbac.New(fake.Cache())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- roles.Run(ctx) }()
	defer func() { cancel(); <-done }()
	c := open(t, roles)
	for _, r := range []*rbacv1.ClusterRole{role("reader", read), role("root", all), view} {
		r = r.DeepCopy()
		r.TypeMeta = metav1.TypeMeta{}
		c.create(admin, r)
	}

	type clusterRole = *rbacv1.ClusterRole
	label := func(r clusterRole) { r.Labels = map[string]string{to: "true"} }
	named := func(name string) schema.Key { return schema.Key{Name: name} }
	for _, tt := range []struct {
		name, user, role string
		do               func(clusterRole)
		want             string // "" when it passes
	}{
		{"label a stronger role", "writer", "root", label, `attempting to grant RBAC permissions not currently held`},
		{"annotate a stronger role", "writer", "root", func(r clusterRole) { r.Annotations = map[string]string{"a": "b"} }, `attempting to grant RBAC permissions not currently held`},
		{"label no more than one's own", "writer", "reader", label, ""},
		{"select anew", "writer", "view", func(r clusterRole) {
			r.AggregationRule.ClusterRoleSelectors[0].MatchLabels = map[string]string{"all": "true"}
		}, "must have cluster-admin privileges to use the aggregationRule"},
		{"gather no more", "writer", "view", func(r clusterRole) { r.AggregationRule = nil }, "must have cluster-admin privileges to use the aggregationRule"},
		{"begin to gather", "writer", "reader", func(r clusterRole) { r.AggregationRule = view.AggregationRule.DeepCopy() }, "must have cluster-admin privileges to use the aggregationRule"},
		{"hold a gathering role", "writer", "view", func(r clusterRole) { r.Finalizers = []string{"example.com/hold"} }, ""},
		{"label by who may escalate", "escalator", "root", label, ""},
		{"gather no more by who may escalate", "escalator", "view", func(r clusterRole) { r.AggregationRule = nil }, ""},
	} {
		err := change(c, as(tt.user), named(tt.role), "", tt.do)
		if tt.want != "" {
			wantRefused(t, err, tt.want)
		} else if err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
	}
}

func binding(name, clusterRole, user string) schema.Object {
	return &rbacv1.ClusterRoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}}
}
