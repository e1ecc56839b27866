package reconciler

import (
	"context"
	"fmt"
	"time"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/reference"
	"github.com/writ-os/writ/reconciler/secret"
	"github.com/writ-os/writ/reconciler/validate"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// subscribe listens for what changes a plan without a new commit: the
// Repository object itself, and what other repositories declare, where they
// and this one declare the same.
func (r *Reconciler) subscribe(ctx context.Context) error {
	if err := r.cfg.Client.Cache().Subscribe(ctx, schema.ResourceFor[*v1alpha1.Repository](), r.repositoryEvent); err != nil {
		return fmt.Errorf("subscribe to repositories: %w", err)
	}
	if err := r.cfg.Client.Cache().Subscribe(ctx, schema.ResourceFor[*v1alpha1.Inventory](), r.inventoryEvent); err != nil {
		return fmt.Errorf("subscribe to inventories: %w", err)
	}
	return nil
}

// repositoryEvent runs in the cache's goroutine.
func (r *Reconciler) repositoryEvent(ev client.Event) {
	repo, ok := ev.Object.(*v1alpha1.Repository)
	if !ok {
		return
	}
	old, _ := ev.Old.(*v1alpha1.Repository)
	switch {
	case repo.Name == r.cfg.Repository && old != nil && old.Generation != repo.Generation:
		r.again()
	case repo.Name != r.cfg.Repository && r.shadowed.Load() && (old == nil || ev.Type == client.Deleted || old.Spec.Priority != repo.Spec.Priority):
		r.again()
	}
}

// inventoryEvent runs in the cache's goroutine.
func (r *Reconciler) inventoryEvent(ev client.Event) {
	if inv, ok := ev.Object.(*v1alpha1.Inventory); ok && inv.Spec.Repository != r.cfg.Repository && r.shadowed.Load() {
		r.again()
	}
}

// again has the applied commit planned anew.
func (r *Reconciler) again() {
	select {
	case r.replan <- struct{}{}:
	default:
	}
}

// planAgain takes the commit that is applied for a new one.
func (r *Reconciler) planAgain(ctx context.Context) {
	if r.head != nil {
		r.retry = backoff{} // it may have waited for what has changed
		return
	}
	if r.commit == nil {
		return
	}
	c, err := r.cfg.Source.Bring(ctx, r.commit.Spec.SHA)
	if err != nil {
		r.log.Warn("applied commit not planned again", "err", err)
		return
	}
	r.head, r.first, r.retry = &c, true, backoff{}
}

// refusedRetry is how soon a commit is looked at again that was refused for
// what the cluster lacks.
const refusedRetry = time.Minute

// dependsOnCluster says whether a finding may go away without a new commit: the
// cluster lacks a kind, a key, a namespace, variables or what objects speak of.
func dependsOnCluster(f v1alpha1.Finding) bool {
	switch f.Rule {
	case "UnknownKind", secret.RuleMissingKey, "Variable", "NoNamespace", validate.RulePodSecurity, reference.RuleMissing, reference.RuleNone:
		return true
	}
	return false
}

// newKinds looks again at a commit that has custom kinds, or one that does not
// know a kind: the cluster serves others now.
func (r *Reconciler) newKinds(ctx context.Context) {
	switch {
	case r.current != nil && r.current.anyCustom():
		first := r.first
		r.planAgain(ctx)
		r.first = first
	case r.head == nil && r.refused.SHA != "":
		r.tryRefused()
	}
}

// tryRefused takes up the commit that was refused for what the cluster lacked.
func (r *Reconciler) tryRefused() {
	c := r.refused
	r.head, r.retry, r.refused = &c, backoff{}, Commit{}
}
