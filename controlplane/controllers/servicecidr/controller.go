// Package servicecidr says which ServiceCIDRs addresses may be given from, and
// keeps those that are in use from being deleted.
//
// Watches ServiceCIDRs, IPAddresses and Services. Owns the condition Ready and
// the finalizer "networking.k8s.io/service-cidr-finalizer" of ServiceCIDRs. It
// promises that no address of a Service is left without a ServiceCIDR that
// contains it, whether an IPAddress stands for it or the Service alone.
package servicecidr

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	apimeta "k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

const (
	// Finalizer keeps a ServiceCIDR whose addresses are in use.
	Finalizer = "networking.k8s.io/service-cidr-finalizer"
	// manager owns the condition.
	manager = "service-cidr-controller"
	// grace is how long a ServiceCIDR that is being deleted stays at least:
	// whoever gives out addresses has heard of it by then. Upstream's.
	grace = 10 * time.Second
)

// Controller looks after ServiceCIDRs.
type Controller struct{ cfg controller.Tools }

// New returns a controller; it starts nothing.
func New(cfg controller.Tools) *Controller { return &Controller{cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which ServiceCIDRs: what comes and goes may
// hold, or set free, whatever overlaps with it.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{
		{Resource: schema.ResourceFor[*networkingv1.ServiceCIDR](), Map: func(ev client.Event) []schema.Key {
			keys := []schema.Key{schema.KeyOf(ev.Object)}
			if ev.Type == client.Modified {
				return keys
			}
			mine := prefixes(ev.Object.(*networkingv1.ServiceCIDR))
			return append(keys, c.going(func(p netip.Prefix) bool { return slices.ContainsFunc(mine, p.Overlaps) })...)
		}},
		{Resource: schema.ResourceFor[*networkingv1.IPAddress](), Map: func(ev client.Event) []schema.Key {
			if ev.Type == client.Modified {
				return nil
			}
			return c.wakeFor(ev.Object)
		}},
		{Resource: schema.ResourceFor[*corev1.Service](), Map: func(ev client.Event) []schema.Key { return c.wakeFor(ev.Object, ev.Old) }},
	}
}

// wakeFor returns the ServiceCIDRs on their way out that hold an address of
// the objects.
func (c *Controller) wakeFor(objects ...schema.Object) []schema.Key {
	var in []netip.Addr
	for _, o := range objects {
		in = append(in, addresses(o)...)
	}
	if len(in) == 0 {
		return nil
	}
	return c.going(func(p netip.Prefix) bool {
		return slices.ContainsFunc(in, func(a netip.Addr) bool { return contains(p, a) })
	})
}

// going returns the keys of the ServiceCIDRs that are being deleted and have a
// range for which match holds. The others do not care who is in them.
func (c *Controller) going(match func(netip.Prefix) bool) []schema.Key {
	var keys []schema.Key
	for _, s := range client.CachedList[*networkingv1.ServiceCIDR](c.cfg.Cache, "") {
		if s.DeletionTimestamp != nil && slices.ContainsFunc(prefixes(s), match) {
			keys = append(keys, schema.KeyOf(s))
		}
	}
	return keys
}

// Reconcile brings condition and finalizer of one ServiceCIDR up to date.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	live, ok := client.Cached[*networkingv1.ServiceCIDR](c.cfg.Cache, key)
	if !ok {
		return controller.Result{}, nil
	}
	if live.DeletionTimestamp == nil {
		return controller.Result{}, c.ready(ctx, live)
	}
	if !slices.Contains(live.Finalizers, Finalizer) {
		return controller.Result{}, nil
	}
	if orphans(live, c.all(), c.used()) {
		return controller.Result{}, c.condition(ctx, live, metav1.Condition{
			Status: metav1.ConditionFalse, Reason: networkingv1.ServiceCIDRReasonTerminating,
			Message: "There are still IPAddresses referencing the ServiceCIDR, please remove them or create a new ServiceCIDR",
		})
	}
	if wait := live.DeletionTimestamp.Add(grace).Sub(c.cfg.Now()); wait > 0 {
		return controller.Result{RequeueAfter: wait}, nil
	}
	return controller.Result{}, c.finalizers(ctx, live, slices.DeleteFunc(slices.Clone(live.Finalizers), func(f string) bool { return f == Finalizer }))
}

// ready gives a ServiceCIDR its finalizer and then says that it may be used:
// never the other way round.
func (c *Controller) ready(ctx context.Context, live *networkingv1.ServiceCIDR) error {
	if !slices.Contains(live.Finalizers, Finalizer) {
		if err := c.finalizers(ctx, live, append(slices.Clone(live.Finalizers), Finalizer)); err != nil {
			return err
		}
	}
	err := c.condition(ctx, live, metav1.Condition{Status: metav1.ConditionTrue, Message: "Kubernetes Service CIDR is ready"})
	if err != nil && c.cfg.Recorder != nil {
		c.cfg.Recorder.Event(live, corev1.EventTypeWarning, "KubernetesServiceCIDRError", "The ServiceCIDR Status can not be set to Ready=True")
	}
	return err
}

// finalizers writes a list over the one that was seen.
func (c *Controller) finalizers(ctx context.Context, live *networkingv1.ServiceCIDR, want []string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": live.ResourceVersion, "finalizers": want}})
	if err != nil {
		return fmt.Errorf("encode finalizers of %s: %w", live.Name, err)
	}
	_, err = c.cfg.Client.Patch(ctx, schema.ResourceFor[*networkingv1.ServiceCIDR](), schema.KeyOf(live), types.MergePatchType, patch, client.WriteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update finalizers of service CIDR %s: %w", live.Name, err)
	}
	return nil
}

// condition applies the condition Ready where it says something else.
func (c *Controller) condition(ctx context.Context, live *networkingv1.ServiceCIDR, want metav1.Condition) error {
	have := apimeta.FindStatusCondition(live.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	if have != nil && have.Status == want.Status && have.Reason == want.Reason && have.Message == want.Message {
		return nil
	}
	want.Type, want.LastTransitionTime = networkingv1.ServiceCIDRConditionReady, metav1.NewTime(c.cfg.Now())
	patch, err := json.Marshal(map[string]any{
		"apiVersion": networkingv1.SchemeGroupVersion.String(), "kind": "ServiceCIDR",
		"metadata": map[string]any{"name": live.Name},
		"status":   map[string]any{"conditions": []metav1.Condition{want}},
	})
	if err != nil {
		return fmt.Errorf("encode status of service CIDR %s: %w", live.Name, err)
	}
	_, err = c.cfg.Client.Patch(ctx, schema.ResourceFor[*networkingv1.ServiceCIDR](), schema.KeyOf(live), types.ApplyPatchType, patch,
		client.WriteOptions{Subresource: "status", FieldManager: manager, Force: true})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("apply status of service CIDR %s: %w", live.Name, err)
	}
	return nil
}

func (c *Controller) all() []*networkingv1.ServiceCIDR {
	return client.CachedList[*networkingv1.ServiceCIDR](c.cfg.Cache, "")
}

// used are the addresses that Services have.
func (c *Controller) used() []netip.Addr {
	var out []netip.Addr
	for _, r := range []*schema.Resource{schema.ResourceFor[*networkingv1.IPAddress](), schema.ResourceFor[*corev1.Service]()} {
		for _, o := range c.cfg.Cache.List(r, "") {
			out = append(out, addresses(o)...)
		}
	}
	return out
}
