package policy

import (
	"context"

	"errors"
	"fmt"
	"path"
	"time"

	"github.com/writ-os/writ/reconciler/cuerule"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// loadTimeout bounds reading the rules of one tree.
const loadTimeout = 10 * time.Second

// Set is the policies of one tree, as far as the server knows them. It never
// changes and may be used by several goroutines. nil is the set of no rules.
type Set struct {
	sources render.RuleSources
	rules   []rule
	weights []weight
	sandbox *sandbox.Sandbox
	limit   time.Duration // of a check
}

// rule is what the server knows of a rule: which objects it means, and what
// certainly keeps it. All else is known in the child.
type rule struct {
	cuerule.Rule
	PodSpec bool
	Quick   *accept // nil: CUE decides alone
}

// Load reads the policies of a tree, in a child, and what is wrong with them.
// The error is that of a tree that cannot be read, or of a child that cannot be
// started.
func Load(ctx context.Context, t render.Tree, s *sandbox.Sandbox) (*Set, []v1alpha1.Finding, error) {
	return Reload(ctx, t, s, nil, nil)
}

// Reload is Load where the policies may be those of an earlier tree, with what
// was wrong with them.
func Reload(ctx context.Context, t render.Tree, s *sandbox.Sandbox, before *Set, wrong []v1alpha1.Finding) (*Set, []v1alpha1.Finding, error) {
	files, err := render.Policies(t)
	if err != nil || files.Hash == "" {
		return nil, files.Findings, err
	}
	if before.Hash() == files.Hash {
		return before, wrong, nil
	}
	set := &Set{sandbox: s, limit: checkTimeout}
	if set.sources, err = files.Read(); err != nil {
		return nil, nil, err
	}
	got, err := sandbox.Call(ctx, s, loadThere, set.sources, loadTimeout)
	var death *sandbox.Death
	switch {
	case errors.As(err, &death):
		f := render.Died("folder of policies", err)
		f.File = path.Clean(set.sources.Dirs[0])
		got = loaded{Findings: []v1alpha1.Finding{f}}
	case err != nil:
		return nil, nil, fmt.Errorf("load policies: %w", err)
	}
	findings := append(files.Findings, got.Findings...)
	if len(got.Rules) > cuerule.Max {
		findings = append(findings, v1alpha1.Finding{File: render.PolicyFolder, Rule: "TooLarge", Message: fmt.Sprintf("there are more than %d rules", cuerule.Max)})
		got.Rules = got.Rules[:cuerule.Max]
	}
	for i := range got.Rules {
		if r := &got.Rules[i]; r.Quick != nil && !r.Quick.ready(0) {
			r.Quick = nil
		}
	}
	set.rules, set.weights = got.Rules, got.Weights
	return set, findings, nil
}

// Hash changes when a policy does; "" when there is none.
func (s *Set) Hash() string {
	if s == nil {
		return ""
	}
	return s.sources.Hash
}
