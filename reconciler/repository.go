package reconciler

import (
	"context"
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/plan"
	"github.com/writ-os/writ/reconciler/report"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// repository returns the Repository object of the source.
func (r *Reconciler) repository() (*v1alpha1.Repository, bool) {
	return client.Cached[*v1alpha1.Repository](r.cfg.Client.Cache(), schema.Key{Name: r.cfg.Repository})
}

// spec is what holds of the repository: the object, and before there is one,
// the flags.
func (r *Reconciler) spec() *v1alpha1.RepositorySpec {
	if repo, ok := r.repository(); ok {
		return &repo.Spec
	}
	return &r.cfg.Spec
}

// deadline is how long a commit may take to become healthy.
func (r *Reconciler) deadline() time.Duration {
	s := r.spec()
	switch {
	case s.Rollback != nil && s.Rollback.After != nil:
		return s.Rollback.After.Duration
	case s.HealthTimeout != nil:
		return s.HealthTimeout.Duration
	}
	return defaultHealthTimeout
}

const defaultHealthTimeout = 10 * time.Minute

// declareRepository makes the Repository object say what the flags say. Where
// Git declares the object itself, Git's word stands.
func (r *Reconciler) declareRepository(ctx context.Context) error {
	if r.cfg.Declared {
		return nil
	}
	want := &v1alpha1.Repository{
		TypeMeta:   metav1.TypeMeta{APIVersion: v1alpha1.GroupVersion.String(), Kind: "Repository"},
		ObjectMeta: metav1.ObjectMeta{Name: r.cfg.Repository},
		Spec:       r.cfg.Spec,
	}
	have, err := client.Get[*v1alpha1.Repository](ctx, r.cfg.Client, schema.KeyOf(want))
	switch {
	case apierrors.IsNotFound(err):
		_, err = client.Create(ctx, r.cfg.Client, want, client.WriteOptions{FieldManager: "writ-flags"})
	case err != nil || declaredByGit(have) || equality.Semantic.DeepEqual(have.Spec, want.Spec):
	default:
		next := have.DeepCopy()
		next.Spec = want.Spec
		_, err = client.Update(ctx, r.cfg.Client, next, client.WriteOptions{FieldManager: "writ-flags"})
	}
	if err != nil {
		return fmt.Errorf("declare repository %s: %w", r.cfg.Repository, err)
	}
	return nil
}

func declaredByGit(o schema.Object) bool {
	for _, m := range o.GetManagedFields() {
		if m.Manager == plan.Manager && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == "" {
			return true
		}
	}
	return false
}

// repositoryOp reports a commit as applied; false when it says so already.
// After a rollback the head is another, which is remembered as failed.
func (r *Reconciler) repositoryOp(c *v1alpha1.Commit, p *plan.Plan, e *entry, now time.Time) (client.Op, bool) {
	sha := c.Spec.SHA
	return r.repositoryStatus(now, func(s *v1alpha1.RepositoryStatus) bool {
		changed := s.Applied != sha || s.Objects != int32(p.Declared)
		s.Applied, s.Objects = sha, int32(p.Declared)
		if e.failed != nil {
			s.Failed = append([]string{e.failed.Spec.SHA}, s.Failed...)
			s.Failed = s.Failed[:min(len(s.Failed), maxFailed)]
			report.Ready(s, false, "RolledBack", rolledBack(e.failed.Spec.SHA, sha), now)
			return true
		}
		if e.stale {
			return changed // the condition says why
		}
		changed = changed || s.Head != sha
		s.Head = sha
		if c.Status.Reason == report.ReasonPartly {
			return report.Ready(s, false, c.Status.Reason, c.Status.Message, now) || changed
		}
		return report.Ready(s, true, "Applied", "the head of the branch is applied", now) || changed
	})
}

// maxFailed is how many commits are remembered that are not tried again.
const maxFailed = 20

func rolledBack(failed, to string) string {
	return "the commit " + short(failed) + " did not become healthy and " + short(to) + " is in force again; push a commit that mends or reverts it"
}

// repositoryRefused reports that the head is refused.
func (r *Reconciler) repositoryRefused(c *v1alpha1.Commit, now time.Time) (client.Op, bool) {
	return r.repositoryStatus(now, func(s *v1alpha1.RepositoryStatus) bool {
		changed := s.Head != c.Spec.SHA
		s.Head = c.Spec.SHA
		return report.Ready(s, false, "Refused", "the commit "+short(c.Spec.SHA)+" is refused: "+c.Status.Message, now) || changed
	})
}

// repositoryReady reports that the remote answers again.
func (r *Reconciler) repositoryReady(ctx context.Context, sha string) {
	now := time.Now()
	op, ok := r.repositoryStatus(now, func(s *v1alpha1.RepositoryStatus) bool {
		changed := s.Head != sha
		s.Head = sha
		if r.commit.Status.Reason == report.ReasonPartly {
			return changed
		}
		return report.Ready(s, true, "Applied", "the head of the branch is applied", now) || changed
	})
	if ok {
		r.writeStatus(ctx, op)
	}
}

// repositoryFailed reports that the remote does not answer. What is applied
// stays as it is.
func (r *Reconciler) repositoryFailed(ctx context.Context, cause error) {
	now := time.Now()
	op, ok := r.repositoryStatus(now, func(s *v1alpha1.RepositoryStatus) bool {
		return report.Ready(s, false, "FetchFailed", cause.Error(), now)
	})
	if ok {
		r.writeStatus(ctx, op)
	}
}

func (r *Reconciler) writeStatus(ctx context.Context, op client.Op) {
	if _, err := r.cfg.Client.Transact(ctx, []client.Op{op}, false); err != nil && ctx.Err() == nil {
		r.log.Warn("repository status not written", "err", err)
	}
}

func (r *Reconciler) repositoryStatus(now time.Time, change func(*v1alpha1.RepositoryStatus) bool) (client.Op, bool) {
	have, ok := r.repository()
	if !ok {
		return client.Op{}, false
	}
	next := have.DeepCopy()
	changed := change(&next.Status)
	if l := r.cfg.Sandbox.Layers(); l != nil {
		changed = report.Sandboxed(&next.Status, l.Lacks(), now) || changed
	}
	if !changed {
		return client.Op{}, false
	}
	at := metav1.NewTime(now)
	next.Status.LastFetchTime = &at
	next.ResourceVersion = ""
	return client.Op{Verb: client.VerbUpdate, Resource: schema.ResourceFor[*v1alpha1.Repository](), Key: schema.KeyOf(next),
		Object: next, Subresource: "status", FieldManager: plan.Manager}, true
}

// repositoryHealthy reports a commit that has become healthy.
func (r *Reconciler) repositoryHealthy(c *v1alpha1.Commit, now time.Time) (client.Op, bool) {
	return r.repositoryStatus(now, func(s *v1alpha1.RepositoryStatus) bool {
		if c.Status.Phase != v1alpha1.CommitHealthy || s.Healthy == c.Spec.SHA {
			return false
		}
		s.Healthy = c.Spec.SHA
		return true
	})
}

// healed tells that an object was put back.
func (r *Reconciler) healed(ctx context.Context, op *plan.Op, o schema.Object) {
	r.metrics.drift.Inc()
	r.log.Info("drift healed", "object", op.Ref.String(), "what", what(op))
	r.event(ctx, o, "Normal", "DriftHealed", fmt.Sprintf("put back to what %s:%d declares; %s", op.File, op.Line, what(op)))
}

// what says in a few words what had happened to an object.
func what(op *plan.Op) string {
	if op.Action != plan.Update {
		return "it was gone"
	}
	text := "changed by someone else:"
	for i, d := range op.Diffs {
		if i == 3 {
			return text + " ..."
		}
		text += " " + d.Path
	}
	return text
}

// event stores an event; one that cannot be stored is not worth more than a line.
func (r *Reconciler) event(ctx context.Context, o schema.Object, kind, reason, message string) {
	if _, err := client.Create(ctx, r.cfg.Client, report.Event(o, kind, reason, message, time.Now()), client.WriteOptions{}); err != nil && ctx.Err() == nil {
		r.log.Debug("event not stored", "reason", reason, "err", err)
	}
}

func short(sha string) string { return sha[:min(7, len(sha))] }
