package abac

import (
	"fmt"

	"k8s.io/apiserver/pkg/authentication/user"
	"sigs.k8s.io/json"
)

const (
	version = "abac.authorization.kubernetes.io/v1beta1"
	kind    = "Policy"
)

// decode reads one line. As upstream, fields that are not known are left out,
// and names of fields are told apart by case.
func decode(line []byte) (p Policy, versioned bool, err error) {
	var head struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
		Spec       Policy `json:"spec"`
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(line, &head); err != nil {
		return p, false, fmt.Errorf("decode policy: %w", err)
	}
	switch {
	case head.APIVersion == version && head.Kind == kind:
		return head.Spec.normal(), true, nil
	case head.APIVersion != "" && head.Kind != "":
		return p, false, fmt.Errorf("decode policy: no kind %q is registered for version %q", head.Kind, head.APIVersion)
	}
	if err := json.UnmarshalCaseSensitivePreserveInts(line, &p); err != nil {
		return p, false, fmt.Errorf("decode policy: %w", err)
	}
	return p.migrated(), false, nil
}

// normal takes "*" for everybody who is known, not for strangers as well.
func (p Policy) normal() Policy {
	if p.User == "*" || p.Group == "*" {
		p.User, p.Group = "", user.AllAuthenticated
	}
	return p
}

// migrated gives a line without a version its meaning: what it leaves out is
// everything.
func (p Policy) migrated() Policy {
	if p.User == "" && p.Group == "" {
		p.Group = user.AllAuthenticated
	}
	p.APIGroup, p.NonResourcePath = "*", ""
	if p.Namespace == "" && p.Resource == "" {
		p.NonResourcePath = "*"
	}
	if p.Namespace == "" {
		p.Namespace = "*"
	}
	if p.Resource == "" {
		p.Resource = "*"
	}
	return p.normal()
}
