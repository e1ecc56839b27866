// Package endpointslicemirroring keeps EndpointSlices in step with the Endpoints
// that people write for Services without a selector, for readers that know
// slices only (KEP-0752).
//
// Watches Endpoints, Services and its own EndpointSlices. Owns the EndpointSlices
// whose label endpointslice.kubernetes.io/managed-by names it. Endpoints with the
// label endpointslice.kubernetes.io/skip-mirror, and those that are the lock of a
// leader election, it leaves alone. It promises one slice for each family and set
// of ports, with 1000 addresses of a subset at most.
package endpointslicemirroring

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/sliceset"
	"github.com/writ-os/writ/schema"
)

const (
	// ManagedBy is the value of the label by which our slices are known.
	ManagedBy sliceset.Manager = "endpointslicemirroring-controller.k8s.io"
	// leader is the annotation of a lock.
	leader = "control-plane.alpha.kubernetes.io/leader"
)

// Controller mirrors.
type Controller struct{ cfg controller.Tools }

// New returns a controller; it starts nothing.
func New(cfg controller.Tools) *Controller { return &Controller{cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which Endpoints.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{
		{Resource: schema.ResourceFor[*corev1.Endpoints]()},
		{Resource: schema.ResourceFor[*corev1.Service](), Map: func(ev client.Event) []schema.Key {
			s, ok := ev.Object.(*corev1.Service)
			old, had := ev.Old.(*corev1.Service)
			if !ok || len(s.Spec.Selector) > 0 && (!had || old == nil || len(old.Spec.Selector) > 0) {
				return nil
			}
			return []schema.Key{schema.KeyOf(s)}
		}},
		ManagedBy.Watch(),
	}
}

// Reconcile brings the slices of one Endpoints up to date.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	have, owner := ManagedBy.Of(c.cfg.Cache, key), "endpoints "+key.String()
	e, ok := client.Cached[*corev1.Endpoints](c.cfg.Cache, key)
	if !ok || !c.mirrors(e) {
		none := sliceset.Changes{Remove: have}
		return controller.Result{}, none.Write(ctx, c.cfg.Client, owner)
	}
	p := plan(e, have)
	if p.invalid > 0 {
		c.cfg.Recorder.Eventf(e, corev1.EventTypeWarning, "InvalidIPAddress", "Skipped %d invalid IP addresses when mirroring to EndpointSlices", p.invalid)
	}
	if p.skipped > p.invalid {
		c.cfg.Recorder.Eventf(e, corev1.EventTypeWarning, "TooManyAddressesToMirror",
			"A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped", maxAddresses, p.skipped)
	}
	if e.DeletionTimestamp != nil {
		p.Create = nil
	}
	return controller.Result{}, p.Write(ctx, c.cfg.Client, owner)
}

// mirrors says whether Endpoints are to have slices: their Service selects
// nothing, so that no other controller writes some.
func (c *Controller) mirrors(e *corev1.Endpoints) bool {
	if _, lock := e.Annotations[leader]; lock || e.Labels[discoveryv1.LabelSkipMirror] == "true" {
		return false
	}
	s, ok := client.Cached[*corev1.Service](c.cfg.Cache, schema.KeyOf(e))
	return ok && len(s.Spec.Selector) == 0
}
