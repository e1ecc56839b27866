// Package ipaddress keeps one IPAddress for every address of a Service, and none
// for addresses that no Service has (KEP-1880).
//
// Watches Services and IPAddresses. Owns the IPAddresses that the server's
// allocator has made, which carry its name in a label; those of others it leaves
// alone. It promises that an IPAddress deleted by hand is back as soon as its
// deletion has been seen: until then another Service could be given the address.
package ipaddress

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// manager is whose fields those of a new IPAddress are: the allocator's, which
// is in the API server.
const manager = "kube-apiserver"

// Controller repairs.
type Controller struct{ cfg controller.Tools }

// New returns a controller; it starts nothing.
func New(cfg controller.Tools) *Controller { return &Controller{cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake whom. Keys with a namespace are those of
// Services, the others those of IPAddresses.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{
		{Resource: schema.ResourceFor[*corev1.Service](), Map: func(ev client.Event) []schema.Key {
			keys := c.held(ev)
			if ev.Type != client.Deleted {
				keys = append(keys, schema.KeyOf(ev.Object))
			}
			return keys
		}},
		{Resource: schema.ResourceFor[*networkingv1.IPAddress](), Map: func(ev client.Event) []schema.Key {
			var keys []schema.Key
			if ev.Type != client.Deleted {
				keys = append(keys, schema.KeyOf(ev.Object))
			}
			if ev.Type == client.Added {
				return keys
			}
			for _, o := range []schema.Object{ev.Old, ev.Object} {
				if a, ok := o.(*networkingv1.IPAddress); ok && a != nil && ofService(a) {
					keys = append(keys, schema.Key{Namespace: a.Spec.ParentRef.Namespace, Name: a.Spec.ParentRef.Name})
				}
			}
			return keys
		}},
	}
}

// held are the IPAddresses of what a Service had before, and may have no longer.
func (c *Controller) held(ev client.Event) []schema.Key {
	old := ev.Old
	if ev.Type == client.Deleted {
		old = ev.Object
	}
	s, ok := old.(*corev1.Service)
	if !ok || s == nil {
		return nil
	}
	var keys []schema.Key
	for _, ip := range wanted(s) {
		keys = append(keys, schema.Key{Name: ip.String()})
	}
	return keys
}

// Reconcile looks after one Service or one IPAddress.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	if key.Namespace != "" {
		return controller.Result{}, c.service(ctx, key)
	}
	return c.address(ctx, key)
}

// service gives a Service the IPAddresses that it lacks.
func (c *Controller) service(ctx context.Context, key schema.Key) error {
	s, ok := client.Cached[*corev1.Service](c.cfg.Cache, key)
	if !ok {
		return nil
	}
	cidrs := client.CachedList[*networkingv1.ServiceCIDR](c.cfg.Cache, "")
	for _, ip := range wanted(s) {
		have, _ := client.Cached[*networkingv1.IPAddress](c.cfg.Cache, schema.Key{Name: ip.String()})
		p := check(s, ip, have, cidrs, func(k schema.Key) *corev1.Service {
			o, _ := client.Cached[*corev1.Service](c.cfg.Cache, k)
			return o
		})
		if p.reason != "" {
			c.cfg.Recorder.Event(s, corev1.EventTypeWarning, p.reason, p.message)
		}
		if p.remove {
			if err := c.remove(ctx, have); err != nil {
				return err
			}
		}
		if !p.create {
			continue
		}
		_, err := client.Create(ctx, c.cfg.Client, newAddress(ip, s), client.WriteOptions{FieldManager: manager})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("create IP address %s of service %s: %w", ip, key, err)
		}
	}
	return nil
}

// address deletes an IPAddress of the allocator's that no Service has.
func (c *Controller) address(ctx context.Context, key schema.Key) (controller.Result, error) {
	a, ok := client.Cached[*networkingv1.IPAddress](c.cfg.Cache, key)
	if !ok || a.Labels[networkingv1.LabelManagedBy] != managedBy {
		return controller.Result{}, nil
	}
	var s *corev1.Service
	if ofService(a) {
		s, _ = client.Cached[*corev1.Service](c.cfg.Cache, schema.Key{Namespace: a.Spec.ParentRef.Namespace, Name: a.Spec.ParentRef.Name})
	}
	wait, reason, message := leaked(a, s, c.cfg.Now())
	if wait > 0 || reason == "" {
		return controller.Result{RequeueAfter: wait}, nil
	}
	c.cfg.Recorder.Event(a, corev1.EventTypeWarning, reason, message)
	return controller.Result{}, c.remove(ctx, a)
}

// remove deletes the IPAddress that was seen, and no newer one of its name.
func (c *Controller) remove(ctx context.Context, a *networkingv1.IPAddress) error {
	if err := controller.DeleteSeen(ctx, c.cfg.Client, a); err != nil {
		return fmt.Errorf("delete IP address %s: %w", a.Name, err)
	}
	return nil
}
