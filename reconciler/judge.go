package reconciler

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/reconciler/policy"
	"github.com/writ-os/writ/reconciler/reference"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/reconciler/validate"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/podstandard"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// judge is what units are held against besides the definitions of their kinds.
type judge struct {
	policies *policy.Set
	kinds    *kinds
	security *podstandard.Judge
}

// rules reads the policies of a tree, or remembers them.
func (e *evaluator) rules(ctx context.Context, t render.Tree, s *sandbox.Sandbox) (*policy.Set, []v1alpha1.Finding, error) {
	e.mu.Lock()
	known, complaints := e.policies, e.complain
	e.mu.Unlock()
	set, findings, err := policy.Reload(ctx, t, s, known, complaints)
	if err != nil {
		return nil, nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.policies, e.complain = set, findings
	return set, findings, nil
}

// healthRules reads the health rules of a tree, or remembers them.
func (e *evaluator) healthRules(ctx context.Context, t render.Tree, s *sandbox.Sandbox) (*health.Rules, []v1alpha1.Finding, error) {
	e.mu.Lock()
	known, wrong := e.health, e.unwell
	e.mu.Unlock()
	rules, findings, err := health.Reload(ctx, t, s, known, wrong)
	if err != nil {
		return nil, nil, err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.health, e.unwell = rules, findings
	return rules, findings, nil
}

// seen is what became of a unit, and what of it the policies have not answered.
type seen struct {
	*checked
	json   [][]byte // of the manifests; nil: nobody wants it
	open   *policy.Open
	redact func([]v1alpha1.Finding) []v1alpha1.Finding
}

// check renders and validates one unit, and holds it against the policies as
// far as that can be done here.
func check(ctx context.Context, scan *render.Scanned, u *render.Unit, j judge) (*seen, error) {
	out, err := scan.Render(ctx, u)
	if err != nil {
		return nil, fmt.Errorf("render %s: %w", u.Path, err)
	}
	c := &checked{policies: j.policies.Hash(), kinds: j.kinds.hash, findings: out.Findings, warnings: out.Warnings,
		heads: make([]render.Head, len(out.Manifests)), definitions: definitionsIn(out.Manifests)}
	for _, f := range out.Findings {
		c.unknown = c.unknown || f.Rule == "UnknownKind"
	}
	json := make([][]byte, len(out.Manifests))
	for i := range out.Manifests {
		m := &out.Manifests[i]
		c.heads[i], json[i] = m.Head, validate.Applied(m)
		if m.Resource.Kind == "Namespace" && m.Resource.Custom == nil {
			c.spaces = append(c.spaces, space{m.Ref, labelsOf(m)})
		}
		if f := reference.Of(m); f != nil {
			if c.facts == nil {
				c.facts = make([]*reference.Facts, len(out.Manifests))
			}
			c.facts[i] = f
		}
		if keys := reference.Keys(m); keys != "" {
			if c.keys == nil {
				c.keys = make([]string, len(out.Manifests))
			}
			c.keys[i] = keys
		}
		if m.Resource.Custom != nil {
			c.findings = append(c.findings, validate.Custom(ctx, m, j.kinds.rules(m.Resource))...)
		} else {
			found := validate.Manifest(m)
			o := validate.Decode(m)
			refused, warned := validate.Typed(m, o, found)
			c.findings, c.warnings = append(append(c.findings, found...), refused...), append(c.warnings, warned...)
			c.judgeSecurity(i, m, o, j.security, out.Redact)
		}
	}
	for i := range out.Manifests {
		for _, f := range validate.Keys(&out.Manifests[i]) {
			j.weigh(f, &out.Manifests[i].Head, c)
		}
	}
	for _, f := range out.Plain {
		h := headAt(c.heads, f)
		f.Object = h.Object()
		j.weigh(f, h, c)
	}
	c.findings, c.warnings = out.Redact(c.findings), out.Redact(c.warnings)
	s := &seen{checked: c, json: json, open: j.policies.Open(out.Manifests)}
	if s.open != nil {
		out.Manifests = nil // what is held until all are asked is small
		s.redact = out.Redact
	}
	return s, nil
}

// weigh takes a finding as the owner of the repository wants it to be taken.
func (j judge) weigh(f v1alpha1.Finding, h *render.Head, c *checked) {
	switch j.policies.Severity(f.Rule, h, policy.Refuse) {
	case policy.Refuse:
		c.findings = append(c.findings, f)
	case policy.Warn:
		c.warnings = append(c.warnings, f)
	}
}

// headAt is the Secret that a finding is in.
func headAt(heads []render.Head, f v1alpha1.Finding) *render.Head {
	out := &render.Head{Ref: render.Ref{Resource: schema.ResourceFor[*corev1.Secret]()}, File: f.File}
	for i := range heads {
		if h := &heads[i]; h.File == f.File && h.Line <= f.Line && h.Line >= out.Line && h.Resource == out.Resource {
			out = h
		}
	}
	return out
}

// ask has the policies answer what is open of some units, in one turn.
func (j judge) ask(ctx context.Context, units []*seen) error {
	units = slices.DeleteFunc(slices.Clone(units), func(u *seen) bool { return u.open == nil })
	open := make([]*policy.Open, len(units))
	for i, u := range units {
		open[i] = u.open
	}
	told, err := j.policies.Check(ctx, open)
	if err != nil {
		return err
	}
	for i, u := range units {
		u.findings, u.warnings = append(u.findings, u.redact(told[i].Refused)...), append(u.warnings, u.redact(told[i].Warned)...)
		u.open, u.redact = nil, nil
	}
	return nil
}
