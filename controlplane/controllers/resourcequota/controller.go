// Package resourcequota counts what namespaces use of their quotas.
//
// Watches ResourceQuotas and whatever they may count. Owns the status of
// ResourceQuotas beside admission, which adds to it what a write is about to
// use. It promises that what is gone is given back at once, and that used is
// counted afresh every five minutes, whatever was missed.
package resourcequota

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/quota"
	"github.com/writ-os/writ/schema"
)

// resync is how often every quota is counted again, as upstream.
const resync = 5 * time.Minute

// Config is everything the controller needs from outside.
type Config struct {
	controller.Tools // the cache holds every resource that is served
	// Catalog is what may be counted. nil: the table alone.
	Catalog *schema.Live
}

// Controller counts.
type Controller struct{ cfg Config }

// New returns a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which quotas.
func (c *Controller) Watches() []controller.Watch {
	quotas := schema.ResourceFor[*corev1.ResourceQuota]()
	out := []controller.Watch{{Resource: quotas}}
	for _, r := range schema.Builtin.Stored() {
		if r.Namespaced && r != quotas && r != schema.ResourceFor[*corev1.Event]() {
			out = append(out, c.Custom(r))
		}
	}
	return out
}

// Custom says which events of a resource that a definition has added wake which
// quotas.
func (c *Controller) Custom(stored *schema.Resource) controller.Watch {
	return controller.Watch{Resource: stored, Map: func(ev client.Event) []schema.Key {
		if !stored.Namespaced || !c.frees(ev) {
			return nil
		}
		var keys []schema.Key
		for _, q := range c.cfg.Cache.List(schema.ResourceFor[*corev1.ResourceQuota](), ev.Object.GetNamespace()) {
			keys = append(keys, schema.KeyOf(q))
		}
		return keys
	}}
}

// frees says whether an event may give something back: what is added has been
// counted when it was admitted.
func (c *Controller) frees(ev client.Event) bool {
	switch ev.Type {
	case client.Deleted:
		return true
	case client.Modified:
		old, ok := ev.Old.(*corev1.Pod)
		pod, isPod := ev.Object.(*corev1.Pod)
		if isPod {
			return !ok || quota.Ended(pod, c.cfg.Now()) != quota.Ended(old, c.cfg.Now()) || !apiequality.Semantic.DeepEqual(pod.Spec, old.Spec)
		}
		switch ev.Object.(type) {
		case *corev1.Service, *corev1.PersistentVolumeClaim:
			return true
		}
	}
	return false
}

// Reconcile counts what one quota limits.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	q, ok := client.Cached[*corev1.ResourceQuota](c.cfg.Cache, key)
	if !ok || q.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	list := func(r *schema.Resource) []schema.Object { return c.cfg.Cache.List(r, key.Namespace) }
	status := corev1.ResourceQuotaStatus{Hard: q.Spec.Hard, Used: quota.Used(q, c.cfg.Catalog.Load().Stored(), c.cfg.Now(), list)}
	if !apiequality.Semantic.DeepEqual(q.Status, status) {
		next := q.DeepCopy()
		next.Status = status
		if _, err := client.UpdateStatus(ctx, c.cfg.Client, next); err != nil && !apierrors.IsNotFound(err) {
			return controller.Result{}, fmt.Errorf("update status of quota %s: %w", key, err)
		}
	}
	return controller.Result{RequeueAfter: resync}, nil
}
