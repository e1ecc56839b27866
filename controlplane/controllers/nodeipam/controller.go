// Package nodeipam gives each node a range of pod addresses of its own.
//
// Watches Nodes. Owns spec.podCIDR and spec.podCIDRs of nodes that come
// without. A range is free again when its node is deleted. A node for which
// there is none is told in an event CIDRNotAvailable and gets one as soon as
// another node goes; until then its agent has no network and reports it.
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

// DefaultPodCIDR has ranges for 1,024 nodes. It begins with 10.244.0.0/16, which
// was the default before, so that the ranges of its nodes are those that they
// would get anew.
var DefaultPodCIDR = netip.MustParsePrefix("10.244.0.0/14")

// DefaultNodeBits is upstream's --node-cidr-mask-size-ipv4.
const DefaultNodeBits = 24

// Config is everything the controller needs from outside.
type Config struct {
	controller.Tools
	// PodCIDR is the range of the cluster. Default DefaultPodCIDR.
	PodCIDR netip.Prefix
	// NodeBits is the prefix length of one node's range. Default 24.
	NodeBits int
}

// Controller assigns ranges.
type Controller struct {
	cfg Config

	// One node at a time, so that no two get one range; and what was given
	// while the cache does not show it yet. ranges are those that nodes have or
	// were given, as long as none is known to be free again.
	mu     sync.Mutex
	given  map[string]netip.Prefix
	ranges *ranges

	// What events have told since ranges was last asked. Its lock is never held
	// for long: events come while a node is written.
	news  sync.Mutex
	taken []netip.Prefix
	freed bool
}

// New returns a controller; it starts nothing.
func New(cfg Config) *Controller {
	if !cfg.PodCIDR.IsValid() {
		cfg.PodCIDR = DefaultPodCIDR
	}
	if cfg.NodeBits == 0 {
		cfg.NodeBits = DefaultNodeBits
	}
	return &Controller{cfg: cfg, given: map[string]netip.Prefix{}}
}

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which nodes. The end of a node wakes those
// that found no free range.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{{Resource: schema.ResourceFor[*corev1.Node](), Map: func(ev client.Event) []schema.Key {
		c.note(ev)
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
		c.ranges = nil
		return controller.Result{}, nil
	}
	if node.Spec.PodCIDR != "" {
		delete(c.given, key.Name)
		return controller.Result{}, nil
	}
	cidr, ok := c.given[key.Name]
	if !ok {
		if cidr, ok = c.free(); !ok {
			c.cfg.Recorder.EventAbout(corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID},
				corev1.EventTypeNormal, "CIDRNotAvailable", fmt.Sprintf("Node %s status is now: CIDRNotAvailable", node.Name))
			return controller.Result{}, fmt.Errorf("assign range to node %s: %s has no free /%d: a larger --cluster-cidr has more", key, c.cfg.PodCIDR, c.cfg.NodeBits)
		}
	}
	data, err := json.Marshal(map[string]any{"spec": map[string]any{"podCIDR": cidr.String(), "podCIDRs": []string{cidr.String()}}})
	if err != nil {
		return controller.Result{}, fmt.Errorf("encode patch: %w", err)
	}
	c.given[key.Name] = cidr
	if c.ranges != nil {
		c.ranges.use(cidr)
	}
	_, err = c.cfg.Client.Patch(ctx, schema.ResourceOf(node), key, types.StrategicMergePatchType, data, client.WriteOptions{})
	if apierrors.IsNotFound(err) {
		delete(c.given, key.Name)
		c.ranges = nil
		return controller.Result{}, nil
	}
	if err != nil {
		return controller.Result{}, fmt.Errorf("assign range to node %s: %w", key, err)
	}
	return controller.Result{}, nil
}

// note remembers that a node has come with a range, or one is free again.
func (c *Controller) note(ev client.Event) {
	c.news.Lock()
	defer c.news.Unlock()
	node := ev.Object.(*corev1.Node)
	old, _ := ev.Old.(*corev1.Node)
	switch {
	case ev.Type == client.Deleted, old != nil && old.Spec.PodCIDR != "" && old.Spec.PodCIDR != node.Spec.PodCIDR:
		c.freed = true
	case old == nil || old.Spec.PodCIDR == "":
		if p, err := netip.ParsePrefix(node.Spec.PodCIDR); err == nil {
			c.taken = append(c.taken, p)
		}
	}
}

// free returns a range that no node has or was given.
func (c *Controller) free() (netip.Prefix, bool) {
	c.news.Lock()
	taken := c.taken
	if c.freed {
		c.ranges = nil
	}
	c.taken, c.freed = nil, false
	c.news.Unlock()
	if c.ranges != nil {
		for _, p := range taken {
			c.ranges.use(p)
		}
	}
	if c.ranges == nil {
		c.ranges = newRanges(c.cfg.PodCIDR, c.cfg.NodeBits)
		for _, p := range c.given {
			c.ranges.use(p)
		}
		for _, o := range c.cfg.Cache.List(schema.ResourceFor[*corev1.Node](), "") {
			if p, err := netip.ParsePrefix(o.(*corev1.Node).Spec.PodCIDR); err == nil {
				c.ranges.use(p)
			}
		}
	}
	return c.ranges.free()
}
