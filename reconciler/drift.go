package reconciler

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/writ-os/writ/reconciler/apply"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// putBack compares the objects that someone else has touched with what Git
// declares, and applies again what differs.
func (r *Reconciler) putBack(ctx context.Context) error {
	if r.current == nil || r.suspended() {
		clear(r.dirty)
		return nil
	}
	units, err := r.dirtyUnits(ctx)
	defer r.current.drop()
	if err != nil {
		return err
	}
	w := r.world()
	p := plan.Drift(plan.Input{Repository: r.cfg.Repository, Units: units, Inventories: w.Inventories, Live: w.Live})
	p.Findings = nil // they belong to a commit; here what can be healed is
	if len(p.Ops) == 0 {
		clear(r.dirty)
		return nil
	}
	out, err := apply.Do(ctx, r.cfg.Client, p)
	var refused *apply.Refused
	switch {
	case errors.As(err, &refused):
		return fmt.Errorf("put back: %s", Text(refused.Findings[0]))
	case err != nil:
		return err
	}
	r.remember(p, out)
	clear(r.dirty)
	for i := range p.Ops {
		r.healed(ctx, &p.Ops[i], out[i])
	}
	return nil
}

// dirtyUnits reads the manifests of the objects that were touched.
func (r *Reconciler) dirtyUnits(ctx context.Context) ([]plan.Unit, error) {
	var units []plan.Unit
	for i := range r.current.units {
		if !r.anyDirty(r.current.checked[i].heads) {
			continue
		}
		if err := r.current.load(ctx, i); err != nil {
			return nil, err
		}
		u := r.current.desired(i)
		touched := u.Objects[:0:0]
		for _, d := range u.Objects {
			if r.dirty[d.Ref] {
				touched = append(touched, d)
			}
		}
		u.Objects = touched
		units = append(units, u)
	}
	return units, nil
}

func (r *Reconciler) anyDirty(heads []render.Head) bool {
	for i := range heads {
		if r.dirty[heads[i].Ref] {
			return true
		}
	}
	return false
}

// progress writes how far the applied commit has come, if that has changed.
func (r *Reconciler) progress(ctx context.Context, now time.Time) {
	r.status = time.Time{}
	if r.commit == nil {
		return
	}
	h := r.watch.health()
	r.metrics.unready.Set(float64(h.Total - h.Ready))
	next := r.commit.DeepCopy()
	if !report.Progress(next, h, now, r.cfg.HealthTimeout) {
		return
	}
	if _, err := apply.Do(ctx, r.cfg.Client, &plan.Plan{}, report.Status(next)); err != nil {
		r.log.Warn("commit status not written", "commit", next.Spec.SHA, "err", err)
		r.status = now.Add(minRetry)
		return
	}
	r.moved(ctx, r.commit, next)
	r.commit = next
}

// moved tells of a change of phase.
func (r *Reconciler) moved(ctx context.Context, before, after *v1alpha1.Commit) {
	if before.Status.Phase == after.Status.Phase {
		return
	}
	switch after.Status.Phase {
	case v1alpha1.CommitHealthy:
		took := after.Status.HealthyTime.Sub(after.Status.SeenTime.Time)
		r.metrics.commits.WithLabelValues("healthy").Inc()
		r.metrics.healthy.Observe(took.Seconds())
		r.log.Info("commit healthy", "commit", after.Spec.SHA, "took", took)
		r.event(ctx, after, "Normal", "Healthy", after.Status.Message)
	case v1alpha1.CommitFailed:
		r.metrics.commits.WithLabelValues("unhealthy").Inc()
		r.log.Warn("commit not healthy in time", "commit", after.Spec.SHA, "message", after.Status.Message)
		r.event(ctx, after, "Warning", "NotHealthyInTime", after.Status.Message)
	}
}
