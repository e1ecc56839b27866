package reconciler

import (
	"context"
	"errors"
	"slices"

	"github.com/writ-os/writ/reconciler/apply"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
)

// Preview is what the reconciler would do with a commit, decided by the code
// that does it, the server's own admission included. Nothing is stored. It may
// be called at any time and from any goroutine; the built-in remote asks before
// it accepts a push. src has the commit; it is not the followed one before the
// push is accepted.
func (r *Reconciler) Preview(ctx context.Context, src Source, c Commit) (*plan.Plan, error) {
	e := &entry{}
	if findings, err := r.verify(ctx, src, c, e); err != nil || len(findings) > 0 {
		return &plan.Plan{Findings: findings}, err
	}
	t, err := src.Tree(c.SHA)
	if err != nil {
		return nil, wrap("read tree", err)
	}
	w := r.world()
	w.touched = func() ([]render.Ref, bool) {
		out, ok := r.watch.touched()
		if open := r.open.Load(); open != nil {
			out = append(out, *open...)
		}
		return out, ok
	}
	p, ev, err := r.eval.plan(ctx, t, c, w, false)
	if err == nil && len(p.Findings) > 0 {
		p.Findings, err = r.withDenied(ctx, w, ev, p.Findings)
		return p, err
	}
	if err != nil {
		return p, err
	}
	if p.Findings = r.allow(p, e); len(p.Findings) > 0 {
		return p, nil
	}
	now := *p
	now.Ops = slices.Clone(p.Ops)
	plan.Gate(&now, ev.gated(), r.healthy, r.served) // what waits is judged when its turn comes
	err = apply.Try(ctx, r.cfg.Client, &now)
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
