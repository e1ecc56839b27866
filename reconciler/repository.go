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

// suspended says whether the repository is not to be read for now.
func (r *Reconciler) suspended() bool {
	repo, ok := r.repository()
	return ok && repo.Spec.Suspend
}

// declareRepository makes the Repository object say what the flags say. Where
// Git declares the object itself, Git's word stands.
func (r *Reconciler) declareRepository(ctx context.Context) error {
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

// repositoryOp reports the head as applied; false when it says so already.
func (r *Reconciler) repositoryOp(sha string, now time.Time) (client.Op, bool) {
	return r.repositoryStatus(now, func(s *v1alpha1.RepositoryStatus) bool {
		changed := s.Head != sha || s.Applied != sha
		s.Head, s.Applied = sha, sha
		return report.Ready(s, true, "Applied", "the head of the branch is applied", now) || changed
	})
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
	if op, ok := r.repositoryOp(sha, now); ok {
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
	if !change(&next.Status) {
		return client.Op{}, false
	}
	at := metav1.NewTime(now)
	next.Status.LastFetchTime = &at
	next.ResourceVersion = ""
	return client.Op{Verb: client.VerbUpdate, Resource: schema.ResourceFor[*v1alpha1.Repository](), Key: schema.KeyOf(next),
		Object: next, Subresource: "status", FieldManager: plan.Manager}, true
}

// healed tells that an object was put back.
func (r *Reconciler) healed(ctx context.Context, op *plan.Op, o schema.Object) {
	r.metrics.drift.Inc()
	what := "it was gone"
	if op.Action == plan.Update {
		what = "changed by someone else:"
		for i, d := range op.Diffs {
			if i == 3 {
				what += " ..."
				break
			}
			what += " " + d.Path
		}
	}
	r.log.Info("drift healed", "object", op.Ref.String(), "what", what)
	r.event(ctx, o, "Normal", "DriftHealed", fmt.Sprintf("put back to what %s:%d declares; %s", op.File, op.Line, what))
}

// event stores an event; one that cannot be stored is not worth more than a line.
func (r *Reconciler) event(ctx context.Context, o schema.Object, kind, reason, message string) {
	if _, err := client.Create(ctx, r.cfg.Client, report.Event(o, kind, reason, message, time.Now()), client.WriteOptions{}); err != nil && ctx.Err() == nil {
		r.log.Debug("event not stored", "reason", reason, "err", err)
	}
}

func short(sha string) string { return sha[:min(7, len(sha))] }
