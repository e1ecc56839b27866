package reconciler

import (
	"context"
	"errors"
	"slices"

	"github.com/writ-os/writ/reconciler/apply"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/validate"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// withDenied adds to the findings of a commit what the server's admission has
// against its other objects: policies, quotas, webhooks. All mistakes of a
// commit are said at once, and those of one kind must not hide the others.
//
// The server is asked of the objects that the commit changes and that have no
// finding themselves; nothing is stored. What it cannot say for want of an
// object with a finding, it says when that is mended.
func (r *Reconciler) withDenied(ctx context.Context, w World, ev *evaluation, findings []v1alpha1.Finding) ([]v1alpha1.Finding, error) {
	if ev == nil || ev.scan == nil || slices.ContainsFunc(findings, truncated) {
		return findings, nil
	}
	units, err := ev.spotless(ctx, w, findings)
	if err != nil || len(units) == 0 {
		return findings, err
	}
	p := plan.Drift(plan.Input{Repository: w.Repository, Units: units, Before: r.eval.open.inventories(w), Live: w.Live, Kinds: w.Kinds,
		Priorities: w.Priorities, Ignore: w.Spec.Ignore})
	plan.Gate(p, nil, r.healthy, r.served)
	p.Ops = slices.DeleteFunc(p.Ops, func(o plan.Op) bool { return !housed(&o, p, w) })
	var refused *apply.Refused
	if err := apply.Try(ctx, r.cfg.Client, p); !errors.As(err, &refused) {
		return findings, nil // it is asked again when the findings are mended
	}
	ev.locate(ctx, refused.Findings)
	return validate.Sort(slices.Concat(findings, refused.Findings)), nil
}

// spotless are the objects of changed units that no finding is about.
func (ev *evaluation) spotless(ctx context.Context, w World, findings []v1alpha1.Finding) ([]plan.Unit, error) {
	before := ev.by.open.inventories(w)
	objects, units := map[string]bool{}, map[string]bool{}
	for i := range findings {
		f := &findings[i]
		if f.Object == "" {
			units[ev.unitOf(f.File)] = true
			continue
		}
		objects[f.Object] = true
	}
	var changed []*unit
	for u := range ev.units.All() {
		if inv := before.Unit(u.Path); !units[u.Path] && (inv == nil || inv.Spec.Blob != u.Hash) {
			changed = append(changed, u)
		}
	}
	if err := ev.load(ctx, changed...); err != nil {
		return nil, err
	}
	out := make([]plan.Unit, 0, len(changed))
	for _, u := range changed {
		d := u.desired(ev.fields(u))
		d.Objects = slices.DeleteFunc(d.Objects, func(o plan.Desired) bool { return objects[o.Object()] })
		if len(d.Objects) > 0 {
			out = append(out, d)
		}
	}
	return out, nil
}

// housed says whether an object has its namespace in the plan or the cluster.
func housed(o *plan.Op, p *plan.Plan, w World) bool {
	if !o.Resource.Namespaced || validate.Everywhere(o.Key.Namespace) || namespaceExists(w.Live)(o.Key.Namespace) {
		return true
	}
	ns := render.Ref{Resource: schema.ByGVK(render.NamespaceKind), Key: schema.Key{Name: o.Key.Namespace}}
	return slices.ContainsFunc(p.Ops, func(other plan.Op) bool { return other.Ref == ns })
}
