package reconciler

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/writ-os/writ/reconciler/apply"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// The words of RepositoryStatus.Drifted: what was put back, what cannot be, and
// what others have set beside what Git declares.
const (
	driftHealed     = "Healed"
	driftStuck      = "Stuck"
	driftUndeclared = "Undeclared"
)

// takesBack says whether Git takes away what others add to declared objects.
func (r *Reconciler) takesBack() bool { return r.spec().Undeclared == v1alpha1.UndeclaredRemove }

// note remembers what others have set on the objects that a plan has compared,
// and has it taken back where the repository says so.
func (r *Reconciler) note(ctx context.Context, p *plan.Plan) {
	for ref, found := range p.Undeclared {
		if delete(r.undeclared, ref); len(found) > 0 {
			r.undeclared[ref] = found
		}
	}
	maps.DeleteFunc(r.undeclared, func(ref render.Ref, _ []plan.Undeclared) bool { return r.current == nil || !r.current.declares(ref) })
	maps.DeleteFunc(r.blocked, func(ref render.Ref, _ string) bool { return r.current == nil || !r.current.declares(ref) })
	if r.takesBack() {
		for ref := range r.undeclared {
			if ref.Resource.Kind != "Pod" {
				r.dirty[ref] = true
			}
		}
	}
	r.tellUndeclared(ctx)
}

// tellUndeclared writes what others have set into the status, if that is news.
func (r *Reconciler) tellUndeclared(ctx context.Context) {
	op, ok := r.repositoryStatus(time.Now(), func(s *v1alpha1.RepositoryStatus) bool {
		next := r.drifts(s.Drifted)
		changed := !slices.Equal(next, s.Drifted)
		s.Drifted = next
		return changed
	})
	if ok {
		r.writeStatus(ctx, op)
	}
}

// drifts is what a Repository names: what cannot be put back, what others have
// set, and after it what was put back.
func (r *Reconciler) drifts(healed []v1alpha1.ObjectHealth) (out []v1alpha1.ObjectHealth) {
	for ref, found := range r.undeclared {
		out = append(out, v1alpha1.ObjectHealth{Object: ref.String(), Health: driftUndeclared, Message: leftOver(found)})
	}
	slices.SortFunc(out, func(a, b v1alpha1.ObjectHealth) int { return strings.Compare(a.Object, b.Object) })
	out = append(r.stuckDrifts(), out...)
	for _, d := range healed {
		if d.Health == driftHealed {
			out = append(out, d)
		}
	}
	return out[:min(len(out), maxDrifted)]
}

// leftOver says in a few words what others have set on an object.
func leftOver(found []plan.Undeclared) string {
	text := "set by others, and not declared: "
	for i := range found {
		if i == 3 {
			return text + ", ..."
		}
		if i > 0 {
			text += ", "
		}
		text += found[i].Text()
	}
	return text
}

// leftovers remembers what others have set, after what has drifted is put back,
// and takes back what is to be.
func (r *Reconciler) leftovers(ctx context.Context, p *plan.Plan, back []plan.Op) error {
	r.note(ctx, p)
	for i := range back {
		delete(r.dirty, back[i].Ref)
	}
	return r.takeBack(ctx, back)
}

// takeBack writes objects without what others have added to them, each by
// itself: one that the server refuses holds up no other.
func (r *Reconciler) takeBack(ctx context.Context, ops []plan.Op) error {
	for i := range ops {
		p := &plan.Plan{Ops: ops[i : i+1 : i+1]}
		out, err := apply.Do(ctx, r.cfg.Client, p, r.drifted(p, nil, time.Now())...)
		var refused *apply.Refused
		switch {
		case errors.Is(err, apply.ErrConflict):
			r.dirty[ops[i].Ref] = true
		case errors.As(err, &refused):
			r.log.Warn("what others have added cannot be taken back", "object", ops[i].Ref.String(), "why", Text(refused.Findings[0]))
		case err != nil:
			return err
		default:
			delete(r.undeclared, ops[i].Ref)
			r.ours[ops[i].Ref] = out[0].GetResourceVersion()
			r.healed(ctx, &ops[i], out[0])
		}
	}
	if len(ops) > 0 {
		r.tellUndeclared(ctx)
	}
	return nil
}

// withoutWhole takes the ops out of a plan that only take back.
func withoutWhole(p *plan.Plan) (back []plan.Op) {
	p.Ops = slices.DeleteFunc(p.Ops, func(o plan.Op) bool {
		if o.Whole {
			back = append(back, o)
		}
		return o.Whole
	})
	return back
}
