package fairness

import (
	"slices"
	"strings"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/authentication/serviceaccount"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// order sorts FlowSchemas as they are asked: by precedence, then by name.
func order(schemas []*flowcontrolv1.FlowSchema) []*flowcontrolv1.FlowSchema {
	schemas = slices.Clone(schemas)
	slices.SortFunc(schemas, func(a, b *flowcontrolv1.FlowSchema) int {
		if d := a.Spec.MatchingPrecedence - b.Spec.MatchingPrecedence; d != 0 {
			return int(d)
		}
		return strings.Compare(a.Name, b.Name)
	})
	return schemas
}

// classify returns the first schema that matches a request. Without any, which
// the mandatory schemas rule out, it is the catch-all.
func classify(ordered []*flowcontrolv1.FlowSchema, a authorizer.Attributes) *flowcontrolv1.FlowSchema {
	for _, s := range ordered {
		if slices.ContainsFunc(s.Spec.Rules, func(r flowcontrolv1.PolicyRulesWithSubjects) bool { return matches(&r, a) }) {
			return s
		}
	}
	return bootstrap.MandatoryFlowSchemaCatchAll
}

// flow is what the requests of a schema are told apart by.
func flow(s *flowcontrolv1.FlowSchema, a authorizer.Attributes) string {
	if s.Spec.DistinguisherMethod == nil {
		return ""
	}
	switch s.Spec.DistinguisherMethod.Type {
	case flowcontrolv1.FlowDistinguisherMethodByUserType:
		return a.GetUser().GetName()
	case flowcontrolv1.FlowDistinguisherMethodByNamespaceType:
		return a.GetNamespace()
	}
	return ""
}

func matches(r *flowcontrolv1.PolicyRulesWithSubjects, a authorizer.Attributes) bool {
	if !slices.ContainsFunc(r.Subjects, func(s flowcontrolv1.Subject) bool { return isSubject(&s, a) }) {
		return false
	}
	if a.IsResourceRequest() {
		return slices.ContainsFunc(r.ResourceRules, func(r flowcontrolv1.ResourcePolicyRule) bool { return isResource(&r, a) })
	}
	return slices.ContainsFunc(r.NonResourceRules, func(r flowcontrolv1.NonResourcePolicyRule) bool {
		return has(r.Verbs, a.GetVerb()) && slices.ContainsFunc(r.NonResourceURLs, func(u string) bool { return isURL(u, a.GetPath()) })
	})
}

func isSubject(s *flowcontrolv1.Subject, a authorizer.Attributes) bool {
	u := a.GetUser()
	switch {
	case s.Kind == flowcontrolv1.SubjectKindUser && s.User != nil:
		return s.User.Name == flowcontrolv1.NameAll || s.User.Name == u.GetName()
	case s.Kind == flowcontrolv1.SubjectKindGroup && s.Group != nil:
		return s.Group.Name == flowcontrolv1.NameAll || slices.Contains(u.GetGroups(), s.Group.Name)
	case s.Kind == flowcontrolv1.SubjectKindServiceAccount && s.ServiceAccount != nil:
		if s.ServiceAccount.Name != flowcontrolv1.NameAll {
			return serviceaccount.MatchesUsername(s.ServiceAccount.Namespace, s.ServiceAccount.Name, u.GetName())
		}
		ns, _, err := serviceaccount.SplitUsername(u.GetName())
		return err == nil && ns == s.ServiceAccount.Namespace
	}
	return false
}

func isResource(r *flowcontrolv1.ResourcePolicyRule, a authorizer.Attributes) bool {
	resource := a.GetResource()
	if sub := a.GetSubresource(); sub != "" {
		resource += "/" + sub
	}
	if !has(r.Verbs, a.GetVerb()) || !has(r.APIGroups, a.GetAPIGroup()) || !has(r.Resources, resource) {
		return false
	}
	if a.GetNamespace() == "" {
		return r.ClusterScope
	}
	return has(r.Namespaces, a.GetNamespace())
}

func has(list []string, want string) bool {
	return slices.Contains(list, "*") || slices.Contains(list, want)
}

// isURL matches a path with "*", "/healthz" or "/healthz/*".
func isURL(rule, path string) bool {
	if rule == "*" || rule == path {
		return true
	}
	prefix, ok := strings.CutSuffix(rule, "*")
	return ok && strings.HasPrefix(path, prefix)
}
