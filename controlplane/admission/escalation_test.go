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
	// Touching a stronger role without making it stronger is no grant.
	err := change(c, operator, shop("admins"), "", func(r *rbacv1.Role) { r.Labels = map[string]string{"a": "b"} })
	if err != nil {
		t.Errorf("a label on a stronger role: %v", err)
	}
}

func binding(name, clusterRole, user string) schema.Object {
	return &rbacv1.ClusterRoleBinding{TypeMeta: metav1.TypeMeta{APIVersion: "rbac.authorization.k8s.io/v1", Kind: "ClusterRoleBinding"}, ObjectMeta: metav1.ObjectMeta{Name: name},
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: clusterRole}, Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: user}}}
}
