package deployment

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// act carries out a step. It returns the Deployment's status with what acting
// itself has to say: a collision of hashes, a new ReplicaSet, a refusal.
func (c *Controller) act(ctx context.Context, w *world, p decision) (appsv1.DeploymentStatus, error) {
	status := *w.d.Status.DeepCopy()
	if w.d.DeletionTimestamp == nil {
		if err := c.syncRevision(ctx, *w, &status); err != nil {
			return status, err
		}
		notePause(w.d, &status, c.cfg.Now())
	}
	if p.create {
		if err := c.create(ctx, w, p.size, &status); err != nil {
			return status, err
		}
	}
	for _, s := range p.scale {
		if err := c.scale(ctx, *w, s); err != nil {
			return status, err
		}
	}
	for _, rs := range p.remove {
		err := client.Delete[*appsv1.ReplicaSet](ctx, c.cfg.Client, schema.KeyOf(rs), client.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return status, fmt.Errorf("delete old replica set %s: %w", schema.KeyOf(rs), err)
		}
	}
	return status, nil
}

// syncRevision gives the current ReplicaSet the highest revision and what else
// it takes from the Deployment.
func (c *Controller) syncRevision(ctx context.Context, w world, status *appsv1.DeploymentStatus) error {
	if w.current == nil {
		return nil
	}
	next := w.current.DeepCopy()
	annotate(w.d, next, nextRevision(w))
	next.Spec.MinReadySeconds = w.d.Spec.MinReadySeconds
	if !apiequality.Semantic.DeepEqual(next, w.current) {
		got, err := client.Update(ctx, c.cfg.Client, next, client.WriteOptions{})
		if err != nil {
			return fmt.Errorf("update replica set %s: %w", schema.KeyOf(next), err)
		}
		*w.current = *got.DeepCopy()
	}
	if hasDeadline(w.d) && condition(*status, appsv1.DeploymentProgressing) == nil {
		setCondition(status, appsv1.DeploymentProgressing, corev1.ConditionTrue, "FoundNewReplicaSet",
			fmt.Sprintf("Found new replica set %q", w.current.Name), c.cfg.Now())
	}
	return nil
}

// create stores the ReplicaSet of the template. Its name is the hash of the
// template: one that exists is ours from a moment ago, or a collision.
func (c *Controller) create(ctx context.Context, w *world, replicas int32, status *appsv1.DeploymentStatus) error {
	rs := newSet(*w, replicas)
	created, err := client.Create(ctx, c.cfg.Client, rs, client.WriteOptions{})
	if apierrors.IsAlreadyExists(err) {
		return c.collide(ctx, *w, rs)
	}
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	if err != nil {
		c.cfg.Recorder.Eventf(w.d, corev1.EventTypeWarning, "ReplicaSetCreateError", "Failed to create new replica set %q: %v", rs.Name, err)
		if hasDeadline(w.d) {
			next := w.d.DeepCopy()
			setCondition(&next.Status, appsv1.DeploymentProgressing, corev1.ConditionFalse, "ReplicaSetCreateError",
				fmt.Sprintf("Failed to create new replica set %q: %v", rs.Name, err), c.cfg.Now())
			if _, serr := client.UpdateStatus(ctx, c.cfg.Client, next); serr != nil {
				return fmt.Errorf("create replica set %s: %w (and its status: %w)", schema.KeyOf(rs), err, serr)
			}
		}
		return fmt.Errorf("create replica set %s: %w", schema.KeyOf(rs), err)
	}
	w.current = created
	if replicas > 0 {
		c.cfg.Recorder.Eventf(w.d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled up replica set %s from 0 to %d", rs.Name, replicas)
	}
	if hasDeadline(w.d) {
		setCondition(status, appsv1.DeploymentProgressing, corev1.ConditionTrue, "NewReplicaSetCreated",
			fmt.Sprintf("Created new replica set %q", rs.Name), c.cfg.Now())
	}
	return nil
}

// collide settles a name that is taken. A ReplicaSet of ours with our template
// will come by the cache; for any other the hash gets a new salt.
func (c *Controller) collide(ctx context.Context, w world, rs *appsv1.ReplicaSet) error {
	live, err := client.Get[*appsv1.ReplicaSet](ctx, c.cfg.Client, schema.KeyOf(rs))
	if err != nil {
		return fmt.Errorf("read replica set %s: %w", schema.KeyOf(rs), err)
	}
	if ref := metav1.GetControllerOfNoCopy(live); ref != nil && ref.UID == w.d.UID && sameTemplate(&live.Spec.Template, &w.d.Spec.Template) {
		return nil
	}
	next := w.d.DeepCopy()
	count := int32(1)
	if n := next.Status.CollisionCount; n != nil {
		count = *n + 1
	}
	next.Status.CollisionCount = &count
	if _, err := client.UpdateStatus(ctx, c.cfg.Client, next); err != nil {
		return fmt.Errorf("count hash collision of %s: %w", schema.KeyOf(w.d), err)
	}
	return fmt.Errorf("create replica set %s: name is taken by another template; tries again as collision %d", schema.KeyOf(rs), count)
}

// scale changes the size of one ReplicaSet.
func (c *Controller) scale(ctx context.Context, w world, s scaling) error {
	next := s.rs.DeepCopy()
	from := size(s.rs)
	next.Spec.Replicas = &s.to
	annotateSize(w.d, next)
	got, err := client.Update(ctx, c.cfg.Client, next, client.WriteOptions{})
	if err != nil {
		return fmt.Errorf("scale replica set %s: %w", schema.KeyOf(next), err)
	}
	*s.rs = *got.DeepCopy()
	direction := "up"
	if s.to < from {
		direction = "down"
	}
	if s.to != from {
		c.cfg.Recorder.Eventf(w.d, corev1.EventTypeNormal, "ScalingReplicaSet", "Scaled %s replica set %s from %d to %d", direction, next.Name, from, s.to)
	}
	return nil
}
