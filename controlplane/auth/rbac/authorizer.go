// Package rbac decides requests by Roles, ClusterRoles and their bindings, as
// Kubernetes' RBAC authorizer does, with its words.
//
// Watches Roles, ClusterRoles, RoleBindings and ClusterRoleBindings. Owns
// nothing. An aggregated ClusterRole grants what the roles that it selects
// grant at this moment; nobody has to write the union into it.
//
// Until Run has seen all four kinds, requests wait: a server that has just
// started must not refuse what it will allow a moment later.
package rbac

import (
	"cmp"
	"context"
	"fmt"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// patience is how long a request waits for the first reading.
const patience = 10 * time.Second

// Authorizer decides by RBAC.
type Authorizer struct {
	cache client.Cache
	index *index
	ready chan struct{}
}

var (
	_ authorizer.Authorizer   = (*Authorizer)(nil)
	_ authorizer.RuleResolver = (*Authorizer)(nil)
)

// New returns an authorizer; it starts nothing.
func New(cache client.Cache) *Authorizer {
	return &Authorizer{cache: cache, index: newIndex(), ready: make(chan struct{})}
}

// Run follows roles and bindings until ctx ends.
func (a *Authorizer) Run(ctx context.Context) error {
	// Roles first: a binding that is seen before its role grants nothing.
	for _, r := range []*schema.Resource{
		schema.ResourceFor[*rbacv1.ClusterRole](), schema.ResourceFor[*rbacv1.Role](),
		schema.ResourceFor[*rbacv1.ClusterRoleBinding](), schema.ResourceFor[*rbacv1.RoleBinding](),
	} {
		if err := a.cache.Subscribe(ctx, r, a.index.observe); err != nil {
			return fmt.Errorf("subscribe to %s: %w", r, err)
		}
	}
	close(a.ready)
	<-ctx.Done()
	return nil
}

func (a *Authorizer) wait(ctx context.Context) error {
	select {
	case <-a.ready:
		return nil
	default:
	}
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	select {
	case <-a.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("read roles: %w", ctx.Err())
	}
}

// Authorize decides one request.
func (a *Authorizer) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	if err := a.wait(ctx); err != nil {
		return authorizer.DecisionNoOpinion, "", err
	}
	a.index.mu.RLock()
	defer a.index.mu.RUnlock()
	var (
		reason string
		errs   []error
	)
	a.index.visit(attrs.GetUser(), attrs.GetNamespace(), func(b *binding, s subjectKey) bool {
		rules, err := a.index.rules(b)
		if err != nil {
			errs = append(errs, err)
			return true
		}
		if RulesAllow(attrs, rules) {
			reason = "RBAC: allowed by " + describe(b, s)
			return false
		}
		return true
	})
	if reason != "" {
		return authorizer.DecisionAllow, reason, nil
	}
	if len(errs) > 0 {
		reason = fmt.Sprintf("RBAC: %v", utilerrors.NewAggregate(errs))
	}
	return authorizer.DecisionNoOpinion, reason, nil
}

// PolicyRules returns all rules that apply to a user in a namespace, and what
// could not be resolved.
func (a *Authorizer) PolicyRules(ctx context.Context, u user.Info, namespace string) ([]rbacv1.PolicyRule, error) {
	if err := a.wait(ctx); err != nil {
		return nil, err
	}
	a.index.mu.RLock()
	defer a.index.mu.RUnlock()
	var (
		out  []rbacv1.PolicyRule
		errs []error
	)
	a.index.visit(u, namespace, func(b *binding, _ subjectKey) bool {
		rules, err := a.index.rules(b)
		if err != nil {
			errs = append(errs, err)
		}
		out = append(out, rules...)
		return true
	})
	return out, utilerrors.NewAggregate(errs)
}

// RoleRules returns what the role of a binding in a namespace ("" for a
// ClusterRoleBinding) grants.
func (a *Authorizer) RoleRules(ctx context.Context, namespace string, role rbacv1.RoleRef) ([]rbacv1.PolicyRule, error) {
	if err := a.wait(ctx); err != nil {
		return nil, err
	}
	a.index.mu.RLock()
	defer a.index.mu.RUnlock()
	return a.index.rules(&binding{key: schema.Key{Namespace: namespace}, role: role})
}

// RulesFor answers a SelfSubjectRulesReview.
func (a *Authorizer) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	rules, err := a.PolicyRules(ctx, u, namespace)
	var (
		resource    []authorizer.ResourceRuleInfo
		nonResource []authorizer.NonResourceRuleInfo
	)
	for _, r := range rules {
		if len(r.Resources) > 0 {
			resource = append(resource, &authorizer.DefaultResourceRuleInfo{
				Verbs: r.Verbs, APIGroups: r.APIGroups, Resources: r.Resources, ResourceNames: r.ResourceNames})
		}
		if len(r.NonResourceURLs) > 0 {
			nonResource = append(nonResource, &authorizer.DefaultNonResourceRuleInfo{Verbs: r.Verbs, NonResourceURLs: r.NonResourceURLs})
		}
	}
	return resource, nonResource, false, err
}

// describe names a binding as upstream does: ClusterRoleBinding "x" of
// ClusterRole "y" to Group "z".
func describe(b *binding, key subjectKey) string {
	kind, name := "ClusterRoleBinding", b.key.Name
	if b.key.Namespace != "" {
		kind, name = "RoleBinding", b.key.Name+"/"+b.key.Namespace
	}
	subject := fmt.Sprintf("%s %q", key.kind, key.name)
	for _, s := range b.subjects {
		if k, _ := keyOf(s, b.key.Namespace); k == key && s.Kind == rbacv1.ServiceAccountKind {
			subject = fmt.Sprintf("%s %q", s.Kind, s.Name+"/"+cmp.Or(s.Namespace, b.key.Namespace))
		}
	}
	return fmt.Sprintf("%s %q of %s %q to %s", kind, name, b.role.Kind, b.role.Name, subject)
}
