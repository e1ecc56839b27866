package reconciler

import (
	"slices"
	"strings"

	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// stuckOp is an object that cannot be put back, and why.
type stuckOp struct {
	render.Ref
	why v1alpha1.Finding
}

// fixed are the objects of a plan that differ in what cannot be changed: somebody
// has made one while it waited for others.
func fixed(p *plan.Plan, looked []render.Ref) (out []stuckOp) {
	for _, f := range p.Findings {
		if i := slices.IndexFunc(looked, func(ref render.Ref) bool { return ref.String() == f.Object }); i >= 0 {
			out = append(out, stuckOp{looked[i], f})
		}
	}
	return out
}

// stick remembers which of the objects that were looked at cannot be put back.
func (r *Reconciler) stick(looked []render.Ref, stuck []stuckOp) {
	for _, ref := range looked {
		delete(r.blocked, ref)
	}
	for i := range stuck {
		why := "cannot be put back: " + Text(stuck[i].why)
		if r.blocked[stuck[i].Ref] == "" {
			r.log.Warn("object cannot be put back", "object", stuck[i].Ref.String(), "why", Text(stuck[i].why))
		}
		r.blocked[stuck[i].Ref] = why
	}
}

// stuckDrifts are those objects as a Repository names them.
func (r *Reconciler) stuckDrifts() (out []v1alpha1.ObjectHealth) {
	for ref, why := range r.blocked {
		out = append(out, v1alpha1.ObjectHealth{Object: ref.String(), Health: driftStuck, Message: why})
	}
	slices.SortFunc(out, func(a, b v1alpha1.ObjectHealth) int { return strings.Compare(a.Object, b.Object) })
	return out
}
