package reconciler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/apply"
	"github.com/writ-os/writ/reconciler/health"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/reconciler/trust"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// maxConflicts is how often a plan is made again at once when others write
// what it reads.
const maxConflicts = 20

// do brings one commit into the cluster: the head, or, where failed is one
// that did not become healthy, the commit to go back to. An error is one that
// may go away; a commit that is refused is done.
func (r *Reconciler) do(ctx context.Context, c Commit, failed *v1alpha1.Commit) error {
	e := &entry{seen: time.Now(), failed: failed}
	r.refused = Commit{}
	obj, err := r.pending(ctx, c, e.seen)
	if err != nil {
		return err
	}
	if findings, err := r.verify(ctx, r.cfg.Source, c, e); err != nil {
		return wrap("verify commit", err)
	} else if len(findings) > 0 {
		return r.refuse(ctx, obj, findings, e)
	}
	t, err := r.cfg.Source.Tree(c.SHA)
	if err != nil {
		return wrap("read tree", err)
	}
	w := r.world()
	w.AllowDeletes = failed != nil
	p, ev, err := r.eval.plan(ctx, t, c, w, r.first)
	if err != nil {
		return err
	}
	e.planned = time.Now()
	for range maxConflicts {
		if len(p.Findings) == 0 && failed == nil {
			p.Findings = r.allow(p, e)
		}
		if len(p.Findings) > 0 {
			if slices.ContainsFunc(p.Findings, dependsOnCluster) {
				r.refused, r.refusedAt = c, e.seen
			}
			return r.refuse(ctx, obj, p.Findings, e)
		}
		err := r.apply(ctx, obj, p, ev, e)
		var refused *apply.Refused
		switch {
		case err == nil:
			r.metrics.apply.Observe(time.Since(e.seen).Seconds())
			return nil
		case errors.As(err, &refused):
			ev.locate(ctx, refused.Findings)
			if !ev.leave(refused.Findings, w) {
				return r.refuse(ctx, obj, refused.Findings, e)
			}
		case !errors.Is(err, apply.ErrConflict):
			return err
		}
		w = r.world()
		w.AllowDeletes = failed != nil
		if p, err = ev.plan(ctx, c, w); err != nil {
			return err
		}
	}
	return apply.ErrConflict
}

// entry is one try of bringing a commit in.
type entry struct {
	seen, planned time.Time
	signature     *v1alpha1.CommitSignature
	trust         *trust.Result    // nil: nobody wants to know
	failed        *v1alpha1.Commit // that is rolled back
}

// applied is the commit that is in force; "" before the first.
func (r *Reconciler) applied() string {
	repo, _ := r.repository()
	if repo == nil {
		return ""
	}
	return repo.Status.Applied
}

// world is the cluster as it is now.
func (r *Reconciler) world() World {
	cache := r.cfg.Client.Cache()
	w := World{Repository: r.cfg.Repository, Spec: r.spec(), Live: cache, Kinds: r.kinds(), Render: render.Options{Sandbox: r.cfg.Sandbox}, Priorities: map[string]int32{},
		Inventories: client.CachedList[*v1alpha1.Inventory](cache, "")}
	for _, repo := range client.CachedList[*v1alpha1.Repository](cache, "") {
		w.Priorities[repo.Name] = repo.Spec.Priority
	}
	return w
}

// pending makes sure that there is a Commit object, and returns it.
func (r *Reconciler) pending(ctx context.Context, c Commit, now time.Time) (*v1alpha1.Commit, error) {
	name := report.CommitName(r.cfg.Repository, c.SHA)
	if have, ok := client.Cached[*v1alpha1.Commit](r.cfg.Client.Cache(), schema.Key{Name: name}); ok {
		return have.DeepCopy(), nil
	}
	obj := report.NewCommit(v1alpha1.CommitSpec{Repository: r.cfg.Repository, SHA: c.SHA, Parent: c.Parent, Branch: r.cfg.Spec.Branch,
		Author: c.Author, Message: c.Message, Time: metav1.NewTime(c.Time)}, now)
	out, err := r.cfg.Client.Transact(ctx, report.Create(obj), false)
	if err != nil {
		return nil, wrap("create commit object", err)
	}
	return out[len(out)-1].DeepCopyObject().(*v1alpha1.Commit), nil
}

// apply stores the plan, the status of the commit and of the repository, and
// the end of older commits, in one transaction; then it follows the objects.
// What has to wait for others to be healthy is applied later.
func (r *Reconciler) apply(ctx context.Context, obj *v1alpha1.Commit, p *plan.Plan, ev *evaluation, e *entry) error {
	now := time.Now()
	again := p.Empty() && e.failed == nil && len(ev.left) == 0 && inForce(obj)
	next := obj.DeepCopy()
	ops := r.closing(next, e.failed)
	if !again {
		report.Applied(next, p, report.Times{Seen: e.seen, Planned: e.planned, Applied: now})
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
	if op, ok := r.repositoryOp(next, p, e.failed, now); ok {
		ops = append(ops, op)
	}
	held := plan.Gate(p, ev.kept(), r.healthy, r.served)
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
	r.hold(held)
	r.anew(p)
	heads := ev.kept()
	ev.drop()
	if err := r.watch.follow(ctx, heads); err != nil {
		return err
	}
	r.shadowed.Store(p.Shadowed > 0)
	r.metrics.declared.Set(float64(p.Declared))
	if !again {
		r.tell(ctx, next, e)
	}
	r.progress(ctx, time.Now())
	return nil
}

// inForce says whether a commit has been applied and is judged by its objects.
func inForce(c *v1alpha1.Commit) bool {
	switch c.Status.Phase {
	case v1alpha1.CommitApplied, v1alpha1.CommitHealthy:
		return true
	case v1alpha1.CommitFailed:
		return c.Status.Reason == report.ReasonLate || c.Status.Reason == report.ReasonNoWayBack
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
	if e.failed != nil {
		r.metrics.commits.WithLabelValues("rolledback").Inc()
		r.event(ctx, e.failed, "Warning", "RolledBack", "back to "+short(c.Spec.SHA)+": "+report.Title(c.Spec.Message))
	}
}

// healthy says whether an object is as its author wanted it to be.
func (r *Reconciler) healthy(ref render.Ref) bool {
	o, ok := r.cfg.Client.Cache().Get(ref.Resource, ref.Key)
	return ok && health.Of(o).Status == health.Healthy
}

// hold notes what waits.
func (r *Reconciler) hold(held []plan.Held) {
	clear(r.held)
	for i := range held {
		r.held[held[i].Ref] = held[i].For
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

// closing ends the commits before; a failed one is told of by itself.
func (r *Reconciler) closing(c, failed *v1alpha1.Commit) []client.Op {
	var mine []*v1alpha1.Commit
	for _, o := range client.CachedList[*v1alpha1.Commit](r.cfg.Client.Cache(), "") {
		if o.Spec.Repository == r.cfg.Repository && (failed == nil || o.Name != failed.Name) {
			mine = append(mine, o)
		}
	}
	return report.Close(mine, c.Name)
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

// refuse says why a commit does not enter. The commit that is applied stays,
// and is followed as before.
func (r *Reconciler) refuse(ctx context.Context, obj *v1alpha1.Commit, findings []v1alpha1.Finding, e *entry) error {
	now := time.Now()
	if e.failed != nil {
		return r.stuck(ctx, e.failed, findings)
	}
	next := obj.DeepCopy()
	if next.Status.Phase == v1alpha1.CommitFailed && next.Status.Reason == "Refused" && len(next.Status.Findings) == len(findings) {
		return r.resume(ctx)
	}
	report.Refused(next, findings, now)
	next.Status.Signature = e.signature
	ops := []client.Op{report.Status(next)}
	if op, ok := r.repositoryRefused(next, now); ok {
		ops = append(ops, op)
	}
	if _, err := r.cfg.Client.Transact(ctx, ops, false); err != nil {
		return wrap("report refused commit", err)
	}
	r.metrics.refused(findings)
	r.log.Warn("commit refused", "commit", next.Spec.SHA, "findings", len(findings), "first", Text(findings[0]))
	r.event(ctx, next, "Warning", "Refused", fmt.Sprintf("%s (%s)", Text(findings[0]), next.Status.Message))
	return r.resume(ctx)
}

// resume follows the commit that was applied before this process began, if the
// head itself cannot be applied or read. What has drifted meanwhile is put back
// as far as the source still has the files.
func (r *Reconciler) resume(ctx context.Context) error {
	if r.commit != nil {
		return nil
	}
	repo, ok := r.repository()
	if !ok || repo.Status.Applied == "" {
		return nil
	}
	name := report.CommitName(r.cfg.Repository, repo.Status.Applied)
	obj, ok := client.Cached[*v1alpha1.Commit](r.cfg.Client.Cache(), schema.Key{Name: name})
	if !ok {
		return nil
	}
	var heads []render.Head
	for _, inv := range client.CachedList[*v1alpha1.Inventory](r.cfg.Client.Cache(), "") {
		for i := range inv.Spec.Objects {
			if ref, ok := plan.RefOf(&inv.Spec.Objects[i], r.kinds()); ok && inv.Spec.Repository == r.cfg.Repository {
				heads = append(heads, render.Head{Ref: ref})
			}
		}
	}
	r.commit = obj.DeepCopy()
	if t, err := r.cfg.Source.Tree(repo.Status.Applied); err == nil {
		options, _ := r.world().options() // what is missing is said at the next plan
		if ev, err := r.eval.evaluate(ctx, t, func(*render.Unit) bool { return false }, options); err == nil {
			r.current = ev
			for i := range heads {
				r.dirty[heads[i].Ref] = true
			}
		}
	}
	return r.watch.follow(ctx, heads)
}

// Text is a finding in one line: file:line:col: message (hint).
func Text(f v1alpha1.Finding) string { return report.FindingText(f) }
