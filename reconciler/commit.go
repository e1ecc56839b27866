package reconciler

import (
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/apply"
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
	e := &entry{seen: time.Now(), failed: failed, stale: c.Stale}
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
	r.watch.expectNothing()
	w := r.worldOf(failed)
	p, ev, err := r.eval.plan(ctx, t, c, w, r.first)
	if err != nil {
		return err
	}
	if len(p.Findings) > 0 {
		if p.Findings, err = r.withDenied(ctx, w, ev, p.Findings); err != nil {
			return err
		}
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
			r.note(ctx, p)
			return nil
		case errors.As(err, &refused):
			ev.locate(ctx, refused.Findings)
			if !ev.leave(refused.Findings, w) {
				return r.refuse(ctx, obj, refused.Findings, e)
			}
		case !errors.Is(err, apply.ErrConflict):
			return err
		}
		w = r.worldOf(failed)
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
	stale         bool             // it is of the last clone: the remote is away
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

// worldOf is what a commit is planned against that comes into the cluster.
// What has not been touched since the last plan is not looked at, but for now
// and then: that is how something is found that no event has told of.
func (r *Reconciler) worldOf(failed *v1alpha1.Commit) World {
	w := r.world()
	w.AllowDeletes, w.expect = failed != nil, r.watch.expect
	w.sweep = time.Since(r.swept) >= sweepEvery
	w.touched = func() ([]render.Ref, bool) {
		out, ok := r.watch.touched()
		return append(out, r.unsettled()...), ok
	}
	return w
}

// unsettled are the objects that were touched and are not put back yet, and
// those that wait.
func (r *Reconciler) unsettled() []render.Ref {
	return slices.AppendSeq(slices.Collect(maps.Keys(r.dirty)), maps.Keys(r.held))
}

// sweepEvery is how often a commit has all declared objects looked for.
const sweepEvery = 10 * time.Minute

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

// commits are the Commit objects of the repository.
func (r *Reconciler) commits() []*v1alpha1.Commit {
	var mine []*v1alpha1.Commit
	for _, o := range client.CachedList[*v1alpha1.Commit](r.cfg.Client.Cache(), "") {
		if o.Spec.Repository == r.cfg.Repository {
			mine = append(mine, o)
		}
	}
	return mine
}

// closing ends the commits before; a failed one is told of by itself.
func (r *Reconciler) closing(c, failed *v1alpha1.Commit) []client.Op {
	mine := slices.DeleteFunc(r.commits(), func(o *v1alpha1.Commit) bool { return failed != nil && o.Name == failed.Name })
	return report.Close(mine, c.Name)
}
