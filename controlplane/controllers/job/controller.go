// Package job runs pods until enough of them have succeeded.
//
// Watches Jobs and Pods. Owns the Pods that it created, their finalizer
// batch.kubernetes.io/job-tracking, and the status of Jobs. It promises to
// count each pod that ends exactly once: a pod keeps the finalizer until its
// UID stands in the Job's status, and leaves the status only when the
// finalizer is gone. A pod whose Job is gone loses it too.
//
// Not supported: podFailurePolicy, successPolicy and backoffLimitPerIndex.
package job

import (
	"context"
	"fmt"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/schema"
)

// Controller reconciles Jobs.
type Controller struct {
	cfg     controller.Tools
	pods    podset.Control
	pending *podset.Pending
}

// New returns a controller; it starts nothing.
func New(cfg controller.Tools) *Controller {
	pending := &podset.Pending{}
	return &Controller{cfg: cfg, pending: pending, pods: podset.Control{Client: cfg.Client, Recorder: cfg.Recorder, Pending: pending}}
}

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which Jobs.
func (c *Controller) Watches() []controller.Watch {
	jobs := schema.ResourceFor[*batchv1.Job]()
	selects := func(owner, o schema.Object) bool { return podset.Selects(owner.(*batchv1.Job).Spec.Selector, o) }
	byOwner := podset.WakeOwner(c.cfg.Cache, jobs, selects)
	return []controller.Watch{
		{Resource: jobs, Map: c.wakeByJob},
		{Resource: schema.ResourceFor[*corev1.Pod](), Map: func(ev client.Event) []schema.Key { return c.wakeByPod(ev, byOwner) }},
	}
}

// Reconcile takes the next step of one Job.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	if pod, ok := orphanOf(key); ok {
		return controller.Result{}, c.free(ctx, pod)
	}
	// Read.
	job, ok := client.Cached[*batchv1.Job](c.cfg.Cache, key)
	if !ok {
		return controller.Result{}, nil
	}
	settled, err := c.pending.Settled(ctx, c.cfg.Client, c.cfg.Cache, job)
	if err != nil {
		return controller.Result{}, fmt.Errorf("check pods of %s: %w", key, err)
	}
	pods, err := c.claim(ctx, job)
	if err != nil {
		return controller.Result{}, err
	}

	// Decide.
	p := plan(job, pods, c.cfg.Now())

	// Act: the status first, as it is what remembers the pods that are let go.
	written, err := c.report(ctx, job, p.status)
	if err != nil {
		return controller.Result{}, err
	}
	if err := c.release(ctx, p.release); err != nil {
		return controller.Result{}, err
	}
	if !settled {
		return controller.Result{RequeueAfter: podset.LagCheck}, nil
	}
	if err := c.manage(ctx, written, p); err != nil {
		return controller.Result{}, err
	}
	return controller.Result{RequeueAfter: p.again}, nil
}

// claim returns the Job's pods.
func (c *Controller) claim(ctx context.Context, job *batchv1.Job) ([]*corev1.Pod, error) {
	sel := labels.SelectorFromSet(labels.Set{batchv1.ControllerUidLabel: string(job.UID)})
	if job.Spec.Selector != nil {
		var err error
		if sel, err = metav1.LabelSelectorAsSelector(job.Spec.Selector); err != nil {
			return nil, controller.Terminal(fmt.Errorf("read selector of %s: %w", schema.KeyOf(job), err))
		}
	}
	return podset.Claim[*corev1.Pod](ctx, c.cfg.Client, c.cfg.Cache, job, sel)
}

// report writes the status where it changed, and tells of it in events. It
// returns the Job as stored.
func (c *Controller) report(ctx context.Context, job *batchv1.Job, status batchv1.JobStatus) (*batchv1.Job, error) {
	if apiequality.Semantic.DeepEqual(job.Status, status) {
		return job, nil
	}
	next := job.DeepCopy()
	next.Status = status
	got, err := client.UpdateStatus(ctx, c.cfg.Client, next)
	if err != nil {
		return nil, fmt.Errorf("update status of %s: %w", schema.KeyOf(job), err)
	}
	c.announce(job, status)
	return got, nil
}

// announce records what changed in the conditions.
func (c *Controller) announce(job *batchv1.Job, status batchv1.JobStatus) {
	for _, cond := range status.Conditions {
		before := condition(job.Status.Conditions, cond.Type)
		if before != nil && before.Status == cond.Status {
			continue
		}
		switch {
		case cond.Type == batchv1.JobComplete && cond.Status == corev1.ConditionTrue:
			c.cfg.Recorder.Event(job, corev1.EventTypeNormal, "Completed", "Job completed")
		case cond.Type == batchv1.JobFailed && cond.Status == corev1.ConditionTrue:
			c.cfg.Recorder.Event(job, corev1.EventTypeWarning, cond.Reason, cond.Message)
		case cond.Type == batchv1.JobSuspended && cond.Status == corev1.ConditionTrue:
			c.cfg.Recorder.Event(job, corev1.EventTypeNormal, "Suspended", "Job suspended")
		case cond.Type == batchv1.JobSuspended && before != nil:
			c.cfg.Recorder.Event(job, corev1.EventTypeNormal, "Resumed", "Job resumed")
		}
	}
}

// manage creates and deletes pods.
func (c *Controller) manage(ctx context.Context, job *batchv1.Job, p decision) error {
	if len(p.remove) > 0 {
		// Without the finalizer first: a pod that we end is no failure.
		if err := c.release(ctx, p.remove); err != nil {
			return err
		}
		if err := c.pods.Delete(ctx, job, p.remove); err != nil {
			return err
		}
	}
	if len(p.create) == 0 {
		return nil
	}
	pods := make([]*corev1.Pod, len(p.create))
	for i, index := range p.create {
		pods[i] = newPod(job, index)
	}
	_, err := c.pods.Create(ctx, job, pods)
	return err
}
