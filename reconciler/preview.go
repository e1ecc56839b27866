package reconciler

import (
	"context"
	"errors"

	"github.com/writ-os/writ/reconciler/apply"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
)

// Preview is what the reconciler would do with a commit, decided by the code
// that does it, the server's own admission included. Nothing is stored. It may
// be called at any time and from any goroutine; the built-in remote asks before
// it accepts a push.
func (r *Reconciler) Preview(ctx context.Context, t render.Tree, c Commit) (*plan.Plan, error) {
	p, ev, err := r.eval.plan(ctx, t, c, r.world(), false)
	if err != nil || len(p.Findings) > 0 {
		return p, err
	}
	err = apply.Try(ctx, r.cfg.Client, p)
	var refused *apply.Refused
	switch {
	case errors.As(err, &refused):
		ev.locate(ctx, refused.Findings)
		p.Findings = refused.Findings
		return p, nil
	case errors.Is(err, apply.ErrConflict):
		return p, nil // it is planned again when it is applied
	}
	return p, err
}
