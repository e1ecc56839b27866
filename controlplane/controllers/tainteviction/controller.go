// Package tainteviction ends the pods that do not tolerate a NoExecute taint
// of their node, after the time for which they do tolerate it.
//
// Watches Nodes, and Pods that are bound to tainted ones. Owns nothing: it
// deletes pods, with a condition that says why.
package tainteviction

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/schema"
)

// Controller evicts by taints.
type Controller struct {
	cfg controller.Tools

	mu   sync.Mutex
	seen map[string]map[seenTaint]time.Time // by node; of taints without a time
}

type seenTaint struct{ key, value string }

// New returns a controller; it starts nothing.
func New(cfg controller.Tools) *Controller {
	return &Controller{cfg: cfg, seen: map[string]map[seenTaint]time.Time{}}
}

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which nodes.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{
		{Resource: schema.ResourceFor[*corev1.Node](), Map: func(ev client.Event) []schema.Key {
			node := ev.Object.(*corev1.Node)
			if ev.Type == client.Deleted || len(noExecute(node)) == 0 && !c.known(node.Name) {
				return nil
			}
			return []schema.Key{schema.KeyOf(node)}
		}},
		{Resource: schema.ResourceFor[*corev1.Pod](), Map: c.wakeByPod},
	}
}

// wakeByPod wakes a tainted node that gets a pod, or whose pod changes what it
// tolerates.
func (c *Controller) wakeByPod(ev client.Event) []schema.Key {
	pod := ev.Object.(*corev1.Pod)
	if ev.Type == client.Deleted || pod.Spec.NodeName == "" || pod.DeletionTimestamp != nil {
		return nil
	}
	if old, ok := ev.Old.(*corev1.Pod); ok && old.Spec.NodeName == pod.Spec.NodeName && len(old.Spec.Tolerations) == len(pod.Spec.Tolerations) {
		return nil
	}
	key := schema.Key{Name: pod.Spec.NodeName}
	node, ok := client.Cached[*corev1.Node](c.cfg.Cache, key)
	if !ok || len(noExecute(node)) == 0 {
		return nil
	}
	return []schema.Key{key}
}

// Reconcile evicts from one node the pods whose time is up.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	node, ok := client.Cached[*corev1.Node](c.cfg.Cache, key)
	if !ok {
		c.forget(key.Name)
		return controller.Result{}, nil
	}
	taints := c.dated(node)
	if len(taints) == 0 {
		return controller.Result{}, nil
	}
	pods := client.CachedIndex[*corev1.Pod](c.cfg.Cache, client.IndexNode, node.Name)
	due, again := plan(taints, pods, c.cfg.Now())
	var errs []error
	for _, p := range due { // one that cannot go keeps no other
		errs = append(errs, c.evict(ctx, p))
	}
	return controller.Result{RequeueAfter: again}, errors.Join(errs...)
}

// dated returns the node's NoExecute taints, each with the time since which it
// counts.
func (c *Controller) dated(node *corev1.Node) []corev1.Taint {
	c.mu.Lock()
	defer c.mu.Unlock()
	taints := noExecute(node)
	if len(taints) == 0 {
		delete(c.seen, node.Name)
		return nil
	}
	if c.seen[node.Name] == nil {
		c.seen[node.Name] = map[seenTaint]time.Time{}
	}
	for i, t := range taints {
		if t.TimeAdded != nil {
			continue
		}
		id := seenTaint{t.Key, t.Value}
		if _, ok := c.seen[node.Name][id]; !ok {
			c.seen[node.Name][id] = c.cfg.Now()
		}
		at := metav1.NewTime(c.seen[node.Name][id])
		taints[i].TimeAdded = &at
	}
	return taints
}

func (c *Controller) known(node string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.seen[node] != nil
}

func (c *Controller) forget(node string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.seen, node)
}

// evict says why in the pod's status, and deletes it.
func (c *Controller) evict(ctx context.Context, p *corev1.Pod) error {
	key := schema.KeyOf(p)
	c.cfg.Recorder.Eventf(p, corev1.EventTypeNormal, "TaintManagerEviction", "Marking for deletion Pod %s", key)
	next := p.DeepCopy()
	if podset.SetCondition(next, corev1.PodCondition{
		Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(c.cfg.Now()), ObservedGeneration: p.Generation,
		Reason: "DeletionByTaintManager", Message: "Taint manager: deleting due to NoExecute taint",
	}) {
		if _, err := client.UpdateStatus(ctx, c.cfg.Client, next); err != nil {
			if apierrors.IsNotFound(err) {
				return nil
			}
			return fmt.Errorf("mark pod %s for eviction: %w", key, err)
		}
	}
	err := client.Delete[*corev1.Pod](ctx, c.cfg.Client, key, client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &p.UID}})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("evict pod %s: %w", key, err)
	}
	return nil
}
