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

// same says whether a unit was held against the same as now. One that depends
// on custom kinds may have been judged with those of the commit, which the
// first pass does not know yet.
func (j judge) same(c *checked) bool {
	return c.policies == j.policies.Hash() && (!c.isCustom() || c.kinds == j.kinds.hash)
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

// check renders and validates one unit, and holds it against the policies.
func check(ctx context.Context, u *render.Unit, j judge, keep bool) (*checked, error) {
	out, err := render.Render(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", u.Path, err)
	}
	c := &checked{hash: u.Hash, policies: j.policies.Hash(), kinds: j.kinds.hash, findings: out.Findings,
		heads: make([]render.Head, len(out.Manifests)), definitions: definitionsIn(out.Manifests)}
	for _, f := range out.Findings {
		c.unknown = c.unknown || f.Rule == "UnknownKind"
	}
	if keep {
		c.fields = make([][]byte, len(out.Manifests))
	}
	for i := range out.Manifests {
		m := &out.Manifests[i]
		c.heads[i] = m.Head
		if m.Resource.Custom != nil {
			c.findings = append(c.findings, validate.Custom(ctx, m, j.kinds.rules(m.Resource))...)
		} else {
			c.findings = append(c.findings, validate.Manifest(m)...)
		}
		if keep {
			c.fields[i] = m.JSON
		}
	}
	told, err := j.policies.Check(ctx, out.Manifests)
	if err != nil {
		return nil, fmt.Errorf("check policies of %s: %w", u.Path, err)
	}
	c.findings, c.warnings = out.Redact(append(c.findings, told.Refused...)), out.Redact(told.Warned)
	return c, nil
}
