// Package poddisruption says how many pods of each PodDisruptionBudget may be
// evicted now.
//
// Watches PodDisruptionBudgets, Pods, and the sizes of ReplicaSets,
// StatefulSets and ReplicationControllers. Owns the status of
// PodDisruptionBudgets.
package poddisruption

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// Controller keeps the status of budgets.
type Controller struct{ cfg controller.Tools }

// New returns a controller; it starts nothing.
func New(cfg controller.Tools) *Controller { return &Controller{cfg: cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which budgets.
func (c *Controller) Watches() []controller.Watch {
	budgets := schema.ResourceFor[*policyv1.PodDisruptionBudget]()
	byPod := func(ev client.Event) []schema.Key {
		var keys []schema.Key
		for _, b := range client.CachedList[*policyv1.PodDisruptionBudget](c.cfg.Cache, ev.Object.GetNamespace()) {
			sel, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
			if err == nil && (sel.Matches(labels.Set(ev.Object.GetLabels())) || ev.Old != nil && sel.Matches(labels.Set(ev.Old.GetLabels()))) {
				keys = append(keys, schema.KeyOf(b))
			}
		}
		return keys
	}
	return []controller.Watch{{Resource: budgets}, {Resource: schema.ResourceFor[*corev1.Pod](), Map: byPod}}
}

// Reconcile brings the status of one budget up to date.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	b, ok := client.Cached[*policyv1.PodDisruptionBudget](c.cfg.Cache, key)
	if !ok {
		return controller.Result{}, nil
	}
	sel, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return controller.Result{}, controller.Terminal(fmt.Errorf("read selector of %s: %w", key, err))
	}
	var pods []*corev1.Pod
	for _, p := range client.CachedList[*corev1.Pod](c.cfg.Cache, key.Namespace) {
		if sel.Matches(labels.Set(p.Labels)) {
			pods = append(pods, p)
		}
	}
	status, again, err := plan(b, pods, c.scaleOf, c.cfg.Now())
	if err != nil {
		c.cfg.Recorder.Eventf(b, corev1.EventTypeWarning, "CalculateExpectedPodCountFailed", "Failed to calculate the number of expected pods: %v", err)
		return controller.Result{}, fmt.Errorf("count pods of budget %s: %w", key, err)
	}
	if len(pods) == 0 {
		c.cfg.Recorder.Event(b, corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	if apiequality.Semantic.DeepEqual(b.Status, status) {
		return controller.Result{RequeueAfter: again}, nil
	}
	next := b.DeepCopy()
	next.Status = status
	if _, err := client.UpdateStatus(ctx, c.cfg.Client, next); err != nil {
		return controller.Result{}, fmt.Errorf("update status of budget %s: %w", key, err)
	}
	return controller.Result{RequeueAfter: again}, nil
}

// scaleOf returns the size of the set that controls a pod, and that set's UID:
// of a Deployment where one stands behind it.
func (c *Controller) scaleOf(p *corev1.Pod) (uid string, size int32, ok bool) {
	ref := metav1.GetControllerOfNoCopy(p)
	if ref == nil {
		return "", 0, false
	}
	key := schema.Key{Namespace: p.Namespace, Name: ref.Name}
	switch ref.Kind {
	case "ReplicaSet":
		rs, found := client.Cached[*appsv1.ReplicaSet](c.cfg.Cache, key)
		if !found || rs.UID != ref.UID {
			return "", 0, false
		}
		if owner := metav1.GetControllerOfNoCopy(rs); owner != nil && owner.Kind == "Deployment" {
			d, found := client.Cached[*appsv1.Deployment](c.cfg.Cache, schema.Key{Namespace: p.Namespace, Name: owner.Name})
			if found && d.UID == owner.UID {
				return string(d.UID), deref(d.Spec.Replicas), true
			}
		}
		return string(rs.UID), deref(rs.Spec.Replicas), true
	case "StatefulSet":
		set, found := client.Cached[*appsv1.StatefulSet](c.cfg.Cache, key)
		return string(ref.UID), deref2(set, func(s *appsv1.StatefulSet) *int32 { return s.Spec.Replicas }), found && set.UID == ref.UID
	case "ReplicationController":
		rc, found := client.Cached[*corev1.ReplicationController](c.cfg.Cache, key)
		return string(ref.UID), deref2(rc, func(s *corev1.ReplicationController) *int32 { return s.Spec.Replicas }), found && rc.UID == ref.UID
	}
	return "", 0, false
}

func deref(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func deref2[T any](o *T, of func(*T) *int32) int32 {
	if o == nil {
		return 0
	}
	return deref(of(o))
}
