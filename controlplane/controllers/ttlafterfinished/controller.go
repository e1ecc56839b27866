// Package ttlafterfinished deletes Jobs some time after they have finished.
//
// Watches Jobs. Owns nothing; it deletes what spec.ttlSecondsAfterFinished
// says, with all that the Job owns.
package ttlafterfinished

import (
	"context"
	"fmt"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// Controller deletes finished Jobs.
type Controller struct{ cfg controller.Tools }

// New returns a controller; it starts nothing.
func New(cfg controller.Tools) *Controller { return &Controller{cfg: cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which Jobs.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{{Resource: schema.ResourceFor[*batchv1.Job](), Map: func(ev client.Event) []schema.Key {
		job := ev.Object.(*batchv1.Job)
		if _, ok := expiry(job); !ok || ev.Type == client.Deleted {
			return nil
		}
		return []schema.Key{schema.KeyOf(job)}
	}}}
}

// Reconcile deletes a Job whose time has come.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	job, ok := client.Cached[*batchv1.Job](c.cfg.Cache, key)
	if !ok || job.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	at, ok := expiry(job)
	if !ok {
		return controller.Result{}, nil
	}
	if wait := at.Sub(c.cfg.Now()); wait > 0 {
		return controller.Result{RequeueAfter: wait}, nil
	}
	err := client.Delete[*batchv1.Job](ctx, c.cfg.Client, key, client.DeleteOptions{
		Propagation:   metav1.DeletePropagationForeground,
		Preconditions: &metav1.Preconditions{UID: &job.UID, ResourceVersion: &job.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return controller.Result{}, fmt.Errorf("delete finished job %s: %w", key, err)
	}
	return controller.Result{}, nil
}

// expiry is when a finished Job is to go; false for one that is not finished
// or stays.
func expiry(job *batchv1.Job) (time.Time, bool) {
	if job.Spec.TTLSecondsAfterFinished == nil {
		return time.Time{}, false
	}
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue {
			return c.LastTransitionTime.Add(time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second), true
		}
	}
	return time.Time{}, false
}
