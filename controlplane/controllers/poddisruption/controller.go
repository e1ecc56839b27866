// Package poddisruption says how many pods of each PodDisruptionBudget may be
// evicted now.
//
// Watches PodDisruptionBudgets, Pods, and the sizes of Deployments,
// ReplicaSets, StatefulSets, ReplicationControllers and custom resources that have
// a scale. Owns the status of PodDisruptionBudgets, and takes the condition
// DisruptionTarget back from pods that were not disrupted after all. It promises
// that a budget which it cannot count allows no eviction (condition
// DisruptionAllowed=False, reason SyncFailed).
package poddisruption

import (
	"context"
	"errors"
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

// Config is everything the controller needs from outside.
type Config struct {
	controller.Tools // the cache holds every resource that is served
	// Catalog is what is served. nil: the table alone.
	Catalog *schema.Live
}

// Controller keeps the status of budgets.
type Controller struct{ cfg Config }

// New returns a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg: cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which budgets. A set wakes those of its
// namespace: their pods may be its own.
func (c *Controller) Watches() []controller.Watch {
	byPod := func(ev client.Event) []schema.Key {
		keys := c.wakeMarked(ev)
		for _, b := range client.CachedList[*policyv1.PodDisruptionBudget](c.cfg.Cache, ev.Object.GetNamespace()) {
			sel, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
			if err == nil && (sel.Matches(labels.Set(ev.Object.GetLabels())) || ev.Old != nil && sel.Matches(labels.Set(ev.Old.GetLabels()))) {
				keys = append(keys, schema.KeyOf(b))
			}
		}
		return keys
	}
	bySet := func(ev client.Event) []schema.Key {
		if ev.Old != nil && ev.Type == client.Modified && sizeOf(ev.Old) == sizeOf(ev.Object) {
			return nil
		}
		return c.budgets(ev.Object.GetNamespace())
	}
	return []controller.Watch{
		{Resource: schema.ResourceFor[*policyv1.PodDisruptionBudget]()},
		{Resource: schema.ResourceFor[*corev1.Pod](), Map: byPod},
		{Resource: schema.ResourceFor[*appsv1.Deployment](), Map: bySet},
		{Resource: schema.ResourceFor[*appsv1.ReplicaSet](), Map: bySet},
		{Resource: schema.ResourceFor[*appsv1.StatefulSet](), Map: bySet},
		{Resource: schema.ResourceFor[*corev1.ReplicationController](), Map: bySet},
	}
}

// budgets are those of a namespace.
func (c *Controller) budgets(namespace string) (keys []schema.Key) {
	for _, b := range client.CachedList[*policyv1.PodDisruptionBudget](c.cfg.Cache, namespace) {
		keys = append(keys, schema.KeyOf(b))
	}
	return keys
}

// Reconcile brings the status of one budget up to date. Where it cannot be
// counted the budget allows nothing: a number of earlier days must not let pods
// go that nobody has counted since.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	if pod, ok := markedOf(key); ok {
		return c.unmark(ctx, pod)
	}
	b, ok := client.Cached[*policyv1.PodDisruptionBudget](c.cfg.Cache, key)
	if !ok {
		return controller.Result{}, nil
	}
	d, err := c.count(ctx, b)
	if err != nil {
		return controller.Result{}, errors.Join(fmt.Errorf("count pods of budget %s: %w", key, err), c.write(ctx, b, failed(b, err, c.cfg.Now()), func() {
			c.cfg.Recorder.Eventf(b, corev1.EventTypeWarning, "CalculateExpectedPodCountFailed", "Failed to calculate the number of expected pods: %v", err)
		}))
	}
	return controller.Result{RequeueAfter: d.again}, c.write(ctx, b, d.status, func() { c.announce(b, d) })
}

// announce tells of what is odd about a budget, whenever its status changes.
func (c *Controller) announce(b *policyv1.PodDisruptionBudget, d decision) {
	if d.none {
		c.cfg.Recorder.Event(b, corev1.EventTypeNormal, "NoPods", "No matching pods found")
	}
	if len(d.unmanaged) > 0 {
		c.cfg.Recorder.Eventf(b, corev1.EventTypeWarning, "UnmanagedPods", "Pods selected by this PodDisruptionBudget (selector: %v) were found "+
			"to be unmanaged. As a result, the status of the PDB cannot be calculated correctly, which may result in undefined behavior. "+
			"To account for these pods please set \".spec.minAvailable\" "+
			"field of the PDB to an integer value.", b.Spec.Selector)
	}
}

// count reads the pods of a budget and says what is true of it.
func (c *Controller) count(ctx context.Context, b *policyv1.PodDisruptionBudget) (decision, error) {
	sel, err := metav1.LabelSelectorAsSelector(b.Spec.Selector)
	if err != nil {
		return decision{}, controller.Terminal(fmt.Errorf("read selector: %w", err))
	}
	var pods []*corev1.Pod
	for _, p := range client.CachedList[*corev1.Pod](c.cfg.Cache, b.Namespace) {
		if sel.Matches(labels.Set(p.Labels)) {
			pods = append(pods, p)
		}
	}
	return plan(b, pods, c.sizes(ctx), c.cfg.Now())
}

// write stores a status that is new, and tells of it.
func (c *Controller) write(ctx context.Context, b *policyv1.PodDisruptionBudget, status policyv1.PodDisruptionBudgetStatus, tell func()) error {
	if apiequality.Semantic.DeepEqual(b.Status, status) {
		return nil
	}
	tell()
	next := b.DeepCopy()
	next.Status = status
	if _, err := client.UpdateStatus(ctx, c.cfg.Client, next); err != nil {
		return fmt.Errorf("update status of budget %s: %w", schema.KeyOf(b), err)
	}
	return nil
}
