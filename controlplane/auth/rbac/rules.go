package rbac

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/writ-os/writ/schema"
)

// rules returns what the role of a binding grants. The lock is held.
func (x *index) rules(b *binding) ([]rbacv1.PolicyRule, error) {
	if b.role.Kind == "Role" {
		role := x.roles[schema.Key{Namespace: b.key.Namespace, Name: b.role.Name}]
		if role == nil {
			return nil, apierrors.NewNotFound(rbacv1.Resource("role"), b.role.Name)
		}
		return role.Rules, nil
	}
	role := x.clusterRoles[b.role.Name]
	if role == nil {
		return nil, apierrors.NewNotFound(rbacv1.Resource("clusterrole"), b.role.Name)
	}
	if role.AggregationRule == nil {
		return role.Rules, nil
	}
	x.resolvedMu.Lock()
	defer x.resolvedMu.Unlock()
	if r, ok := x.resolved[role.Name]; ok {
		return r, nil
	}
	r := Aggregate(role, x.clusterRoles)
	x.resolved[role.Name] = r
	return r, nil
}

// Aggregate returns the rules of a ClusterRole: its own, or, when it has an
// aggregation rule, those of the roles which that selects, and theirs.
func Aggregate(role *rbacv1.ClusterRole, all map[string]*rbacv1.ClusterRole) []rbacv1.PolicyRule {
	var out []rbacv1.PolicyRule
	seen := map[string]bool{}
	var add func(*rbacv1.ClusterRole)
	add = func(r *rbacv1.ClusterRole) {
		if seen[r.Name] {
			return
		}
		seen[r.Name] = true
		if r.AggregationRule == nil {
			out = append(out, r.Rules...)
			return
		}
		for _, name := range selected(r.AggregationRule, all) {
			add(all[name])
		}
	}
	add(role)
	return out
}

// selected returns the names of the roles that a rule selects, sorted.
func selected(rule *rbacv1.AggregationRule, all map[string]*rbacv1.ClusterRole) []string {
	var names []string
	for i := range rule.ClusterRoleSelectors {
		sel, err := metav1.LabelSelectorAsSelector(&rule.ClusterRoleSelectors[i])
		if err != nil {
			continue // selects nothing: validation refuses such a role
		}
		for name, r := range all {
			if sel.Matches(labels.Set(r.Labels)) {
				names = append(names, name)
			}
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}
