// Package nodeipam gives each node a range of pod addresses of its own.
//
// Watches Nodes. Owns spec.podCIDR and spec.podCIDRs of nodes that come
// without. A range is free again when its node is deleted.
package nodeipam

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// Config is everything the controller needs from outside.
type Config struct {
	controller.Tools
	// PodCIDR is the range of the cluster. Default 10.244.0.0/16.
	PodCIDR netip.Prefix
	// NodeBits is the prefix length of one node's range. Default 24.
	NodeBits int
}

// Controller assigns ranges.
type Controller struct {
	cfg Config

	// One node at a time, so that no two get one range; and what was given
	// while the cache does not show it yet.
	mu    sync.Mutex
	given map[string]netip.Prefix
}

// New returns a controller; it starts nothing.
func New(cfg Config) *Controller {
	if !cfg.PodCIDR.IsValid() {
		cfg.PodCIDR = netip.MustParsePrefix("10.244.0.0/16")
	}
	if cfg.NodeBits == 0 {
		cfg.NodeBits = 24
	}
	return &Controller{cfg: cfg, given: map[string]netip.Prefix{}}
}

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which nodes. The end of a node wakes those
// that found no free range.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{{Resource: schema.ResourceFor[*corev1.Node](), Map: func(ev client.Event) []schema.Key {
		if ev.Type != client.Deleted {
			if ev.Object.(*corev1.Node).Spec.PodCIDR != "" {
				return nil
			}
			return []schema.Key{schema.KeyOf(ev.Object)}
		}
		keys := []schema.Key{schema.KeyOf(ev.Object)}
		for _, n := range client.CachedList[*corev1.Node](c.cfg.Cache, "") {
			if n.Spec.PodCIDR == "" {
				keys = append(keys, schema.KeyOf(n))
			}
		}
		return keys
	}}}
}

// Reconcile gives a range to a node that has none.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	node, ok := client.Cached[*corev1.Node](c.cfg.Cache, key)
	if !ok {
		delete(c.given, key.Name)
		return controller.Result{}, nil
	}
	if node.Spec.PodCIDR != "" {
		delete(c.given, key.Name)
		return controller.Result{}, nil
	}
	cidr, ok := c.given[key.Name]
	if !ok {
		if cidr, ok = free(c.cfg.PodCIDR, c.cfg.NodeBits, c.used()); !ok {
			c.cfg.Recorder.EventAbout(corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
				corev1.EventTypeNormal, "CIDRNotAvailable", fmt.Sprintf("Node %s status is now: CIDRNotAvailable", node.Name))
			return controller.Result{}, fmt.Errorf("assign range to node %s: %s has no free /%d", key, c.cfg.PodCIDR, c.cfg.NodeBits)
		}
	}
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"podCIDR": cidr.String(), "podCIDRs": []string{cidr.String()}}})
	if err != nil {
		return controller.Result{}, fmt.Errorf("encode patch: %w", err)
	}
	c.given[key.Name] = cidr
	_, err = c.cfg.Client.Patch(ctx, schema.ResourceOf(node), key, types.StrategicMergePatchType, data, client.WriteOptions{})
	if apierrors.IsNotFound(err) {
		delete(c.given, key.Name)
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, fmt.Errorf("assign range to node %s: %w", key, err)
	}
	return controller.Result{}, nil
}

// used returns the ranges that nodes have or were given.
func (c *Controller) used() map[netip.Prefix]bool {
	used := map[netip.Prefix]bool{}
	for _, p := range c.given {
		used[p] = true
	}
	for _, n := range client.CachedList[*corev1.Node](c.cfg.Cache, "") {
		if p, err := netip.ParsePrefix(n.Spec.PodCIDR); err == nil {
			used[p] = true
		}
	}
	return used
}
