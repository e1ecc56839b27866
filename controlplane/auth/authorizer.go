package auth

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"

	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/node"
	"github.com/writ-os/writ/controlplane/auth/policy"
	"github.com/writ-os/writ/controlplane/auth/rbac"
	"github.com/writ-os/writ/controlplane/client"
)

// AuthorizerConfig is what authorization needs.
type AuthorizerConfig struct {
	Cache client.Cache
	// Chain is who is asked, in order (Authorization.Open). Default: Node, RBAC.
	Chain []Member
	// Explain, if set, adds to the refusal of a write what else there is to say
	// about the object: where Git declares it. "" adds nothing.
	Explain func(authorizer.Attributes) string
}

// Member is one authorizer of the chain.
type Member struct {
	// Mode is one of the Mode constants.
	Mode string
	// Decider is for ModeABAC and ModeWebhook; the other modes have their own.
	Decider Decider
}

// Decider decides requests and lists rules.
type Decider interface {
	authorizer.Authorizer
	authorizer.RuleResolver
}

// Authorizer asks its members in turn, after letting system:masters pass. The
// first that allows or denies wins; with no opinion at all the request is
// refused, for all the reasons that were given.
type Authorizer struct {
	cfg   AuthorizerConfig
	chain atomic.Pointer[[]Decider]
	node  *node.Authorizer // made when it is first in the chain
	// RBAC answers for roles alone: who has which rules. It is there, and has to
	// run, also when RBAC is not in the chain: escalation checks ask it.
	RBAC *rbac.Authorizer
}

var _ Decider = (*Authorizer)(nil)

// NewAuthorizer returns the authorizer of the server; it starts nothing.
func NewAuthorizer(cfg AuthorizerConfig) *Authorizer {
	if len(cfg.Chain) == 0 {
		cfg.Chain = []Member{{Mode: ModeNode}, {Mode: ModeRBAC}}
	}
	a := &Authorizer{cfg: cfg, RBAC: rbac.New(cfg.Cache)}
	a.SetChain(cfg.Chain)
	return a
}

// SetChain replaces who is asked. Requests that are being decided go on with
// those of before. It must not be called from several goroutines at once.
func (a *Authorizer) SetChain(members []Member) {
	var chain []Decider
	for _, m := range members {
		switch m.Mode {
		case ModeNode:
			if a.node == nil {
				a.node = node.New(a.cfg.Cache, policy.NodeRules())
			}
			chain = append(chain, a.node)
		case ModeRBAC:
			chain = append(chain, a.RBAC)
		case ModeAlwaysAllow:
			chain = append(chain, authorizerfactory.NewAlwaysAllowAuthorizer())
		default: // what nobody knows allows nothing
			if m.Decider == nil {
				m.Decider = authorizerfactory.NewAlwaysDenyAuthorizer()
			}
			chain = append(chain, m.Decider)
		}
	}
	a.chain.Store(&chain)
}

// Run follows roles and bindings until ctx ends.
func (a *Authorizer) Run(ctx context.Context) error { return a.RBAC.Run(ctx) }

// Authorize decides one request.
func (a *Authorizer) Authorize(ctx context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	u := attrs.GetUser()
	if u == nil {
		return authorizer.DecisionNoOpinion, "Error", errors.New("no user on request.") //nolint:staticcheck // upstream's words
	}
	if identity.InGroup(u, user.SystemPrivilegedGroup) {
		return authorizer.DecisionAllow, "", nil
	}
	var (
		reasons []string
		errs    []error
	)
	for _, d := range *a.chain.Load() {
		decision, reason, err := d.Authorize(ctx, attrs)
		if decision != authorizer.DecisionNoOpinion {
			return decision, reason, err
		}
		reasons = appendNonEmpty(reasons, reason)
		if err != nil {
			errs = append(errs, err)
		}
	}
	reasons = appendNonEmpty(reasons, a.explain(ctx, attrs))
	return authorizer.DecisionNoOpinion, strings.Join(reasons, "\n"), utilerrors.NewAggregate(errs)
}

// explain asks for more about a refused write, on behalf of those who may read
// the object: to others it says nothing, not even that the object exists.
func (a *Authorizer) explain(ctx context.Context, attrs authorizer.Attributes) string {
	if a.cfg.Explain == nil || attrs.IsReadOnly() || !attrs.IsResourceRequest() {
		return ""
	}
	read := authorizer.AttributesRecord{
		User: attrs.GetUser(), Verb: "get", Namespace: attrs.GetNamespace(), Name: attrs.GetName(),
		APIGroup: attrs.GetAPIGroup(), APIVersion: attrs.GetAPIVersion(), Resource: attrs.GetResource(), ResourceRequest: true,
	}
	decision, _, err := a.RBAC.Authorize(ctx, read)
	if err != nil || decision != authorizer.DecisionAllow {
		return ""
	}
	return a.cfg.Explain(attrs)
}

// RulesFor answers a SelfSubjectRulesReview: the rules of all members that can
// list theirs.
func (a *Authorizer) RulesFor(ctx context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	var (
		resource    []authorizer.ResourceRuleInfo
		nonResource []authorizer.NonResourceRuleInfo
		incomplete  bool
		errs        []error
	)
	for _, d := range *a.chain.Load() {
		r, n, part, err := d.RulesFor(ctx, u, namespace)
		resource, nonResource, incomplete = append(resource, r...), append(nonResource, n...), incomplete || part
		if err != nil {
			errs = append(errs, err)
		}
	}
	return resource, nonResource, incomplete, utilerrors.NewAggregate(errs)
}

func appendNonEmpty(list []string, s string) []string {
	if s == "" {
		return list
	}
	return append(list, s)
}
