package reconciler

import (
	"context"
	"fmt"
	"time"

	"github.com/writ-os/writ/reconciler/apply"
	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// apply stores the plan, the status of the commit and of the repository, and
// the end of older commits, in one transaction; then it follows the objects.
// What has to wait for others to be healthy is applied later.
func (r *Reconciler) apply(ctx context.Context, obj *v1alpha1.Commit, p *plan.Plan, ev *evaluation, e *entry) error {
	now := time.Now()
	again := p.Empty() && e.failed == nil && said(obj, ev)
	next := obj.DeepCopy()
	ops := r.closing(next, e.failed)
	if !again {
		report.Applied(next, p, report.Times{Seen: e.seen, Rendered: ev.done, Planned: e.planned, Applied: now})
		if r.commit != nil && r.commit.Name == obj.Name && inForce(obj) && e.failed == nil {
			report.Continued(next, obj)
		}
		next.Status.Signature = e.signature
		if len(ev.leftFindings) > 0 {
			report.Partly(next, ev.leftFindings, len(ev.left), now)
		}
		ops = append(ops, report.Status(next))
	}
	if e.failed != nil {
		ops = append(ops, report.Status(report.RolledBack(e.failed, next)))
	}
	if op, ok := r.repositoryOp(next, p, e, now); ok {
		ops = append(ops, op)
	}
	r.watch.rules = ev.health
	held := plan.Gate(p, ev.gated(), r.healthy, r.served)
	out, err := apply.Do(ctx, r.cfg.Client, p, ops...)
	if err != nil {
		p.Ops = append(p.Ops, heldOps(held)...)
		return err
	}
	if !again {
		report.Stored(next, time.Now())
	}
	r.remember(p, out)
	r.commit, r.current, r.first = next, ev, false
	clear(r.dirty)
	clear(r.blocked)
	r.hold(held)
	r.anew(p)
	if err := r.follow(ctx, ev); err != nil {
		return err
	}
	if err := r.watch.await(ctx, p.Elsewhere); err != nil {
		return err
	}
	r.missed()
	r.shadowed.Store(p.Shadowed > 0)
	r.metrics.declared.Set(float64(p.Declared))
	if !again {
		r.tell(ctx, next, e)
	}
	r.progress(ctx, time.Now())
	return nil
}

// follow has the watch follow what the applied commit declares.
func (r *Reconciler) follow(ctx context.Context, ev *evaluation) error {
	defer ev.drop()
	if ev.looked == nil {
		r.swept = time.Now()
	}
	// A custom resource is another one for the watch when the server has read its
	// definition: what is followed of the row before is not heard of any more.
	kinds := ev.judge.kinds.hash
	same := r.followed == kinds
	r.followed = kinds
	if ev.looked == nil || !same {
		return r.watch.follow(ctx, ev.kept())
	}
	return r.watch.change(ctx, headsOf(ev.looked), ev.undeclared())
}

// said says whether the Commit object tells already what applying it did.
func said(c *v1alpha1.Commit, ev *evaluation) bool {
	if len(ev.left) > 0 {
		return report.SamePartly(c, ev.leftFindings)
	}
	return inForce(c)
}

// inForce says whether a commit has been applied and is judged by its objects.
func inForce(c *v1alpha1.Commit) bool {
	switch c.Status.Phase {
	case v1alpha1.CommitApplied, v1alpha1.CommitHealthy:
		return true
	case v1alpha1.CommitFailed:
		return report.Unhealthy(c) || c.Status.Reason == report.ReasonNoWayBack
	}
	return false
}

// tell says that a commit has entered.
func (r *Reconciler) tell(ctx context.Context, c *v1alpha1.Commit, e *entry) {
	r.metrics.commits.WithLabelValues("applied").Inc()
	r.log.Info("commit applied", "commit", c.Spec.SHA, "created", c.Status.Created, "updated", c.Status.Updated,
		"deleted", c.Status.Deleted, "unchanged", c.Status.Unchanged, "took", time.Since(e.seen))
	r.event(ctx, c, "Normal", "Applied", fmt.Sprintf("%s: %d created, %d updated, %d deleted, %d unchanged",
		report.Title(c.Spec.Message), c.Status.Created, c.Status.Updated, c.Status.Deleted, c.Status.Unchanged))
	if w := c.Status.Warnings; len(w) > 0 {
		message := report.FindingText(w[0])
		if len(w) > 1 {
			message = count(len(w), "warning") + ", the first: " + message
		}
		r.event(ctx, c, "Warning", "Warned", message)
	}
	if e.failed != nil {
		r.metrics.commits.WithLabelValues("rolledback").Inc()
		r.event(ctx, e.failed, "Warning", "RolledBack", "back to "+short(c.Spec.SHA)+": "+report.Title(c.Spec.Message))
	}
}

// healthy says whether an object is as its author wanted it to be.
func (r *Reconciler) healthy(ref render.Ref) bool {
	o, ok := r.cfg.Client.Cache().Get(ref.Resource, ref.Key)
	return ok && r.watch.rules.In(o, r.cfg.Client.Cache()).Status == health.Healthy
}

// hold notes what waits.
func (r *Reconciler) hold(held []plan.Held) {
	clear(r.held)
	for i := range held {
		r.held[held[i].Ref] = held[i].For
	}
}

// missed has what waits looked at once more: what it waits for may have become
// healthy before it was followed, and nothing happens to it any more. What waits
// for a definition is planned again when the server has read that.
func (r *Reconciler) missed() {
	for ref, why := range r.held {
		if !unserved(ref, why) {
			r.dirty[ref] = true
		}
	}
}

// anew has what was deleted to be replaced made again, as soon as it is gone.
func (r *Reconciler) anew(p *plan.Plan) {
	for i := range p.Ops {
		if p.Ops[i].Action == plan.Replace {
			r.dirty[p.Ops[i].Ref] = true
		}
	}
}

func heldOps(held []plan.Held) []plan.Op {
	out := make([]plan.Op, len(held))
	for i := range held {
		out[i] = held[i].Op
	}
	return out
}

// remember notes the versions that our own writes made, so that their events
// are not taken for somebody else's.
func (r *Reconciler) remember(p *plan.Plan, out []schema.Object) {
	clear(r.ours)
	for i := range p.Ops {
		if i < len(out) && out[i] != nil {
			r.ours[p.Ops[i].Ref] = out[i].GetResourceVersion()
		}
	}
}
