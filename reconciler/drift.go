package reconciler

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/apply"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema"
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
	p := plan.Drift(plan.Input{Repository: r.cfg.Repository, Units: units, Before: r.eval.open.inventories(w), Live: w.Live, Kinds: w.Kinds, Rules: r.current.judge.kinds.rules,
		Priorities: w.Priorities, Ignore: w.Spec.Ignore, TakeBack: r.takesBack()})
	back := withoutWhole(p)
	looked := slices.Collect(maps.Keys(r.dirty))
	never := fixed(p, looked)
	p.Findings = nil // they belong to a commit; here what can be healed is
	waited := maps.Clone(r.held)
	r.hold(plan.Gate(p, r.current.gated(), r.healthy, r.served))
	p.Ops = slices.DeleteFunc(p.Ops, func(o plan.Op) bool { return slices.ContainsFunc(never, func(s stuckOp) bool { return s.Ref == o.Ref }) })
	if len(p.Ops) == 0 {
		clear(r.dirty)
		r.stick(looked, never)
		return r.leftovers(ctx, p, back)
	}
	out, stuck, err := r.store(ctx, p, waited)
	if err != nil {
		return err
	}
	r.remember(p, out)
	clear(r.dirty)
	r.stick(looked, append(never, stuck...))
	for i := range stuck {
		r.dirty[stuck[i].Ref] = true
	}
	r.anew(p)
	for i := range p.Ops {
		if waited[p.Ops[i].Ref] == "" {
			r.healed(ctx, &p.Ops[i], out[i])
		}
	}
	if err := r.leftovers(ctx, p, back); err != nil {
		return err
	}
	if len(stuck) > 0 {
		return fmt.Errorf("put back: %s", Text(stuck[0].why))
	}
	return nil
}

// store writes what is put back. What the server refuses of it is left out of
// the plan and returned: one object that a quota has no room for must not keep
// the others away.
func (r *Reconciler) store(ctx context.Context, p *plan.Plan, waited map[render.Ref]string) (out []schema.Object, stuck []stuckOp, err error) {
	for len(p.Ops) > 0 {
		out, err = apply.Do(ctx, r.cfg.Client, p, r.drifted(p, waited, time.Now())...)
		var refused *apply.Refused
		if !errors.As(err, &refused) {
			return out, stuck, err
		}
		n := len(stuck)
		p.Ops = slices.DeleteFunc(p.Ops, func(o plan.Op) bool {
			i := slices.IndexFunc(refused.Findings, func(f v1alpha1.Finding) bool { return f.Object == o.Ref.String() })
			if i >= 0 {
				stuck = append(stuck, stuckOp{o.Ref, refused.Findings[i]})
			}
			return i >= 0
		})
		if len(stuck) == n { // it is of no single object
			return nil, nil, fmt.Errorf("put back: %s", Text(refused.Findings[0]))
		}
	}
	return nil, stuck, nil
}

// maxDrifted is how many objects a Repository names that have drifted.
const maxDrifted = 20

// drifted reports what is put back. What has waited for others has not
// drifted.
func (r *Reconciler) drifted(p *plan.Plan, waited map[render.Ref]string, now time.Time) []client.Op {
	var found []v1alpha1.ObjectHealth
	for i := range p.Ops {
		if op := &p.Ops[i]; waited[op.Ref] == "" && len(found) < maxDrifted {
			found = append(found, v1alpha1.ObjectHealth{Object: op.Ref.String(), Health: driftHealed, Message: what(op)})
		}
	}
	if len(found) == 0 {
		return nil
	}
	op, _ := r.repositoryStatus(now, func(s *v1alpha1.RepositoryStatus) bool {
		s.Drifted = r.drifts(append(found, slices.DeleteFunc(s.Drifted, func(o v1alpha1.ObjectHealth) bool {
			return slices.ContainsFunc(found, func(f v1alpha1.ObjectHealth) bool { return f.Object == o.Object })
		})...))
		return true
	})
	if op.Object == nil {
		return nil
	}
	return []client.Op{op}
}

// dirtyUnits reads the manifests of the objects that were touched.
func (r *Reconciler) dirtyUnits(ctx context.Context) ([]plan.Unit, error) {
	touched := map[string]*unit{}
	for ref := range r.dirty {
		for u := range r.current.owners(ref) {
			touched[u.Path] = u
		}
	}
	if err := r.current.load(ctx, slices.Collect(maps.Values(touched))...); err != nil {
		return nil, err
	}
	units := make([]plan.Unit, 0, len(touched))
	for _, path := range slices.Sorted(maps.Keys(touched)) {
		u := touched[path].desired(r.current.fields(touched[path]))
		u.Objects = slices.DeleteFunc(u.Objects, func(d plan.Desired) bool { return !r.dirty[d.Ref] })
		units = append(units, u)
	}
	return units, nil
}

// progress writes how far the applied commit has come, if that has changed,
// and goes back to the last healthy one where that is asked for.
func (r *Reconciler) progress(ctx context.Context, now time.Time) {
	r.status = time.Time{}
	if r.commit == nil {
		return
	}
	h := r.watch.health()
	h.Waiting = r.waiting()
	r.metrics.unready.Set(float64(h.Total - h.Ready))
	if at := r.commit.Status.AppliedTime; h.Stalled != nil && at != nil && now.Before(at.Add(report.Settled)) {
		r.status = at.Add(report.Settled)
	}
	next := r.commit.DeepCopy()
	if report.Progress(next, h, now, r.deadline()) {
		ops := []client.Op{report.Status(next)}
		if op, ok := r.repositoryHealthy(next, now); ok {
			ops = append(ops, op)
		}
		if _, err := apply.Do(ctx, r.cfg.Client, &plan.Plan{}, ops...); err != nil {
			r.log.Warn("commit status not written", "commit", next.Spec.SHA, "err", err)
			r.status = now.Add(minRetry)
			return
		}
		r.moved(ctx, r.commit, next)
		r.commit = next
	}
	r.rollback(ctx, now)
}

// waiting is what the ops that wait are waiting for, in a few words.
func (r *Reconciler) waiting() string {
	all := slices.Sorted(maps.Values(r.held))
	if i := slices.IndexFunc(all, func(s string) bool { return strings.HasPrefix(s, "wave ") }); i > 0 {
		return all[i]
	}
	if len(all) == 0 {
		return ""
	}
	return all[0]
}

// moved tells of a change of phase.
func (r *Reconciler) moved(ctx context.Context, before, after *v1alpha1.Commit) {
	if before.Status.Phase == after.Status.Phase {
		return
	}
	switch after.Status.Phase {
	case v1alpha1.CommitHealthy:
		took := after.Status.HealthyTime.Sub(after.Status.SeenTime.Time)
		r.metrics.became(after)
		r.log.Info("commit healthy", "commit", after.Spec.SHA, "took", took)
		r.event(ctx, after, "Normal", "Healthy", after.Status.Message)
	case v1alpha1.CommitFailed:
		r.metrics.commits.WithLabelValues("unhealthy").Inc()
		r.log.Warn("commit does not become healthy", "commit", after.Spec.SHA, "reason", after.Status.Reason, "message", after.Status.Message)
		r.event(ctx, after, "Warning", after.Status.Reason, after.Status.Message)
	}
}
