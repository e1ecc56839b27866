// Package node decides the requests of nodes: a node may read what the pods
// that are bound to it and the registries of its NodePool need, and write about
// itself and those pods. It is Kubernetes' Node authorizer, answered from the
// cache's index of pods by node instead of a graph of its own.
//
// It watches nothing and owns nothing. What a node writes into objects that it
// may write is checked at admission (NodeRestriction).
package node

import (
	"context"
	"errors"
	"fmt"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/auth/rbac"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// LeaseNamespace holds the leases of nodes.
const LeaseNamespace = "kube-node-lease"

// silent is a refusal for which upstream gives no reason.
const silent = "\x00"

// Authorizer decides requests of nodes and has no opinion on others.
type Authorizer struct {
	cache client.Cache
	rules []rbacv1.PolicyRule
}

var (
	_ authorizer.Authorizer   = (*Authorizer)(nil)
	_ authorizer.RuleResolver = (*Authorizer)(nil)
)

// New returns an authorizer. The rules hold for every node alike, where
// access is not divided by what runs on it.
func New(cache client.Cache, rules []rbacv1.PolicyRule) *Authorizer {
	return &Authorizer{cache: cache, rules: rules}
}

// Authorize decides one request.
func (a *Authorizer) Authorize(_ context.Context, attrs authorizer.Attributes) (authorizer.Decision, string, error) {
	node, ok := identity.NodeName(attrs.GetUser())
	if !ok {
		return authorizer.DecisionNoOpinion, "", nil
	}
	refusal, divided := a.divided(node, attrs)
	switch {
	case divided && refusal == "":
		return authorizer.DecisionAllow, "", nil
	case divided && refusal == silent:
		return authorizer.DecisionNoOpinion, "", nil
	case divided:
		return authorizer.DecisionNoOpinion, refusal, nil
	case rbac.RulesAllow(attrs, a.rules):
		return authorizer.DecisionAllow, "", nil
	}
	return authorizer.DecisionNoOpinion, "", nil
}

// RulesFor says that the rules of a node cannot be listed: they depend on what
// runs on it.
func (a *Authorizer) RulesFor(_ context.Context, u user.Info, _ string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	if _, ok := identity.NodeName(u); ok {
		return nil, nil, true, errors.New("node authorizer does not support user rule resolution")
	}
	return nil, nil, false, nil
}

// divided decides about resources where a node sees its share only. The text
// says why not.
func (a *Authorizer) divided(node string, attrs authorizer.Attributes) (refusal string, ok bool) {
	if !attrs.IsResourceRequest() {
		return "", false
	}
	switch group, resource := attrs.GetAPIGroup(), attrs.GetResource(); {
	case group == "" && resource == "secrets":
		return a.read(node, aSecret, attrs), true
	case group == "" && resource == "configmaps":
		return a.read(node, aConfigMap, attrs), true
	case group == "" && resource == "persistentvolumeclaims":
		return a.claim(node, attrs), true
	case group == "" && resource == "persistentvolumes":
		return a.volume(node, attrs), true
	case group == "" && resource == "serviceaccounts":
		return a.serviceAccount(node, attrs), true
	case group == "" && resource == "pods":
		return a.pod(node, attrs), true
	case group == "" && resource == "nodes":
		return nodeObject(attrs), true
	case group == "coordination.k8s.io" && resource == "leases":
		return lease(node, attrs), true
	case group == "storage.k8s.io" && resource == "csinodes":
		return csiNode(node, attrs), true
	case group == "storage.k8s.io" && resource == "volumeattachments":
		return a.attachment(node, attrs), true
	case group == "resource.k8s.io" && resource == "resourceclaims":
		return a.single(node, aResourceClaim, attrs), true
	case group == "resource.k8s.io" && resource == "resourceslices":
		return a.slice(node, attrs), true
	}
	return "", false
}

func (a *Authorizer) read(node string, t thing, attrs authorizer.Attributes) string {
	switch {
	case !oneOf(attrs.GetVerb(), "get", "list", "watch"):
		return "can only read resources of this type"
	case attrs.GetSubresource() != "":
		return "cannot read subresource"
	case attrs.GetNamespace() == "":
		return "can only read namespaced object of this type"
	}
	return a.relation(node, t, attrs)
}

func (a *Authorizer) claim(node string, attrs authorizer.Attributes) string {
	if attrs.GetSubresource() == "status" {
		if !oneOf(attrs.GetVerb(), "update", "patch") {
			return "can only get/update/patch this type"
		}
		return a.relation(node, aClaim, attrs)
	}
	return a.single(node, aClaim, attrs)
}

// single lets a node get one object that it is related to.
func (a *Authorizer) single(node string, t thing, attrs authorizer.Attributes) string {
	if refusal := getOnly(attrs); refusal != "" {
		return refusal
	}
	return a.relation(node, t, attrs)
}

func getOnly(attrs authorizer.Attributes) string {
	switch {
	case attrs.GetVerb() != "get":
		return "can only get individual resources of this type"
	case attrs.GetSubresource() != "":
		return "cannot get subresource"
	}
	return ""
}

func (a *Authorizer) volume(node string, attrs authorizer.Attributes) string {
	if refusal := getOnly(attrs); refusal != "" {
		return refusal
	}
	return relatedIf(node, attrs, func() bool { return volumeRelated(a.cache, node, attrs.GetName()) })
}

func (a *Authorizer) serviceAccount(node string, attrs authorizer.Attributes) string {
	if attrs.GetVerb() == "get" && attrs.GetSubresource() == "" {
		return a.relation(node, aServiceAccount, attrs)
	}
	switch {
	case attrs.GetVerb() != "create" || attrs.GetName() == "":
		return "can only create tokens for individual service accounts"
	case attrs.GetSubresource() != "token":
		return "can only create token subresource of serviceaccount"
	}
	return a.relation(node, aServiceAccount, attrs)
}

func (a *Authorizer) relation(node string, t thing, attrs authorizer.Attributes) string {
	return relatedIf(node, attrs, func() bool {
		key := schema.Key{Namespace: attrs.GetNamespace(), Name: attrs.GetName()}
		return related(a.cache, node, t, key) || t == aSecret && (volumeSecret(a.cache, node, key) || poolSecret(a.cache, node, key))
	})
}

// relatedIf turns whether an object belongs to a node into a refusal.
func relatedIf(node string, attrs authorizer.Attributes, is func() bool) string {
	switch {
	case attrs.GetName() == "":
		return "No Object name found"
	case !is():
		return unrelated(node)
	}
	return ""
}

func unrelated(node string) string {
	return fmt.Sprintf("no relationship found between node '%s' and this object", node)
}

func oneOf(s string, list ...string) bool {
	for _, l := range list {
		if s == l {
			return true
		}
	}
	return false
}
