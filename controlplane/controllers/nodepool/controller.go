// Package nodepool brings the nodes of each NodePool to the operating system
// that Git declares: staged ahead, then, as many at a time as the pool allows
// and inside its reboot window, cordoned, drained, rebooted, and watched until
// they are well.
//
// Watches NodePools, NodeImages, Nodes, Pods and PodDisruptionBudgets. Owns the
// status of NodePools and NodeImages, the annotations of Nodes by which agents
// are told what to do (schema/v1alpha1), and spec.unschedulable of the nodes
// that it has cordoned itself. The agents stage and reboot.
//
// It promises that never more nodes of a pool are taken away than it allows,
// those that are away by themselves counted; that control-plane nodes go one at
// a time in the whole cluster and never so that the store loses its quorum; that
// a pod leaves only by an eviction that its PodDisruptionBudget admits; and that
// after a failure no further node is touched until Git says something else, the
// failure being remembered before anything follows from it.
//
// What it knows it keeps in the cluster: a control plane that dies at any moment
// goes on where it was. All pools are planned at once, because the control plane
// and the images are common to them.
package nodepool

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// everything is the one key: all pools at once.
var everything = []schema.Key{{Name: "nodepools"}}

// lag is how long to wait for a cache that has not seen our own writes.
const lag = 100 * time.Millisecond

// Controller updates nodes. It is to be run with one worker.
type Controller struct {
	cfg controller.Tools
	// replaced are the versions of nodes that we have written over, by node: a
	// cache that still shows one of them is behind us.
	replaced map[string]string
	// draining says that the last plan had nodes to drain: budgets matter.
	draining atomic.Bool
}

// New returns a controller; it starts nothing.
func New(cfg controller.Tools) *Controller {
	return &Controller{cfg: cfg, replaced: map[string]string{}}
}

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events matter. Nodes report themselves again and again,
// and most pods are on nodes that nobody touches.
func (c *Controller) Watches() []controller.Watch {
	always := func(client.Event) []schema.Key { return everything }
	when := func(matters func(client.Event) bool) func(client.Event) []schema.Key {
		return func(ev client.Event) []schema.Key {
			if matters(ev) {
				return everything
			}
			return nil
		}
	}
	return []controller.Watch{
		{Resource: schema.ResourceFor[*v1alpha1.NodePool](), Map: always},
		{Resource: schema.ResourceFor[*v1alpha1.NodeImage](), Map: always},
		{Resource: schema.ResourceFor[*corev1.Node](), Map: when(nodeMatters)},
		{Resource: schema.ResourceFor[*corev1.Pod](), Map: when(c.podMatters)},
		{Resource: schema.ResourceFor[*policyv1.PodDisruptionBudget](), Map: when(func(client.Event) bool { return c.draining.Load() })},
	}
}

// nodeMatters says whether an event changes what a plan reads of a node.
func nodeMatters(ev client.Event) bool {
	n := ev.Object.(*corev1.Node)
	was, ok := ev.Old.(*corev1.Node)
	return !ok || ev.Type == client.Deleted || n.Spec.Unschedulable != was.Spec.Unschedulable || isReady(n) != isReady(was) || unset(n) != unset(was) ||
		n.Status.NodeInfo.Architecture != was.Status.NodeInfo.Architecture ||
		!apiequality.Semantic.DeepEqual(n.Labels, was.Labels) || !apiequality.Semantic.DeepEqual(n.Annotations, was.Annotations)
}

// podMatters says whether an event is about a pod of a node that is drained.
func (c *Controller) podMatters(ev client.Event) bool {
	n, ok := client.Cached[*corev1.Node](c.cfg.Cache, schema.Key{Name: ev.Object.(*corev1.Pod).Spec.NodeName})
	return ok && n.Annotations[v1alpha1.UpdateStepAnnotation] != ""
}

// Reconcile plans for all pools and does what the plan says.
func (c *Controller) Reconcile(ctx context.Context, _ schema.Key) (controller.Result, error) {
	w, behind := c.read()
	if behind {
		return controller.Result{RequeueAfter: lag}, nil
	}
	p := decide(w, c.cfg.Now())
	err := c.act(ctx, w, p)
	if err != nil {
		return controller.Result{}, err
	}
	return controller.Result{RequeueAfter: p.again}, nil
}

// read returns the world, and whether it is one from before our last writes.
func (c *Controller) read() (w world, behind bool) {
	w = world{
		pools:   client.CachedList[*v1alpha1.NodePool](c.cfg.Cache, ""),
		images:  client.CachedList[*v1alpha1.NodeImage](c.cfg.Cache, ""),
		nodes:   client.CachedList[*corev1.Node](c.cfg.Cache, ""),
		budgets: client.CachedList[*policyv1.PodDisruptionBudget](c.cfg.Cache, ""),
		pods: func(node string) []*corev1.Pod {
			return client.CachedIndex[*corev1.Pod](c.cfg.Cache, client.IndexNode, node)
		},
	}
	seen := sets.New[string]()
	for _, n := range w.nodes {
		seen.Insert(n.Name)
		if v, ok := c.replaced[n.Name]; ok && v == n.ResourceVersion {
			return w, true
		}
		delete(c.replaced, n.Name)
	}
	for name := range c.replaced {
		if !seen.Has(name) {
			delete(c.replaced, name)
		}
	}
	return w, false
}

// act does what a plan says. Failures are remembered first; a node that cannot
// be written holds up no other.
func (c *Controller) act(ctx context.Context, w world, p plan) error {
	for _, i := range w.images {
		if s := p.images[i.Name]; !apiequality.Semantic.DeepEqual(s, i.Status) {
			next := i.DeepCopy()
			next.Status = s
			if _, err := client.UpdateStatus(ctx, c.cfg.Client, next); err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("update status of node image %s: %w", i.Name, err)
			}
		}
	}
	nodes := make(map[string]*corev1.Node, len(w.nodes))
	for _, n := range w.nodes {
		nodes[n.Name] = n
	}
	var errs []error
	drains := false
	for _, s := range p.steps {
		drains = drains || s.action == cordon || s.action == evict
		if err := c.step(ctx, nodes[s.node], s); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("%s node %s: %w", s.action, s.node, err))
		}
	}
	for _, pool := range w.pools {
		s := p.pools[pool.Name]
		drains = drains || len(s.Current) > 0
		if apiequality.Semantic.DeepEqual(s, pool.Status) {
			continue
		}
		next := pool.DeepCopy()
		next.Status = s
		if _, err := client.UpdateStatus(ctx, c.cfg.Client, next); err != nil && !apierrors.IsNotFound(err) {
			errs = append(errs, fmt.Errorf("update status of node pool %s: %w", pool.Name, err))
		}
		c.tell(pool, s)
	}
	c.draining.Store(drains)
	return errors.Join(errs...)
}

// tell records an event when a pool begins to need somebody.
func (c *Controller) tell(pool *v1alpha1.NodePool, s v1alpha1.NodePoolStatus) {
	if reason := degraded(s); reason != "" && reason != degraded(pool.Status) {
		c.cfg.Recorder.Event(pool, corev1.EventTypeWarning, reason, s.Message)
	}
}

// degraded is the reason why a pool has stopped; "" when it has not.
func degraded(s v1alpha1.NodePoolStatus) string {
	for _, cond := range s.Conditions {
		if cond.Type == v1alpha1.NodePoolDegraded && cond.Status == "True" {
			return cond.Reason
		}
	}
	return ""
}
