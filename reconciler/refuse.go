package reconciler

import (
	"context"
	"fmt"
	"time"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

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
	ops := append(report.ClosePending(r.commits(), next), report.Status(next))
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
		if ev, err := r.eval.evaluate(ctx, t, nil, options); err == nil {
			r.current, r.watch.rules = ev, ev.health
			for i := range heads {
				r.dirty[heads[i].Ref] = true
			}
		}
	}
	return r.watch.follow(ctx, heads)
}

// Text is a finding in one line: file:line:col: message (hint).
func Text(f v1alpha1.Finding) string { return report.FindingText(f) }
