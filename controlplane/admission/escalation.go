package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/component-helpers/auth/rbac/validation"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// Roles tells who holds which rights. *rbac.Authorizer is one.
type Roles interface {
	authorizer.Authorizer
	PolicyRules(ctx context.Context, u user.Info, namespace string) ([]rbacv1.PolicyRule, error)
	RoleRules(ctx context.Context, namespace string, role rbacv1.RoleRef) ([]rbacv1.PolicyRule, error)
}

// Escalation lets nobody grant rights that they do not hold, unless they may
// "escalate" roles or "bind" the role. As upstream (registry/rbac/*/policybased),
// every update counts, not only one of the rules: a label can make a role a
// part of another one, and so hands its rules to whoever is bound to that.
type Escalation struct {
	validates
	Roles Roles
}

var _ registry.Admission = (*Escalation)(nil)

// everything is what an aggregation rule can come to grant.
var everything = []rbacv1.PolicyRule{
	{Verbs: []string{"*"}, APIGroups: []string{"*"}, Resources: []string{"*"}},
	{Verbs: []string{"*"}, NonResourceURLs: []string{"*"}},
}

// Handles implements registry.Handler.
func (*Escalation) Handles(verb string, r *schema.Resource, _ string) bool {
	return verb != "delete" && r.Group == rbacv1.GroupName
}

// Validate implements registry.Admission.
func (e *Escalation) Validate(ctx context.Context, a *registry.Attributes) error {
	if a.User == nil || identity.InGroup(a.User, user.SystemPrivilegedGroup) || onlyCollects(a) {
		return nil
	}
	switch o := a.Object.(type) {
	case *rbacv1.Role:
		return e.grants(ctx, a, o.Rules, "escalate", a.Resource.Plural, o.Name)
	case *rbacv1.ClusterRole:
		old, _ := a.Old.(*rbacv1.ClusterRole)
		if err := e.grants(ctx, a, o.Rules, "escalate", a.Resource.Plural, o.Name); err != nil {
			return err
		}
		// It gathers anything, and took back what it gathers: all rights, also
		// of those who drop it or freeze what it has gathered.
		if o.AggregationRule != nil || old != nil && old.AggregationRule != nil {
			if e.grants(ctx, a, everything, "escalate", a.Resource.Plural, o.Name) != nil {
				return forbidden(a, errors.New("must have cluster-admin privileges to use the aggregationRule"))
			}
		}
	case *rbacv1.RoleBinding:
		return e.binds(ctx, a, o.RoleRef)
	case *rbacv1.ClusterRoleBinding:
		return e.binds(ctx, a, o.RoleRef)
	}
	return nil
}

// onlyCollects says whether an update changes only what garbage collection
// needs: finalizers and owners. That grants nothing, and who holds less than a
// role must be able to let it go.
func onlyCollects(a *registry.Attributes) bool {
	if a.Old == nil || a.Object == nil {
		return false
	}
	same := a.Object.DeepCopyObject().(schema.Object)
	same.SetFinalizers(a.Old.GetFinalizers())
	same.SetOwnerReferences(a.Old.GetOwnerReferences())
	same.SetManagedFields(a.Old.GetManagedFields())
	same.SetResourceVersion(a.Old.GetResourceVersion())
	same.SetGeneration(a.Old.GetGeneration())
	return equality.Semantic.DeepEqual(same, a.Old)
}

// binds checks a binding: the role that it grants must be the user's own to
// give.
func (e *Escalation) binds(ctx context.Context, a *registry.Attributes, ref rbacv1.RoleRef) error {
	plural := "clusterroles"
	if ref.Kind == "Role" {
		plural = "roles"
	}
	rules, err := e.Roles.RoleRules(ctx, a.Key.Namespace, ref)
	if err != nil {
		return forbidden(a, err)
	}
	return e.grants(ctx, a, rules, "bind", plural, ref.Name)
}

// grants refuses rules that the user neither holds nor may hand out by verb.
func (e *Escalation) grants(ctx context.Context, a *registry.Attributes, rules []rbacv1.PolicyRule, verb, plural, name string) error {
	decision, _, err := e.Roles.Authorize(ctx, authorizer.AttributesRecord{
		User: a.User, Verb: verb, APIGroup: rbacv1.GroupName, APIVersion: "v1", Resource: plural,
		Namespace: a.Key.Namespace, Name: name, ResourceRequest: true,
	})
	if err == nil && decision == authorizer.DecisionAllow {
		return nil
	}
	held, err := e.Roles.PolicyRules(ctx, a.User, a.Key.Namespace)
	ok, missing := validation.Covers(held, rules)
	if ok {
		return nil
	}
	lines := make([]string, len(missing))
	for i, m := range missing {
		lines[i] = compact(m)
	}
	slices.Sort(lines)
	text := fmt.Sprintf("user %q (groups=%q) is attempting to grant RBAC permissions not currently held:\n%s",
		a.User.GetName(), a.User.GetGroups(), strings.Join(slices.Compact(lines), "\n"))
	if err != nil {
		text += fmt.Sprintf("; resolution errors: %v", err)
	}
	return forbidden(a, fmt.Errorf("%s", text))
}

// compact prints a rule as upstream does.
func compact(r rbacv1.PolicyRule) string {
	var parts []string
	for _, p := range []struct {
		name string
		list []string
	}{
		{"APIGroups", r.APIGroups}, {"Resources", r.Resources}, {"NonResourceURLs", r.NonResourceURLs},
		{"ResourceNames", r.ResourceNames}, {"Verbs", r.Verbs},
	} {
		if len(p.list) > 0 {
			parts = append(parts, fmt.Sprintf("%s:%q", p.name, p.list))
		}
	}
	return "{" + strings.Join(parts, ", ") + "}"
}
