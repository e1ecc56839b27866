package rbac

import (
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// RuleAllows says whether one rule grants a request.
func RuleAllows(a authorizer.Attributes, rule *rbacv1.PolicyRule) bool {
	if !hasOrAll(rule.Verbs, a.GetVerb()) {
		return false
	}
	if !a.IsResourceRequest() {
		return slices.ContainsFunc(rule.NonResourceURLs, func(p string) bool { return pathMatches(p, a.GetPath()) })
	}
	return hasOrAll(rule.APIGroups, a.GetAPIGroup()) &&
		slices.ContainsFunc(rule.Resources, func(r string) bool { return resourceMatches(r, a.GetResource(), a.GetSubresource()) }) &&
		(len(rule.ResourceNames) == 0 || slices.Contains(rule.ResourceNames, a.GetName()))
}

// RulesAllow says whether any of the rules grants a request.
func RulesAllow(a authorizer.Attributes, rules []rbacv1.PolicyRule) bool {
	for i := range rules {
		if RuleAllows(a, &rules[i]) {
			return true
		}
	}
	return false
}

func hasOrAll(list []string, s string) bool {
	for _, l := range list {
		if l == "*" || l == s {
			return true
		}
	}
	return false
}

// resourceMatches knows "*", "pods", "pods/log" and "*/scale".
func resourceMatches(rule, resource, sub string) bool {
	if rule == rbacv1.ResourceAll {
		return true
	}
	if sub == "" {
		return rule == resource
	}
	parent, ruleSub, ok := strings.Cut(rule, "/")
	return ok && ruleSub == sub && (parent == "*" || parent == resource)
}

// pathMatches knows "*", "/healthz" and "/healthz/*".
func pathMatches(rule, path string) bool {
	if prefix, ok := strings.CutSuffix(rule, "*"); ok && strings.HasPrefix(path, prefix) {
		return true
	}
	return rule == path
}
