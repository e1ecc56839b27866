// Package abac decides by a policy file, one JSON object a line: what
// Kubernetes had before RBAC (--authorization-policy-file). It is off unless a
// file is given, and warns when it is on: only a restart changes it.
//
// It reads its file once and owns nothing. Lines are of
// abac.authorization.kubernetes.io/v1beta1, or older ones without a version.
package abac

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"

	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Policy is one line: who may do what. "*" stands for all; a user or group must
// be given, and where both are, both must fit.
type Policy struct {
	User            string `json:"user,omitempty"`
	Group           string `json:"group,omitempty"`
	Readonly        bool   `json:"readonly,omitempty"`
	APIGroup        string `json:"apiGroup,omitempty"`
	Resource        string `json:"resource,omitempty"`
	Namespace       string `json:"namespace,omitempty"`
	NonResourcePath string `json:"nonResourcePath,omitempty"`
}

// Policies decide in the order of the file.
type Policies []Policy

var (
	_ authorizer.Authorizer   = Policies(nil)
	_ authorizer.RuleResolver = Policies(nil)
)

// Open reads a policy file and warns.
func Open(path string, log *slog.Logger) (Policies, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read policy file: %w", err)
	}
	defer f.Close()
	p, old, err := Read(f)
	if err != nil {
		return nil, fmt.Errorf("read policy file %s: %w", path, err)
	}
	log.Warn("ABAC is on: prefer RBAC, which changes without a restart", "file", path, "policies", len(p), "unversioned", old)
	return p, nil
}

// Read reads policies. Empty lines and those that begin with # are left out.
// old is the number of lines without a version.
func Read(r io.Reader) (p Policies, old int, err error) {
	s := bufio.NewScanner(r)
	for n := 1; s.Scan(); n++ {
		line := strings.TrimSpace(s.Text())
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		policy, versioned, err := decode([]byte(line))
		if err != nil {
			return nil, 0, fmt.Errorf("line %d: %s: %w", n, line, err)
		}
		if !versioned {
			old++
		}
		p = append(p, policy)
	}
	return p, old, s.Err()
}

// Authorize implements authorizer.Authorizer.
func (p Policies) Authorize(_ context.Context, a authorizer.Attributes) (authorizer.Decision, string, error) {
	for i := range p {
		if p[i].isFor(a.GetUser()) && (a.IsReadOnly() || !p[i].Readonly) && p[i].covers(a) {
			return authorizer.DecisionAllow, "", nil
		}
	}
	return authorizer.DecisionNoOpinion, "No policy matched.", nil
}

func (p *Policy) isFor(u user.Info) bool {
	if u == nil || p.User == "" && p.Group == "" {
		return false
	}
	return (p.User == "" || p.User == "*" || p.User == u.GetName()) &&
		(p.Group == "" || p.Group == "*" || slices.Contains(u.GetGroups(), p.Group))
}

func (p *Policy) covers(a authorizer.Attributes) bool {
	if a.IsResourceRequest() {
		return fits(p.Namespace, a.GetNamespace()) && fits(p.Resource, a.GetResource()) && fits(p.APIGroup, a.GetAPIGroup())
	}
	if fits(p.NonResourcePath, a.GetPath()) {
		return true
	}
	return strings.HasSuffix(p.NonResourcePath, "*") && strings.HasPrefix(a.GetPath(), strings.TrimRight(p.NonResourcePath, "*"))
}

func fits(pattern, s string) bool { return pattern == "*" || pattern == s }

// RulesFor implements authorizer.RuleResolver.
func (p Policies) RulesFor(_ context.Context, u user.Info, namespace string) ([]authorizer.ResourceRuleInfo, []authorizer.NonResourceRuleInfo, bool, error) {
	var (
		resource    []authorizer.ResourceRuleInfo
		nonResource []authorizer.NonResourceRuleInfo
	)
	for i := range p {
		if !p[i].isFor(u) || !fits(p[i].Namespace, namespace) {
			continue
		}
		verbs := []string{"*"}
		if p[i].Readonly {
			verbs = []string{"get", "list", "watch"}
		}
		if p[i].Resource != "" {
			resource = append(resource, &authorizer.DefaultResourceRuleInfo{Verbs: verbs, APIGroups: []string{p[i].APIGroup}, Resources: []string{p[i].Resource}})
		}
		if p[i].NonResourcePath != "" {
			nonResource = append(nonResource, &authorizer.DefaultNonResourceRuleInfo{Verbs: verbs, NonResourceURLs: []string{p[i].NonResourcePath}})
		}
	}
	return resource, nonResource, false, nil
}
