package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/apply"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// maxConflicts is how often a plan is made again at once when others write
// what it reads.
const maxConflicts = 20

// do brings one commit into the cluster. An error is one that may go away; a
// commit that is refused is done.
func (r *Reconciler) do(ctx context.Context, c Commit) error {
	seen := time.Now()
	obj, err := r.pending(ctx, c, seen)
	if err != nil {
		return err
	}
	t, err := r.cfg.Source.Tree(c.SHA)
	if err != nil {
		return wrap("read tree", err)
	}
	p, ev, err := r.eval.plan(ctx, t, c, r.world(), r.first)
	if err != nil {
		return err
	}
	for range maxConflicts {
		if len(p.Findings) > 0 {
			return r.refuse(ctx, obj, p.Findings)
		}
		err := r.apply(ctx, obj, p, ev, seen)
		var refused *apply.Refused
		switch {
		case err == nil:
			r.metrics.apply.Observe(time.Since(seen).Seconds())
			return nil
		case errors.As(err, &refused):
			ev.locate(ctx, refused.Findings)
			return r.refuse(ctx, obj, refused.Findings)
		case !errors.Is(err, apply.ErrConflict):
			return err
		}
		if p, err = ev.plan(ctx, c, r.world()); err != nil {
			return err
		}
	}
	return apply.ErrConflict
}

// world is the cluster as it is now.
func (r *Reconciler) world() World {
	cache := r.cfg.Client.Cache()
	return World{Repository: r.cfg.Repository, Live: cache, Inventories: client.CachedList[*v1alpha1.Inventory](cache, "")}
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
func (r *Reconciler) apply(ctx context.Context, obj *v1alpha1.Commit, p *plan.Plan, ev *evaluation, seen time.Time) error {
	now := time.Now()
	again := p.Empty() && (obj.Status.Phase == v1alpha1.CommitApplied || obj.Status.Phase == v1alpha1.CommitHealthy)
	next := obj.DeepCopy()
	ops := r.closing(next)
	if !again {
		report.Applied(next, p, seen, now)
		ops = append(ops, report.Status(next))
	}
	if op, ok := r.repositoryOp(next.Spec.SHA, now); ok {
		ops = append(ops, op)
	}
	out, err := apply.Do(ctx, r.cfg.Client, p, ops...)
	if err != nil {
		return err
	}
	if !again {
		report.Stored(next, time.Now())
	}
	r.remember(p, out)
	ev.drop()
	r.commit, r.current, r.first = next, ev, false
	clear(r.dirty)
	if err := r.watch.follow(ctx, ev.heads()); err != nil {
		return err
	}
	r.metrics.declared.Set(float64(p.Declared))
	if !again {
		r.metrics.commits.WithLabelValues("applied").Inc()
		r.log.Info("commit applied", "commit", next.Spec.SHA, "created", next.Status.Created, "updated", next.Status.Updated,
			"deleted", next.Status.Deleted, "unchanged", next.Status.Unchanged, "took", time.Since(seen))
		r.event(ctx, next, "Normal", "Applied", fmt.Sprintf("%s: %d created, %d updated, %d deleted, %d unchanged",
			report.Title(next.Spec.Message), next.Status.Created, next.Status.Updated, next.Status.Deleted, next.Status.Unchanged))
	}
	r.progress(ctx, time.Now())
	return nil
}

// closing ends the commits before.
func (r *Reconciler) closing(c *v1alpha1.Commit) []client.Op {
	var mine []*v1alpha1.Commit
	for _, o := range client.CachedList[*v1alpha1.Commit](r.cfg.Client.Cache(), "") {
		if o.Spec.Repository == r.cfg.Repository {
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
func (r *Reconciler) refuse(ctx context.Context, obj *v1alpha1.Commit, findings []v1alpha1.Finding) error {
	now := time.Now()
	next := obj.DeepCopy()
	if next.Status.Phase == v1alpha1.CommitFailed && next.Status.Reason == "Refused" && len(next.Status.Findings) == len(findings) {
		return r.resume(ctx)
	}
	report.Refused(next, findings, now)
	ops := []client.Op{report.Status(next)}
	if op, ok := r.repositoryRefused(next, now); ok {
		ops = append(ops, op)
	}
	if _, err := r.cfg.Client.Transact(ctx, ops, false); err != nil {
		return wrap("report refused commit", err)
	}
	r.metrics.commits.WithLabelValues("refused").Inc()
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
			if ref, ok := plan.RefOf(&inv.Spec.Objects[i]); ok && inv.Spec.Repository == r.cfg.Repository {
				heads = append(heads, render.Head{Ref: ref})
			}
		}
	}
	r.commit = obj.DeepCopy()
	if t, err := r.cfg.Source.Tree(repo.Status.Applied); err == nil {
		if ev, err := r.eval.evaluate(ctx, t, func(*render.Unit) bool { return false }); err == nil {
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
