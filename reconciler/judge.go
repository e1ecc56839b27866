package reconciler

import (
	"context"
	"fmt"

	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/reconciler/policy"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/validate"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// judge is what units are held against besides the definitions of their kinds.
type judge struct {
	policies *policy.Set
	kinds    *kinds
}

// rules reads the policies of a tree, or remembers them.
func (e *evaluator) rules(t render.Tree) (*policy.Set, []v1alpha1.Finding, error) {
	e.mu.Lock()
	known, complaints := e.policies, e.complain
	e.mu.Unlock()
	set, findings, err := policy.Reload(t, known, complaints)
	if err != nil {
		return nil, nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.policies, e.complain = set, findings
	return set, findings, nil
}

// healthRules reads the health rules of a tree, or remembers them.
func (e *evaluator) healthRules(t render.Tree) (*health.Rules, []v1alpha1.Finding, error) {
	e.mu.Lock()
	known, wrong := e.health, e.unwell
	e.mu.Unlock()
	rules, findings, err := health.Reload(t, known, wrong)
	if err != nil {
		return nil, nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.health, e.unwell = rules, findings
	return rules, findings, nil
}

// check renders and validates one unit, and holds it against the policies. It
// returns the JSON of the manifests too.
func check(ctx context.Context, scan *render.Scanned, u *render.Unit, j judge) (*checked, [][]byte, error) {
	out, err := scan.Render(ctx, u)
	if err != nil {
		return nil, nil, fmt.Errorf("render %s: %w", u.Path, err)
	}
	c := &checked{policies: j.policies.Hash(), kinds: j.kinds.hash, findings: out.Findings,
		heads: make([]render.Head, len(out.Manifests)), definitions: definitionsIn(out.Manifests)}
	for _, f := range out.Findings {
		c.unknown = c.unknown || f.Rule == "UnknownKind"
	}
	json := make([][]byte, len(out.Manifests))
	for i := range out.Manifests {
		m := &out.Manifests[i]
		c.heads[i], json[i] = m.Head, m.JSON
		if m.Resource.Custom != nil {
			c.findings = append(c.findings, validate.Custom(ctx, m, j.kinds.rules(m.Resource))...)
		} else {
			c.findings = append(c.findings, validate.Manifest(m)...)
		}
	}
	told, err := j.policies.Check(ctx, out.Manifests)
	if err != nil {
		return nil, nil, fmt.Errorf("check policies of %s: %w", u.Path, err)
	}
	c.findings, c.warnings = out.Redact(append(c.findings, told.Refused...)), out.Redact(told.Warned)
	return c, json, nil
}
