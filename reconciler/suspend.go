package reconciler

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

var repositories = schema.ResourceFor[*v1alpha1.Repository]()

// suspended says whether the repository is not to be read for now.
func (r *Reconciler) suspended() bool {
	repo, ok := r.repository()
	return ok && repo.Spec.Suspend
}

// resumed says whether a commit of a suspended repository takes the suspension
// back. Only what the repository itself has declared it may take back: what
// somebody else has suspended waits for them. A commit is looked at once.
func (r *Reconciler) resumed(ctx context.Context, c Commit) bool {
	if r.asleep == c.SHA || !r.suspendedItself() {
		return false
	}
	t, err := r.cfg.Source.Tree(c.SHA)
	if err != nil {
		return false // it is asked again
	}
	says, err := r.saysSuspended(ctx, t)
	if err != nil {
		r.log.Warn("commit of a suspended repository not read", "commit", c.SHA, "err", err)
		return false
	}
	if says {
		r.asleep = c.SHA
	}
	return !says
}

// suspendedItself says whether the suspension came by a commit of this
// repository.
func (r *Reconciler) suspendedItself() bool {
	repo, ok := r.repository()
	if !ok || !plan.Owns(repo, "spec", "suspend") {
		return false
	}
	own := render.Ref{Resource: repositories, Key: schema.Key{Name: r.cfg.Repository}}
	return r.eval.open.inventories(r.world()).Declares(own)
}

// saysSuspended says whether a tree declares its own repository as suspended.
func (r *Reconciler) saysSuspended(ctx context.Context, t render.Tree) (bool, error) {
	options, _ := r.world().options()
	ev, err := r.eval.evaluate(ctx, t, nil, options)
	if err != nil {
		return false, err
	}
	own := render.Ref{Resource: repositories, Key: schema.Key{Name: r.cfg.Repository}}
	for u := range ev.owners(own) {
		if err := ev.load(ctx, u); err != nil {
			return false, err
		}
		at := slices.IndexFunc(u.heads, func(h render.Head) bool { return h.Ref == own })
		var repo v1alpha1.Repository
		err := json.Unmarshal(ev.fields(u)[at], &repo)
		return repo.Spec.Suspend, err
	}
	return false, nil
}
