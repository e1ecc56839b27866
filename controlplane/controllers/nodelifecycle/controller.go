// Package nodelifecycle notices nodes that have fallen silent, and says so in
// their conditions, in taints, and in the readiness of their pods.
//
// Watches Nodes, their Leases, and Pods that say they serve on a node that does
// not.
// Owns the taints node.kubernetes.io/* that follow from conditions, the Ready
// condition of nodes that no longer report, and the Ready condition of the
// pods of nodes that are not ready. Eviction is tainteviction's affair.
package nodelifecycle

import (
	"context"
	"fmt"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// The times of upstream's defaults.
const (
	DefaultGrace        = 40 * time.Second // silence after which a node is Unknown
	DefaultStartupGrace = 60 * time.Second // the same for one that never reported
	// turnLook is how often a node looks at least that waits for its turn to be
	// tainted.
	turnLook = 5 * time.Second
	// tainting one more node for eviction waits so long: a mistake that makes
	// nodes look dead must not empty a cluster at once.
	evictionInterval = 10 * time.Second
)

// Config is everything the controller needs from outside.
type Config struct {
	controller.Tools
	// Grace and StartupGrace have the defaults above.
	Grace, StartupGrace time.Duration
}

// Controller watches over nodes.
type Controller struct {
	cfg Config

	mu        sync.Mutex
	heard     map[string]sign // by node
	lastTaint time.Time
	alive     map[string]bool // the nodes of which the last event says that they are not silent
}

// sign is the last sign of life of a node, and when we, by our own clock, first
// saw it: the clocks of nodes do not matter.
type sign struct {
	renewed  time.Time // the lease's, as the node wrote it
	beat     time.Time // the Ready condition's heartbeat
	at       time.Time
	notReady bool // its pods have been marked
}

// New returns a controller; it starts nothing.
func New(cfg Config) *Controller {
	if cfg.Grace == 0 {
		cfg.Grace = DefaultGrace
	}
	if cfg.StartupGrace == 0 {
		cfg.StartupGrace = DefaultStartupGrace
	}
	return &Controller{cfg: cfg, heard: map[string]sign{}, alive: map[string]bool{}}
}

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which nodes. A lease that is renewed is noted
// and wakes nobody: each look at a node that is not silent arranges for the next.
// A silent one is woken by what may change something for it: its own Node, its
// pods, and the first of all nodes to speak again.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{
		{Resource: schema.ResourceFor[*corev1.Node](), Map: func(ev client.Event) []schema.Key {
			c.announce(ev)
			if c.turned(ev) {
				return c.everybody(ev.Object)
			}
			return []schema.Key{schema.KeyOf(ev.Object)}
		}},
		{Resource: schema.ResourceFor[*corev1.Pod](), Map: c.wakeByPod},
		{Resource: schema.ResourceFor[*coordinationv1.Lease](), Map: func(ev client.Event) []schema.Key {
			if ev.Object.GetNamespace() == corev1.NamespaceNodeLease && ev.Type != client.Deleted {
				c.renewed(ev.Object.(*coordinationv1.Lease))
			}
			return nil
		}},
	}
}

// turned notes whether a node is silent, and says whether from now on all are, or
// no longer all: that decides about each of them.
func (c *Controller) turned(ev client.Event) bool {
	node := ev.Object.(*corev1.Node)
	c.mu.Lock()
	defer c.mu.Unlock()
	before := len(c.alive) == 0
	if ev.Type == client.Deleted || isSilent(node) {
		delete(c.alive, node.Name)
	} else {
		c.alive[node.Name] = true
	}
	return before != (len(c.alive) == 0)
}

// everybody are all nodes, with one that the cache may not show.
func (c *Controller) everybody(one schema.Object) []schema.Key {
	keys := []schema.Key{schema.KeyOf(one)}
	for _, o := range c.cfg.Cache.List(schema.ResourceFor[*corev1.Node](), "") {
		if o.GetName() != one.GetName() {
			keys = append(keys, schema.KeyOf(o))
		}
	}
	return keys
}

// wakeByPod wakes a node that is not ready when one of its pods says it serves.
func (c *Controller) wakeByPod(ev client.Event) []schema.Key {
	p := ev.Object.(*corev1.Pod)
	if ev.Type == client.Deleted || p.Spec.NodeName == "" || !isReady(p) {
		return nil
	}
	key := schema.Key{Name: p.Spec.NodeName}
	node, ok := client.Cached[*corev1.Node](c.cfg.Cache, key)
	if !ok {
		return nil
	}
	if r := readyCondition(node); r == nil || r.Status == corev1.ConditionTrue {
		return nil
	}
	return []schema.Key{key}
}

// announce records that nodes come and go.
func (c *Controller) announce(ev client.Event) {
	node := ev.Object.(*corev1.Node)
	switch ev.Type {
	case client.Added:
		c.event(node, "RegisteredNode", fmt.Sprintf("Node %s event: Registered Node %s in Controller", node.Name, node.Name))
	case client.Deleted:
		c.event(node, "RemovingNode", fmt.Sprintf("Node %s event: Removing Node %s from Controller", node.Name, node.Name))
		c.mu.Lock()
		delete(c.heard, node.Name)
		c.mu.Unlock()
	}
}

func (c *Controller) event(node *corev1.Node, reason, message string) {
	ref := corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}
	c.cfg.Recorder.EventAbout(ref, corev1.EventTypeNormal, reason, message)
}

// Reconcile looks at one node.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	// Read.
	node, ok := client.Cached[*corev1.Node](c.cfg.Cache, key)
	if !ok {
		return controller.Result{}, nil
	}
	now := c.cfg.Now()
	s := c.listen(node, now)

	// Decide.
	p := plan(node, s, now, c.grace(node))

	// Act.
	if p.node != nil {
		updated, err := client.UpdateStatus(ctx, c.cfg.Client, p.node)
		if apierrors.IsNotFound(err) {
			return controller.Result{}, nil
		}
		if err != nil {
			return controller.Result{}, fmt.Errorf("update status of node %s: %w", key, err)
		}
		node = updated
	}
	turn, err := c.taint(ctx, node, now)
	if err != nil {
		return controller.Result{}, err
	}
	if turn > 0 && (p.again == 0 || p.again > turn) {
		p.again = turn
	}
	if err := c.markPods(ctx, node, s); err != nil {
		return controller.Result{}, err
	}
	return controller.Result{RequeueAfter: p.again}, nil
}

func (c *Controller) grace(node *corev1.Node) time.Duration {
	if readyCondition(node) == nil {
		return c.cfg.StartupGrace
	}
	return c.cfg.Grace
}

// renewed notes that a lease was renewed, if it was.
func (c *Controller) renewed(l *coordinationv1.Lease) {
	if l.Spec.RenewTime == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	s, known := c.heard[l.Name]
	if !known || !s.renewed.Equal(l.Spec.RenewTime.Time) {
		s.renewed, s.at = l.Spec.RenewTime.Time, c.cfg.Now()
		c.heard[l.Name] = s
	}
}

// listen notes what the node's own status says, and returns the last sign of
// life.
func (c *Controller) listen(node *corev1.Node, now time.Time) sign {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, known := c.heard[node.Name]
	if !known {
		s.at = now
	}
	if r := readyCondition(node); r != nil {
		if !s.beat.Equal(r.LastHeartbeatTime.Time) && r.Status != corev1.ConditionUnknown {
			s.at = now
		}
		s.beat = r.LastHeartbeatTime.Time
	}
	c.heard[node.Name] = s
	return s
}

// taint keeps the taints that follow from conditions. turn is when to look again
// whether it is the node's turn to be tainted for eviction; 0 for one that does not
// wait for it.
func (c *Controller) taint(ctx context.Context, node *corev1.Node, now time.Time) (turn time.Duration, err error) {
	next := node.DeepCopy()
	next.Spec.Taints = taints(node, true, now)
	giveBack := func() {}
	if hasEvictionTaint(next) {
		may := true
		if !hasEvictionTaint(node) {
			giveBack, turn = c.takeTurn(now)
			may = turn == 0
		}
		if may && c.allSilent() { // asked last: it looks at all nodes
			giveBack()
			giveBack, may = func() {}, false
		}
		if !may {
			next.Spec.Taints = taints(node, false, now)
		}
	}
	if apiequality.Semantic.DeepEqual(node.Spec.Taints, next.Spec.Taints) {
		return turn, nil
	}
	_, err = client.Update(ctx, c.cfg.Client, next, client.WriteOptions{})
	if err == nil {
		return turn, nil
	}
	giveBack() // the turn was for nothing: another node, or this one again, may have it
	if apierrors.IsNotFound(err) {
		return turn, nil
	}
	return turn, fmt.Errorf("taint node %s: %w", node.Name, err)
}

// allSilent says that no node at all is ready: then it is rather us who are
// cut off, and nothing is evicted.
func (c *Controller) allSilent() bool {
	for _, o := range c.cfg.Cache.List(schema.ResourceFor[*corev1.Node](), "") {
		if !isSilent(o.(*corev1.Node)) {
			return false
		}
	}
	return true
}

// takeTurn lets one more node be tainted for eviction, if it is time for one, and
// says else when to ask again: when it is, but not late, as who has not used the
// turn gives it back.
func (c *Controller) takeTurn(now time.Time) (giveBack func(), wait time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.lastTaint
	if left := evictionInterval - now.Sub(before); left > 0 {
		return func() {}, min(left, turnLook)
	}
	c.lastTaint = now
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.lastTaint.Equal(now) {
			c.lastTaint = before
		}
	}, 0
}

// markPods takes the pods of a node that is not ready out of their Services.
func (c *Controller) markPods(ctx context.Context, node *corev1.Node, s sign) error {
	r := readyCondition(node)
	if r == nil || r.Status == corev1.ConditionTrue {
		c.setMarked(node.Name, false)
		return nil
	}
	if !s.notReady {
		c.event(node, "NodeNotReady", fmt.Sprintf("Node %s status is now: NodeNotReady", node.Name))
	}
	for _, p := range client.CachedIndex[*corev1.Pod](c.cfg.Cache, client.IndexNode, node.Name) {
		next := unready(p, metav1.NewTime(c.cfg.Now()))
		if next == nil {
			continue
		}
		c.cfg.Recorder.Event(p, corev1.EventTypeWarning, "NodeNotReady", "Node is not ready")
		if _, err := client.UpdateStatus(ctx, c.cfg.Client, next); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("mark pod %s not ready: %w", schema.KeyOf(p), err)
		}
	}
	c.setMarked(node.Name, true)
	return nil
}

func (c *Controller) setMarked(node string, marked bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s, ok := c.heard[node]
	if !ok {
		return
	}
	s.notReady = marked
	c.heard[node] = s
}
