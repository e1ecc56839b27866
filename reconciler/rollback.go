package reconciler

import (
	"context"
	"slices"
	"time"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// rollback goes back to the last healthy commit when the one that is applied
// has not become healthy in its time, and the repository asks for it. The
// failed commit, the going back and the memory of it are one transaction: who
// dies in between finds the commit failed and tries again, or finds it done.
func (r *Reconciler) rollback(ctx context.Context, now time.Time) {
	c := r.commit
	if r.spec().Rollback == nil || !report.Unhealthy(c) ||
		c.Status.RolledBackTo != "" || r.suspended() || r.rejected(c.Spec.SHA) {
		return
	}
	if r.head != nil { // it is being dealt with; the way back comes after
		r.status = now.Add(statusDelay)
		return
	}
	repo, _ := r.repository()
	target := repo.Status.Healthy
	if target == "" || target == c.Spec.SHA {
		r.giveUp(ctx, c, now, "no commit before it was healthy")
		return
	}
	to, err := r.cfg.Source.Bring(ctx, target)
	if err != nil {
		r.giveUp(ctx, c, now, "the commit "+short(target)+" cannot be read: "+err.Error())
		return
	}
	if err := r.do(ctx, to, c.DeepCopy()); err != nil && ctx.Err() == nil {
		r.log.Warn("rollback not done yet", "from", c.Spec.SHA, "to", target, "err", err)
		r.status = now.Add(minRetry)
	}
}

// stuck says that the last healthy commit cannot be applied any more.
func (r *Reconciler) stuck(ctx context.Context, failed *v1alpha1.Commit, findings []v1alpha1.Finding) error {
	r.giveUp(ctx, failed, time.Now(), "the last healthy commit is refused: "+Text(findings[0]))
	return nil
}

// giveUp remembers that there is no way back from a commit. It stays applied.
func (r *Reconciler) giveUp(ctx context.Context, c *v1alpha1.Commit, now time.Time, why string) {
	next := c.DeepCopy()
	next.Status.Reason = report.ReasonNoWayBack
	next.Status.Message += "; not rolled back: " + why
	if _, err := r.cfg.Client.Transact(ctx, []client.Op{report.Status(next)}, false); err != nil {
		r.status = now.Add(minRetry)
		return
	}
	r.commit = next
	r.log.Warn("no rollback", "commit", c.Spec.SHA, "why", why)
	r.event(ctx, next, "Warning", "NotRolledBack", why)
}

// rejected says whether a commit was rolled back; it is not tried again.
func (r *Reconciler) rejected(sha string) bool {
	repo, ok := r.repository()
	return ok && slices.Contains(repo.Status.Failed, sha)
}

// stay follows the commit that is in force while the head of the branch is one
// that was rolled back.
func (r *Reconciler) stay(ctx context.Context, head string) error {
	r.head = nil
	now := time.Now()
	op, ok := r.repositoryStatus(now, func(s *v1alpha1.RepositoryStatus) bool {
		changed := s.Head != head
		s.Head = head
		return report.Ready(s, false, "RolledBack", rolledBack(head, s.Applied), now) || changed
	})
	if ok {
		r.writeStatus(ctx, op)
	}
	return r.resume(ctx)
}
