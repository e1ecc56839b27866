// Package podgc removes pods that nobody else would: of nodes that are gone,
// asked to end before any node had them, and ended ones beyond a number.
//
// Watches Nodes (their end) and Pods (asked to end without a node). Owns
// nothing; it deletes without grace what no node will.
package podgc

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/schema"
)

const (
	period = 20 * time.Second
	// quarantine is how long a node must be missing before its pods go.
	quarantine = 40 * time.Second
	// DefaultThreshold is how many ended pods are kept.
	DefaultThreshold = 12500
)

// Config is everything the controller needs from outside.
type Config struct {
	controller.Tools
	// Threshold has the default above.
	Threshold int
}

// Controller removes pods.
type Controller struct {
	cfg     Config
	missing map[string]time.Time // nodes that pods name and that are not there
}

// New returns a controller; it starts nothing. It is to have one worker.
func New(cfg Config) *Controller {
	if cfg.Threshold == 0 {
		cfg.Threshold = DefaultThreshold
	}
	return &Controller{cfg: cfg, missing: map[string]time.Time{}}
}

var _ controller.Reconciler = (*Controller)(nil)

// all is the one key: all pods are looked at together.
var all = schema.Key{Name: "pods"}

// Watches says which events wake it; else it looks every 20 seconds.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{
		{Resource: schema.ResourceFor[*corev1.Node](), Map: func(ev client.Event) []schema.Key {
			if ev.Type == client.Modified {
				return nil
			}
			return []schema.Key{all}
		}},
		{Resource: schema.ResourceFor[*corev1.Pod](), Map: func(ev client.Event) []schema.Key {
			p := ev.Object.(*corev1.Pod)
			if ev.Type == client.Deleted || p.DeletionTimestamp == nil || p.Spec.NodeName != "" {
				return nil
			}
			return []schema.Key{all}
		}},
	}
}

// Reconcile looks at all pods.
func (c *Controller) Reconcile(ctx context.Context, _ schema.Key) (controller.Result, error) {
	pods := client.CachedList[*corev1.Pod](c.cfg.Cache, "")
	lost, err := c.lostNodes(ctx, pods)
	errs := []error{err}
	for _, p := range plan(pods, lost, c.cfg.Threshold) {
		errs = append(errs, c.remove(ctx, p))
	}
	if err := errors.Join(errs...); err != nil {
		return controller.Result{}, err
	}
	return controller.Result{RequeueAfter: period}, nil
}

// lostNodes returns the nodes that pods name and that have been missing for
// long enough; the server is asked, as the cache may lag.
func (c *Controller) lostNodes(ctx context.Context, pods []*corev1.Pod) (map[string]bool, error) {
	named := map[string]bool{}
	for _, p := range pods {
		if p.Spec.NodeName != "" {
			named[p.Spec.NodeName] = true
		}
	}
	lost := map[string]bool{}
	for name := range c.missing {
		if !named[name] {
			delete(c.missing, name)
		}
	}
	for name := range named {
		key := schema.Key{Name: name}
		if _, ok := client.Cached[*corev1.Node](c.cfg.Cache, key); ok {
			delete(c.missing, name)
			continue
		}
		since, ok := c.missing[name]
		if !ok {
			c.missing[name] = c.cfg.Now()
			continue
		}
		if c.cfg.Now().Sub(since) < quarantine {
			continue
		}
		_, err := client.Get[*corev1.Node](ctx, c.cfg.Client, key)
		switch {
		case apierrors.IsNotFound(err):
			lost[name] = true
		case err != nil:
			return lost, fmt.Errorf("read node %s: %w", name, err)
		}
	}
	return lost, nil
}

// removal is a pod to remove and, for those that had not ended, why.
type removal struct {
	pod     *corev1.Pod
	message string
}

// plan decides which pods to remove.
func plan(pods []*corev1.Pod, lost map[string]bool, threshold int) []removal {
	var out []removal
	var ended []*corev1.Pod
	for _, p := range pods {
		switch {
		case lost[p.Spec.NodeName]:
			out = append(out, removal{p, "PodGC: node no longer exists"})
		case p.DeletionTimestamp != nil && p.Spec.NodeName == "":
			out = append(out, removal{pod: p})
		case podset.Done(p) && p.DeletionTimestamp == nil:
			ended = append(ended, p)
		}
	}
	if excess := len(ended) - threshold; excess > 0 {
		slices.SortFunc(ended, func(a, b *corev1.Pod) int {
			return cmp.Or(a.CreationTimestamp.Compare(b.CreationTimestamp.Time), cmp.Compare(a.Name, b.Name))
		})
		for _, p := range ended[:excess] {
			out = append(out, removal{pod: p})
		}
	}
	return out
}

// remove ends a pod without asking a node.
func (c *Controller) remove(ctx context.Context, r removal) error {
	p := r.pod
	if r.message != "" && !podset.Done(p) {
		next := p.DeepCopy()
		next.Status.Phase = corev1.PodFailed
		podset.SetCondition(next, corev1.PodCondition{
			Type: corev1.DisruptionTarget, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(c.cfg.Now()), ObservedGeneration: p.Generation,
			Reason: "DeletionByPodGC", Message: r.message,
		})
		if _, err := client.UpdateStatus(ctx, c.cfg.Client, next); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("mark pod %s failed: %w", schema.KeyOf(p), err)
		}
	}
	zero := int64(0)
	err := client.Delete[*corev1.Pod](ctx, c.cfg.Client, schema.KeyOf(p), client.DeleteOptions{
		GracePeriodSeconds: &zero, Preconditions: &metav1.Preconditions{UID: &p.UID},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("remove pod %s: %w", schema.KeyOf(p), err)
	}
	return nil
}
