package auth

import (
	"context"
	"errors"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/node"
	"github.com/writ-os/writ/controlplane/auth/policy"
	"github.com/writ-os/writ/controlplane/auth/rbac"
	"github.com/writ-os/writ/controlplane/client"
)

// AuthorizerConfig is what authorization needs.
type AuthorizerConfig struct {
	Cache client.Cache
	// Explain, if set, adds to the refusal of a write what else there is to say
	// about the object: where Git declares it. "" adds nothing.
	Explain func(authorizer.Attributes) string
}

// Authorizer asks the parts in turn: system:masters passes, then Node, then
// RBAC. The first that allows wins.
type Authorizer struct {
	cfg  AuthorizerConfig
	node *node.Authorizer
	// RBAC answers for roles alone: who has which rules.
	RBAC *rbac.Authorizer
}

var (
	_ authorizer.Authorizer   = (*Authorizer)(nil)
	_ authorizer.RuleResolver = (*Authorizer)(nil)
)

// NewAuthorizer returns the authorizer of the server; it starts nothing.
func NewAuthorizer(cfg AuthorizerConfig) *Authorizer {
	return &Authorizer{cfg: cfg, node: node.New(cfg.Cache, policy.NodeRules()), RBAC: rbac.New(cfg.Cache)}
}

// Run follows roles and bindings until ctx ends.
func (a *Authorizer) Run(ctx context.Context) error { return a.RBAC.Run(ctx) }

// Authorize decides one request.
func (a *Authorizer) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	u := attrs.GetUser()
	if u == nil {
		return authorizer.DecisionNoOpinion, "no user on request.", nil
	}
	if identity.InGroup(u, user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil
	}
	var reasons []string
	decision, reason, err := a.node.Authorize(ctx, attrs)
	if decision == authorizer.DecisionAllow {
		return decision, reason, nil
	}
	reasons = appendNonEmpty(reasons, reason)
	decision, reason, rbacErr := a.RBAC.Authorize(ctx, attrs)
	if decision == authorizer.DecisionAllow {
		return decision, reason, nil
	}
	reasons = appendNonEmpty(reasons, reason)
	reasons = appendNonEmpty(reasons, a.explain(ctx, attrs))
	return authorizer.DecisionNoOpinion, strings.Join(reasons, "; "), errors.Join(err, rbacErr)
}

// explain asks for more about a refused write, on behalf of those who may read
// the object: to others it says nothing, not even that the object exists.
func (a *Authorizer) explain(ctx context.Context, attrs authorizer.Attributes) string {
	if a.cfg.Explain == nil || attrs.IsReadOnly() || !attrs.IsResourceRequest() {
		return ""
	}
	decision, _, err := a.RBAC.Authorize(ctx, authorizer.AttributesRecord{
		User: attrs.GetUser(), Verb: "get", Namespace: attrs.GetNamespace(), Name: attrs.GetName(),
		APIGroup: attrs.GetAPIGroup(), APIVersion: attrs.GetAPIVersion(), Resource: attrs.GetResource(), ResourceRequest: true,
	})
	if err != nil || decision != authorizer.DecisionAllow {
		return ""
	}
	return a.cfg.Explain(attrs)
}

// RulesFor answers a SelfSubjectRulesReview.
func (a *Authorizer) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	resource, nonResource, incomplete, err := a.RBAC.RulesFor(ctx, u, namespace)
	if identity.InGroup(u, user.SystemPrivilegedGroup) {
		all := []string{"*"}
		resource = append(resource, &authorizer.DefaultResourceRuleInfo{Verbs: all, APIGroups: all, Resources: all})
		nonResource = append(nonResource, &authorizer.DefaultNonResourceRuleInfo{Verbs: all, NonResourceURLs: all})
	}
	if _, ok := identity.NodeName(u); ok {
		incomplete = true // what a node may read depends on its pods
		err = errors.Join(err, errors.New("node authorizer does not support user rule resolution"))
	}
	return resource, nonResource, incomplete, err
}

func appendNonEmpty(list []string, s string) []string {
	if s == "" {
		return list
	}
	return append(list, s)
}
