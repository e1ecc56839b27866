// Package apiendpoint keeps the Service default/kubernetes and its endpoints:
// the address under which pods reach the API server.
//
// Watches Services, Endpoints and EndpointSlices. Owns those three objects named
// "kubernetes" in the namespace default.
package apiendpoint

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// key names all three objects.
var key = schema.Key{Namespace: "default", Name: "kubernetes"}

// Config is everything the controller needs from outside.
type Config struct {
	Client client.Interface
	Cache  client.Cache
	// ServiceIP is the first address of the service range.
	ServiceIP netip.Addr
	// Servers are the addresses at which API servers listen. No loopback: pods
	// must reach them.
	Servers func() []netip.AddrPort
	// Again is how soon they are asked for again. 0: never.
	Again time.Duration
}

// Controller keeps the objects.
type Controller struct{ cfg Config }

// New returns a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg: cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches are the events that wake the controller.
func (*Controller) Watches() []controller.Watch {
	ours := func(e client.Event) []schema.Key {
		if schema.KeyOf(e.Object) != key {
			return nil
		}
		return []schema.Key{key}
	}
	return []controller.Watch{
		{Resource: schema.ResourceFor[*corev1.Service](), Map: ours},
		{Resource: schema.ResourceFor[*corev1.Endpoints](), Map: ours},
		{Resource: schema.ResourceFor[*discoveryv1.EndpointSlice](), Map: ours},
	}
}

// Reconcile creates what is missing and puts back what was changed.
func (c *Controller) Reconcile(ctx context.Context, _ schema.Key) (controller.Result, error) {
	for _, want := range desired(c.cfg.ServiceIP, c.cfg.Servers()) {
		if err := c.ensure(ctx, want); err != nil {
			return controller.Result{}, fmt.Errorf("ensure %s %s: %w", want.GetObjectKind().GroupVersionKind().Kind, key, err)
		}
	}
	return controller.Result{RequeueAfter: c.cfg.Again}, nil
}

func (c *Controller) ensure(ctx context.Context, want schema.Object) error {
	r := schema.ResourceOf(want)
	have, ok := c.cfg.Cache.Get(r, key)
	if !ok {
		_, err := c.cfg.Client.Create(ctx, r, want, client.WriteOptions{})
		if apierrors.IsAlreadyExists(err) {
			return nil
		}
		return err
	}
	next, changed := merge(have, want)
	if !changed {
		return nil
	}
	_, err := c.cfg.Client.Update(ctx, r, next, client.WriteOptions{})
	return err
}

// merge returns have with what the controller decides of want, and whether
// that is a change.
func merge(have, want schema.Object) (schema.Object, bool) {
	next := have.DeepCopyObject().(schema.Object)
	switch w := want.(type) {
	case *corev1.Service:
		next.(*corev1.Service).Spec.Ports = w.Spec.Ports
	case *corev1.Endpoints:
		next.(*corev1.Endpoints).Subsets = w.Subsets
	case *discoveryv1.EndpointSlice:
		n := next.(*discoveryv1.EndpointSlice)
		n.Endpoints, n.Ports = w.Endpoints, w.Ports
	}
	return next, !equality.Semantic.DeepEqual(have, next)
}
