// Package deployment moves each Deployment from one ReplicaSet to the next:
// rolling or all at once, as fast as maxSurge and maxUnavailable allow.
//
// Watches Deployments, ReplicaSets, and Pods (for Recreate). Owns the
// ReplicaSets it created or adopted, and the status and the revision
// annotation of Deployments. Names, hashes, annotations, conditions and the
// order of steps are those of Kubernetes, so that kubectl rollout understands
// them.
package deployment

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/schema"
)

// Controller reconciles Deployments.
type Controller struct{ cfg controller.Tools }

// New returns a controller; it starts nothing.
func New(cfg controller.Tools) *Controller { return &Controller{cfg: cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which Deployments.
func (c *Controller) Watches() []controller.Watch {
	deployments := schema.ResourceFor[*appsv1.Deployment]()
	selects := func(owner, o schema.Object) bool {
		return podset.Selects(owner.(*appsv1.Deployment).Spec.Selector, o)
	}
	return []controller.Watch{
		{Resource: deployments},
		{Resource: schema.ResourceFor[*appsv1.ReplicaSet](), Map: podset.WakeOwner(c.cfg.Cache, deployments, selects)},
		{Resource: schema.ResourceFor[*corev1.Pod](), Map: c.wakeByPod},
	}
}

// wakeByPod wakes a Deployment that waits for its old pods to be gone.
func (c *Controller) wakeByPod(ev client.Event) []schema.Key {
	pod := ev.Object.(*corev1.Pod)
	if ev.Type != client.Deleted && !podset.Done(pod) {
		return nil
	}
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil || ref.Kind != "ReplicaSet" {
		return nil
	}
	rs, ok := client.Cached[*appsv1.ReplicaSet](c.cfg.Cache, schema.Key{Namespace: pod.Namespace, Name: ref.Name})
	if !ok {
		return nil
	}
	ref = metav1.GetControllerOfNoCopy(rs)
	if ref == nil || ref.Kind != "Deployment" {
		return nil
	}
	key := schema.Key{Namespace: pod.Namespace, Name: ref.Name}
	d, ok := client.Cached[*appsv1.Deployment](c.cfg.Cache, key)
	if !ok || d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		return nil
	}
	return []schema.Key{key}
}

// Reconcile takes the next step of one Deployment.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	// Read.
	d, ok := client.Cached[*appsv1.Deployment](c.cfg.Cache, key)
	if !ok {
		return controller.Result{}, nil
	}
	if sel := d.Spec.Selector; sel == nil || len(sel.MatchLabels)+len(sel.MatchExpressions) == 0 {
		c.cfg.Recorder.Event(d, corev1.EventTypeWarning, "SelectingAll", "This deployment is selecting all pods. A non-empty selector is required.")
		return controller.Result{}, nil
	}
	sel, err := metav1.LabelSelectorAsSelector(d.Spec.Selector)
	if err != nil {
		return controller.Result{}, controller.Terminal(fmt.Errorf("read selector of %s: %w", key, err))
	}
	sets, err := podset.Claim[*appsv1.ReplicaSet](ctx, c.cfg.Client, c.cfg.Cache, d, sel)
	if err != nil {
		return controller.Result{}, err
	}
	w := worldOf(d, sets, c.podsRun)

	// Decide.
	p := plan(w)

	// Act.
	status, err := c.act(ctx, &w, p)
	if err != nil {
		return controller.Result{}, err
	}
	return c.report(ctx, w, p, status)
}

// podsRun says whether pods of old ReplicaSets are left that may still run.
func (c *Controller) podsRun(old []*appsv1.ReplicaSet) bool {
	for _, rs := range old {
		if rs.Status.Replicas > 0 {
			return true
		}
		for _, p := range podset.PodsOf(c.cfg.Cache, rs.UID) {
			if !podset.Done(p) {
				return true
			}
		}
	}
	return false
}

// report writes the status where it changed, and with it the revision: an
// annotation written alone would count as a new generation.
func (c *Controller) report(ctx context.Context, w world, p decision, noted appsv1.DeploymentStatus) (controller.Result, error) {
	next := w.d.DeepCopy()
	next.Status = statusOf(w, noted, c.cfg.Now())
	if p.rollout {
		next.Status = progress(w, next.Status, c.cfg.Now())
	}
	if w.current != nil && w.current.Annotations[annRevision] != "" {
		metav1.SetMetaDataAnnotation(&next.ObjectMeta, annRevision, w.current.Annotations[annRevision])
	}
	if !apiequality.Semantic.DeepEqual(w.d, next) {
		if _, err := client.UpdateStatus(ctx, c.cfg.Client, next); err != nil {
			return controller.Result{}, fmt.Errorf("update status of %s: %w", schema.KeyOf(w.d), err)
		}
	}
	return controller.Result{RequeueAfter: untilDeadline(w.d, next.Status, c.cfg.Now())}, nil
}
