// Package endpointslice keeps the EndpointSlices of each Service in step with
// the Pods that the Service selects.
//
// Watches Services, Pods and its own EndpointSlices. Owns the EndpointSlices
// whose label endpointslice.kubernetes.io/managed-by names it. A Service
// without a selector is left to whoever writes its slices.
package endpointslice

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/schema"
)

// ManagedBy is the value of the label by which our slices are known.
const ManagedBy = "endpointslice-controller.k8s.io"

// Config is everything the controller needs from outside.
type Config struct {
	Client client.Interface
	Cache  client.Cache
}

// Controller writes EndpointSlices.
type Controller struct{ cfg Config }

// New returns a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg: cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which Services.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{
		{Resource: schema.ResourceFor[*corev1.Service]()},
		{Resource: schema.ResourceFor[*corev1.Pod](), Map: podset.WakeServices(c.cfg.Cache)},
		{Resource: schema.ResourceFor[*discoveryv1.EndpointSlice](), Map: func(ev client.Event) []schema.Key {
			l := ev.Object.GetLabels()
			if l[discoveryv1.LabelManagedBy] != ManagedBy {
				return nil
			}
			return []schema.Key{{Namespace: ev.Object.GetNamespace(), Name: l[discoveryv1.LabelServiceName]}}
		}},
	}
}

// Reconcile brings the slices of one Service up to date.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	// Read.
	svc, ok := client.Cached[*corev1.Service](c.cfg.Cache, key)
	if !ok || svc.DeletionTimestamp != nil {
		return controller.Result{}, nil // the owner references let garbage collection clean up
	}
	if len(svc.Spec.Selector) == 0 || svc.Spec.Type == corev1.ServiceTypeExternalName {
		return controller.Result{}, nil
	}
	pods := podset.Selected(c.cfg.Cache, svc)
	have := c.slices(key)

	// Decide.
	p := plan(svc, pods, have, c.zone)

	// Act.
	for _, s := range p.create {
		_, err := client.Create(ctx, c.cfg.Client, s, client.WriteOptions{})
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return controller.Result{}, nil
		}
		if err != nil {
			return controller.Result{}, fmt.Errorf("create endpoint slice of %s: %w", key, err)
		}
	}
	for _, s := range p.update {
		if _, err := client.Update(ctx, c.cfg.Client, s, client.WriteOptions{}); err != nil {
			return controller.Result{}, fmt.Errorf("update endpoint slice %s: %w", schema.KeyOf(s), err)
		}
	}
	for _, s := range p.remove {
		err := client.Delete[*discoveryv1.EndpointSlice](ctx, c.cfg.Client, schema.KeyOf(s), client.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return controller.Result{}, fmt.Errorf("delete endpoint slice %s: %w", schema.KeyOf(s), err)
		}
	}
	return controller.Result{}, nil
}

// slices returns the Service's slices that are ours.
func (c *Controller) slices(key schema.Key) []*discoveryv1.EndpointSlice {
	var out []*discoveryv1.EndpointSlice
	for _, s := range client.CachedList[*discoveryv1.EndpointSlice](c.cfg.Cache, key.Namespace) {
		if s.Labels[discoveryv1.LabelServiceName] == key.Name && s.Labels[discoveryv1.LabelManagedBy] == ManagedBy && s.DeletionTimestamp == nil {
			out = append(out, s)
		}
	}
	return out
}

// zone returns the zone of a node; "" when it has none.
func (c *Controller) zone(node string) string {
	n, ok := client.Cached[*corev1.Node](c.cfg.Cache, schema.Key{Name: node})
	if !ok {
		return ""
	}
	return n.Labels[corev1.LabelTopologyZone]
}
