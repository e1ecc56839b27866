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
	"fmt"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

const (
	// ManagedBy is the value of the label by which our slices are known.
	ManagedBy = "endpointslicemirroring-controller.k8s.io"
	// leader is the annotation of a lock.
	leader = "control-plane.alpha.kubernetes.io/leader"
)

// Config is everything the controller needs from outside.
type Config struct {
	Client client.Interface
	Cache  client.Cache
	// Recorder may be nil.
	Recorder *client.Recorder
}

// Controller mirrors.
type Controller struct{ cfg Config }

// New returns a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg} }

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
		{Resource: schema.ResourceFor[*discoveryv1.EndpointSlice](), Map: func(ev client.Event) []schema.Key {
			l := ev.Object.GetLabels()
			if l[discoveryv1.LabelManagedBy] != ManagedBy {
				return nil
			}
			return []schema.Key{{Namespace: ev.Object.GetNamespace(), Name: l[discoveryv1.LabelServiceName]}}
		}},
	}
}

// Reconcile brings the slices of one Endpoints up to date.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	have := c.slices(key)
	e, ok := client.Cached[*corev1.Endpoints](c.cfg.Cache, key)
	if !ok || !c.mirrors(e) {
		return controller.Result{}, c.remove(ctx, have)
	}
	p := plan(e, have)
	if p.invalid > 0 {
		c.cfg.Recorder.Eventf(e, corev1.EventTypeWarning, "InvalidIPAddress", "Skipped %d invalid IP addresses when mirroring to EndpointSlices", p.invalid)
	}
	if p.skipped > p.invalid {
		c.cfg.Recorder.Eventf(e, corev1.EventTypeWarning, "TooManyAddressesToMirror",
			"A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped", maxAddresses, p.skipped)
	}
	if e.DeletionTimestamp == nil {
		for _, s := range p.create {
			_, err := client.Create(ctx, c.cfg.Client, s, client.WriteOptions{})
			if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				return controller.Result{}, nil
			}
			if err != nil {
				return controller.Result{}, fmt.Errorf("create endpoint slice of endpoints %s: %w", key, err)
			}
		}
	}
	for _, s := range p.update {
		if _, err := client.Update(ctx, c.cfg.Client, s, client.WriteOptions{}); err != nil {
			return controller.Result{}, fmt.Errorf("update endpoint slice %s: %w", schema.KeyOf(s), err)
		}
	}
	return controller.Result{}, c.remove(ctx, p.remove)
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

func (c *Controller) remove(ctx context.Context, all []*discoveryv1.EndpointSlice) error {
	for _, s := range all {
		err := client.Delete[*discoveryv1.EndpointSlice](ctx, c.cfg.Client, schema.KeyOf(s), client.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete endpoint slice %s: %w", schema.KeyOf(s), err)
		}
	}
	return nil
}

// slices returns the slices of Endpoints that are ours.
func (c *Controller) slices(key schema.Key) []*discoveryv1.EndpointSlice {
	var out []*discoveryv1.EndpointSlice
	for _, s := range client.CachedList[*discoveryv1.EndpointSlice](c.cfg.Cache, key.Namespace) {
		if s.Labels[discoveryv1.LabelServiceName] == key.Name && s.Labels[discoveryv1.LabelManagedBy] == ManagedBy && s.DeletionTimestamp == nil {
			out = append(out, s)
		}
	}
	return out
}
