// Package endpointslice keeps the EndpointSlices of each Service in step with
// the Pods that the Service selects.
//
// Watches Services, Pods and its own EndpointSlices. Owns the EndpointSlices
// whose label endpointslice.kubernetes.io/managed-by names it. A Service
// without a selector is left to whoever writes its slices.
package endpointslice

import (
	"context"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/controlplane/controller/sliceset"
	"github.com/writ-os/writ/schema"
)

// ManagedBy is the value of the label by which our slices are known.
const ManagedBy sliceset.Manager = "endpointslice-controller.k8s.io"

// Controller writes EndpointSlices.
type Controller struct{ cfg controller.Tools }

// New returns a controller; it starts nothing.
func New(cfg controller.Tools) *Controller { return &Controller{cfg: cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which Services.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{
		{Resource: schema.ResourceFor[*corev1.Service]()},
		{Resource: schema.ResourceFor[*corev1.Pod](), Map: podset.WakeServices(c.cfg.Cache)},
		ManagedBy.Watch(),
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
	have := ManagedBy.Of(c.cfg.Cache, key)

	// Decide.
	p := plan(svc, pods, have, c.zone)

	// Act.
	return controller.Result{}, p.Write(ctx, c.cfg.Client, key.String())
}

// zone returns the zone of a node; "" when it has none.
func (c *Controller) zone(node string) string {
	n, ok := client.Cached[*corev1.Node](c.cfg.Cache, schema.Key{Name: node})
	if !ok {
		return ""
	}
	return n.Labels[corev1.LabelTopologyZone]
}
