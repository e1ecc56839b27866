// Package statefulset runs numbered pods, each with a name and volumes of its
// own, one after the other.
//
// Watches StatefulSets, Pods and PersistentVolumeClaims. Owns the Pods and
// ControllerRevisions that it created or adopted, and the status of
// StatefulSets. It creates the claims of a pod and never deletes one.
package statefulset

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/history"
	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/schema"
)

// Controller reconciles StatefulSets.
type Controller struct {
	cfg     controller.Tools
	pending *podset.Pending
}

// New returns a controller; it starts nothing.
func New(cfg controller.Tools) *Controller { return &Controller{cfg: cfg, pending: &podset.Pending{}} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which StatefulSets.
func (c *Controller) Watches() []controller.Watch {
	sets := schema.ResourceFor[*appsv1.StatefulSet]()
	selects := func(owner, o schema.Object) bool {
		set := owner.(*appsv1.StatefulSet)
		_, ours := ordinalOf(set, o.GetName())
		return ours && podset.Selects(set.Spec.Selector, o)
	}
	return []controller.Watch{
		{Resource: sets},
		{Resource: schema.ResourceFor[*corev1.Pod](), Map: podset.WakeOwner(c.cfg.Cache, sets, selects)},
	}
}

// Reconcile takes the next step of one StatefulSet.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	// Read.
	set, ok := client.Cached[*appsv1.StatefulSet](c.cfg.Cache, key)
	if !ok || set.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	sel, err := metav1.LabelSelectorAsSelector(set.Spec.Selector)
	if err != nil {
		return controller.Result{}, controller.Terminal(fmt.Errorf("read selector of %s: %w", key, err))
	}
	settled, err := c.pending.Settled(ctx, c.cfg.Client, c.cfg.Cache, set)
	if err != nil {
		return controller.Result{}, fmt.Errorf("check pods of %s: %w", key, err)
	}
	pods, err := podset.Claim[*corev1.Pod](ctx, c.cfg.Client, c.cfg.Cache, set, sel)
	if err != nil {
		return controller.Result{}, err
	}
	revs := history.Of(c.cfg.Cache, set)
	update, err := history.Sync(ctx, c.cfg.Client, revs, set, &set.Spec.Template)
	if err != nil {
		return controller.Result{}, err
	}
	w := world{set: set, pods: pods, current: update, update: update, now: c.cfg.Now()}
	for _, r := range revs {
		if r.Name == set.Status.CurrentRevision {
			w.current = r
		}
	}

	// Decide.
	p := plan(w)

	// Act.
	if !settled {
		return controller.Result{RequeueAfter: podset.LagCheck}, nil
	}
	if err := c.act(ctx, w, p); err != nil {
		return controller.Result{}, err
	}
	if !apiequality.Semantic.DeepEqual(set.Status, p.status) {
		next := set.DeepCopy()
		next.Status = p.status
		if _, err := client.UpdateStatus(ctx, c.cfg.Client, next); err != nil {
			return controller.Result{}, fmt.Errorf("update status of %s: %w", key, err)
		}
	}
	used := map[string]bool{history.Hash(w.current): true, history.Hash(w.update): true}
	for _, pod := range pods {
		used[pod.Labels[appsv1.ControllerRevisionHashLabelKey]] = true
	}
	if err := history.Trim(ctx, c.cfg.Client, revs, used, set.Spec.RevisionHistoryLimit); err != nil {
		return controller.Result{}, err
	}
	return controller.Result{RequeueAfter: p.again}, nil
}

// act carries out a plan.
func (c *Controller) act(ctx context.Context, w world, p decision) error {
	for _, pod := range p.remove {
		if pod.Status.Phase == corev1.PodFailed {
			c.cfg.Recorder.Eventf(w.set, corev1.EventTypeWarning, "RecreatingFailedPod", "StatefulSet %s is recreating failed Pod %s", schema.KeyOf(w.set), pod.Name)
		}
		err := client.Delete[*corev1.Pod](ctx, c.cfg.Client, schema.KeyOf(pod), client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &pod.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			c.cfg.Recorder.Eventf(w.set, corev1.EventTypeWarning, "FailedDelete", "delete Pod %s in StatefulSet %s failed error: %s", pod.Name, w.set.Name, err)
			return fmt.Errorf("delete pod %s: %w", schema.KeyOf(pod), err)
		}
		c.pending.Deleted(w.set, pod)
		c.cfg.Recorder.Eventf(w.set, corev1.EventTypeNormal, "SuccessfulDelete", "delete Pod %s in StatefulSet %s successful", pod.Name, w.set.Name)
	}
	for _, n := range p.create {
		if err := c.create(ctx, w, n); err != nil {
			return err
		}
	}
	return nil
}

// create creates the claims of a number that are missing, then its pod.
func (c *Controller) create(ctx context.Context, w world, n numbered) error {
	template, err := history.Template(n.revision)
	if err != nil {
		return err
	}
	for _, claim := range claims(w.set, n.ordinal) {
		if _, ok := client.Cached[*corev1.PersistentVolumeClaim](c.cfg.Cache, schema.KeyOf(claim)); ok {
			continue
		}
		_, err := client.Create(ctx, c.cfg.Client, claim, client.WriteOptions{})
		if apierrors.IsAlreadyExists(err) {
			continue
		}
		if err != nil {
			c.cfg.Recorder.Eventf(w.set, corev1.EventTypeWarning, "FailedCreate", "create Claim %s Pod %s in StatefulSet %s failed error: %s", claim.Name, podName(w.set, n.ordinal), w.set.Name, err)
			return fmt.Errorf("create claim %s: %w", schema.KeyOf(claim), err)
		}
		c.cfg.Recorder.Eventf(w.set, corev1.EventTypeNormal, "SuccessfulCreate", "create Claim %s Pod %s in StatefulSet %s success", claim.Name, podName(w.set, n.ordinal), w.set.Name)
	}
	pod := newPod(w.set, template, history.Hash(n.revision), n.ordinal)
	got, err := client.Create(ctx, c.cfg.Client, pod, client.WriteOptions{})
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return nil
	}
	if err != nil {
		c.cfg.Recorder.Eventf(w.set, corev1.EventTypeWarning, "FailedCreate", "create Pod %s in StatefulSet %s failed error: %s", pod.Name, w.set.Name, err)
		return fmt.Errorf("create pod %s: %w", schema.KeyOf(pod), err)
	}
	c.pending.Created(w.set, got)
	c.cfg.Recorder.Eventf(w.set, corev1.EventTypeNormal, "SuccessfulCreate", "create Pod %s in StatefulSet %s successful", pod.Name, w.set.Name)
	return nil
}
