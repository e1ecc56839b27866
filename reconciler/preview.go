package reconciler

import (
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/apply"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema/v1alpha1"
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
	return p, r.try(ctx, p, ev)
}

// try has the server's admission judge a plan, and notes what it refuses. What
// waits for others is judged with all that it waits for: the branch must not
// move for what will be refused when its turn comes.
func (r *Reconciler) try(ctx context.Context, p *plan.Plan, ev *evaluation) error {
	now := *p
	now.Ops = slices.Clone(p.Ops)
	held := plan.Gate(&now, ev.gated(), r.healthy, r.served)
	refused, err := tried(ctx, r.cfg.Client, &now)
	if err == nil && len(refused) == 0 && len(held) > 0 {
		later := map[string]bool{}
		whole := *p
		unknown := map[render.Ref]bool{}
		of := ofUnserved(held)
		for _, h := range of {
			unknown[h.Ref] = true
		}
		whole.Ops = slices.DeleteFunc(slices.Clone(p.Ops), func(o plan.Op) bool { return unknown[o.Ref] })
		for i := range held {
			later[held[i].Ref.String()] = true
		}
		// What goes wrong otherwise may not when its turn has come.
		refused, _ = tried(ctx, r.cfg.Client, &whole)
		refused = slices.DeleteFunc(refused, func(f v1alpha1.Finding) bool { return !later[f.Object] || mayComeTrue(f) })
		refused = append(refused, plan.OverQuota(p, of, r.cfg.Client.Cache())...)
	}
	if len(refused) > 0 {
		ev.locate(ctx, refused)
		p.Findings = refused
	}
	return err
}

// unserved says whether an object waits for the definition of its own kind.
func unserved(ref render.Ref, why string) bool {
	return ref.Resource.Custom != nil && strings.HasPrefix(why, plan.Definition)
}

// ofUnserved are those that wait for it.
func ofUnserved(held []plan.Held) []plan.Held {
	return slices.DeleteFunc(slices.Clone(held), func(h plan.Held) bool { return !unserved(h.Ref, h.For) })
}

// mayComeTrue says whether a refusal is about an object that a controller makes
// of what was there before.
func mayComeTrue(f v1alpha1.Finding) bool {
	return f.Rule == "NotFound" || strings.Contains(f.Message, "not found")
}

// tried are the findings of the server about a plan. A plan that others have
// overtaken has none: it is made again when it is applied.
func tried(ctx context.Context, c client.Backend, p *plan.Plan) ([]v1alpha1.Finding, error) {
	err := apply.Try(ctx, c, p)
	var refused *apply.Refused
	switch {
	case errors.As(err, &refused):
		return refused.Findings, nil
	case errors.Is(err, apply.ErrConflict):
		return nil, nil
	}
	return nil, err
}
