// Package endpoints keeps the Endpoints object of each Service, for clients
// that do not read EndpointSlices.
//
// Watches Services, Pods and Endpoints. Owns the Endpoints of Services that
// have a selector.
package endpoints

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/schema"
)

// Controller writes Endpoints.
type Controller struct{ cfg controller.Tools }

// New returns a controller; it starts nothing.
func New(cfg controller.Tools) *Controller { return &Controller{cfg: cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which Services.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{
		{Resource: schema.ResourceFor[*corev1.Service]()},
		{Resource: schema.ResourceFor[*corev1.Pod](), Map: podset.WakeServices(c.cfg.Cache)},
		{Resource: schema.ResourceFor[*corev1.Endpoints]()},
	}
}

// Reconcile brings the Endpoints of one Service up to date.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	svc, ok := client.Cached[*corev1.Service](c.cfg.Cache, key)
	live, exists := client.Cached[*corev1.Endpoints](c.cfg.Cache, key)
	if !ok {
		return controller.Result{}, c.remove(ctx, live, exists)
	}
	if len(svc.Spec.Selector) == 0 || svc.Spec.Type == corev1.ServiceTypeExternalName {
		return controller.Result{}, nil
	}
	pods := podset.Selected(c.cfg.Cache, svc)
	next := plan(svc, pods, live)
	if !exists {
		_, err := client.Create(ctx, c.cfg.Client, next, client.WriteOptions{})
		if err != nil && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return controller.Result{}, fmt.Errorf("create endpoints %s: %w", key, err)
		}
		return controller.Result{}, nil
	}
	if apiequality.Semantic.DeepEqual(live, next) {
		return controller.Result{}, nil
	}
	if _, err := client.Update(ctx, c.cfg.Client, next, client.WriteOptions{}); err != nil {
		return controller.Result{}, fmt.Errorf("update endpoints %s: %w", key, err)
	}
	return controller.Result{}, nil
}

// remove deletes the Endpoints of a Service that is gone. Those that others
// wrote, as leader elections once did, are not ours to delete.
func (c *Controller) remove(ctx context.Context, live *corev1.Endpoints, exists bool) error {
	if !exists || live.Labels[labelManagedBy] != managedBy {
		return nil
	}
	err := client.Delete[*corev1.Endpoints](ctx, c.cfg.Client, schema.KeyOf(live), client.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &live.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete endpoints %s: %w", schema.KeyOf(live), err)
	}
	return nil
}
