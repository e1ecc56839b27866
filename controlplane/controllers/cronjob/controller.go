// Package cronjob starts Jobs by the clock.
//
// Watches CronJobs and Jobs. Owns the Jobs that it created and the status of
// CronJobs. It promises to start a Job at most once for each time of the
// schedule: the Job's name is made of that time.
package cronjob

import (
	"context"
	"errors"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/schema"
)

// Controller reconciles CronJobs.
type Controller struct{ cfg controller.Tools }

// New returns a controller; it starts nothing.
func New(cfg controller.Tools) *Controller { return &Controller{cfg: cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which CronJobs.
func (c *Controller) Watches() []controller.Watch {
	crons := schema.ResourceFor[*batchv1.CronJob]()
	return []controller.Watch{
		{Resource: crons},
		{Resource: schema.ResourceFor[*batchv1.Job](), Map: podset.WakeOwner(c.cfg.Cache, crons, nil)},
	}
}

// Reconcile starts what is due of one CronJob and clears away old Jobs.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	// Read.
	cron, ok := client.Cached[*batchv1.CronJob](c.cfg.Cache, key)
	if !ok {
		return controller.Result{}, nil
	}
	jobs := client.CachedIndex[*batchv1.Job](c.cfg.Cache, client.IndexOwner, string(cron.UID))

	// Decide.
	p, err := plan(cron, jobs, c.cfg.Now())
	if err != nil {
		c.cfg.Recorder.Eventf(cron, corev1.EventTypeWarning, "UnparseableSchedule", "unparseable schedule: %q : %s", cron.Spec.Schedule, err)
		return controller.Result{}, nil // only a change of the CronJob mends this
	}

	// Act.
	for _, e := range p.events {
		c.cfg.Recorder.Event(cron, e.kind, e.reason, e.message)
	}
	errs := []error{c.clear(ctx, cron, p)}
	if p.start != nil {
		errs = append(errs, c.start(ctx, cron, &p))
	}
	if !apiequality.Semantic.DeepEqual(cron.Status, p.status) {
		next := cron.DeepCopy()
		next.Status = p.status
		if _, err := client.UpdateStatus(ctx, c.cfg.Client, next); err != nil {
			errs = append(errs, fmt.Errorf("update status of %s: %w", key, err))
		}
	}
	return controller.Result{RequeueAfter: p.again}, errors.Join(errs...)
}

// clear deletes Jobs: those replaced, and those beyond the history.
func (c *Controller) clear(ctx context.Context, cron *batchv1.CronJob, p decision) error {
	var errs []error
	for _, j := range p.remove {
		err := client.Delete[*batchv1.Job](ctx, c.cfg.Client, schema.KeyOf(j), client.DeleteOptions{Propagation: metav1.DeletePropagationBackground})
		if err != nil && !apierrors.IsNotFound(err) {
			c.cfg.Recorder.Eventf(cron, corev1.EventTypeWarning, "FailedDelete", "Deleted job: %v", err)
			errs = append(errs, fmt.Errorf("delete job %s: %w", schema.KeyOf(j), err))
			continue
		}
		c.cfg.Recorder.Eventf(cron, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted job %v", j.Name)
	}
	return errors.Join(errs...)
}

// start creates the Job that is due.
func (c *Controller) start(ctx context.Context, cron *batchv1.CronJob, p *decision) error {
	got, err := client.Create(ctx, c.cfg.Client, p.start, client.WriteOptions{})
	switch {
	case apierrors.IsAlreadyExists(err):
		return nil // started before, and the cache lags
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case err != nil:
		c.cfg.Recorder.Eventf(cron, corev1.EventTypeWarning, "FailedCreate", "Error creating job: %v", err)
		p.status = cron.Status // not started: the time is still due
		return fmt.Errorf("create job %s: %w", schema.KeyOf(p.start), err)
	}
	c.cfg.Recorder.Eventf(cron, corev1.EventTypeNormal, "SuccessfulCreate", "Created job %v", got.Name)
	p.status.Active = append(p.status.Active, client.ReferenceTo(got))
	return nil
}
