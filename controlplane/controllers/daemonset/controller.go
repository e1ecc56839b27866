// Package daemonset runs one pod of each DaemonSet on every node that fits.
//
// Watches DaemonSets, Pods, Nodes and ControllerRevisions. Owns the Pods and
// ControllerRevisions that it created or adopted, and the status of
// DaemonSets. It decides itself which nodes fit; the scheduler binds each pod
// to the one node that its affinity names.
package daemonset

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/history"
	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/schema"
)

// Controller reconciles DaemonSets.
type Controller struct {
	cfg     controller.Tools
	pods    podset.Control
	pending *podset.Pending
	retries *retries
	known   matchers
}

// New returns a controller; it starts nothing.
func New(cfg controller.Tools) *Controller {
	pending := &podset.Pending{}
	return &Controller{
		cfg: cfg, pending: pending, retries: newRetries(),
		pods: podset.Control{Client: cfg.Client, Recorder: cfg.Recorder, Pending: pending},
	}
}

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which DaemonSets.
func (c *Controller) Watches() []controller.Watch {
	sets := schema.ResourceFor[*appsv1.DaemonSet]()
	selects := func(owner, o schema.Object) bool { return podset.Selects(owner.(*appsv1.DaemonSet).Spec.Selector, o) }
	return []controller.Watch{
		{Resource: sets, Map: func(ev client.Event) []schema.Key {
			if ev.Type == client.Deleted {
				c.known.forget(ev.Object.GetUID())
			}
			return []schema.Key{schema.KeyOf(ev.Object)}
		}},
		{Resource: schema.ResourceFor[*corev1.Pod](), Map: podset.WakeOwner(c.cfg.Cache, sets, selects)},
		{Resource: schema.ResourceFor[*corev1.Node](), Map: c.wakeByNode},
	}
}

// wakeByNode wakes the DaemonSets for which a node begins or ceases to fit, and
// that may have pods on one that goes. Heartbeats wake none, nor does a label or
// a taint that means nothing to a DaemonSet.
func (c *Controller) wakeByNode(ev client.Event) []schema.Key {
	node := ev.Object.(*corev1.Node)
	old, known := ev.Old.(*corev1.Node)
	changed := ev.Type == client.Modified
	if changed && known && apiequality.Semantic.DeepEqual(old.Labels, node.Labels) && apiequality.Semantic.DeepEqual(old.Spec.Taints, node.Spec.Taints) {
		return nil
	}
	there := map[types.UID]bool{} // whose pods are on a node that comes, perhaps again, or goes
	if !changed {
		for _, p := range client.CachedIndex[*corev1.Pod](c.cfg.Cache, client.IndexNode, node.Name) {
			if ref := metav1.GetControllerOfNoCopy(p); ref != nil {
				there[ref.UID] = true
			}
		}
	}
	var keys []schema.Key
	for _, o := range c.cfg.Cache.List(schema.ResourceFor[*appsv1.DaemonSet](), "") {
		m, was := c.known.get(o.(*appsv1.DaemonSet)), fit{}
		if changed && known {
			was = m.fits(old)
		}
		if m.fits(node) != was || there[o.GetUID()] || changed && !known {
			keys = append(keys, schema.KeyOf(o))
		}
	}
	return keys
}

// Reconcile brings the pods of one DaemonSet to the nodes that fit.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	// Read.
	ds, ok := client.Cached[*appsv1.DaemonSet](c.cfg.Cache, key)
	if !ok {
		return controller.Result{}, nil
	}
	sel, err := metav1.LabelSelectorAsSelector(ds.Spec.Selector)
	if err != nil || sel.Empty() {
		c.cfg.Recorder.Event(ds, corev1.EventTypeWarning, "SelectingAll", "This daemon set is selecting all pods. A non-empty selector is required.")
		return controller.Result{}, nil
	}
	if ds.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	settled, err := c.pending.Settled(ctx, c.cfg.Client, c.cfg.Cache, ds)
	if err != nil {
		return controller.Result{}, fmt.Errorf("check pods of %s: %w", key, err)
	}
	revisions := history.Of(c.cfg.Cache, ds)
	current, err := history.Sync(ctx, c.cfg.Client, revisions, ds, &ds.Spec.Template)
	if err != nil {
		return controller.Result{}, err
	}
	pods, err := podset.Claim[*corev1.Pod](ctx, c.cfg.Client, c.cfg.Cache, ds, sel)
	if err != nil {
		return controller.Result{}, err
	}
	w := world{ds: ds, hash: history.Hash(current), nodes: client.CachedList[*corev1.Node](c.cfg.Cache, ""), pods: byNode(pods), now: c.cfg.Now()}

	// Decide.
	p := plan(w)

	// Act.
	res := controller.Result{RequeueAfter: p.again}
	var actErr error
	if settled {
		res.RequeueAfter = earliest(res.RequeueAfter, c.holdBack(ds, &p))
		actErr = c.act(ctx, w, p)
	} else {
		res.RequeueAfter = podset.LagCheck
	}
	if !apiequality.Semantic.DeepEqual(ds.Status, p.status) {
		next := ds.DeepCopy()
		next.Status = p.status
		if _, err := client.UpdateStatus(ctx, c.cfg.Client, next); err != nil && actErr == nil {
			return res, fmt.Errorf("update status of %s: %w", key, err)
		}
	}
	if actErr == nil && p.status.UpdatedNumberScheduled == p.status.DesiredNumberScheduled {
		actErr = history.Trim(ctx, c.cfg.Client, revisions, usedBy(pods, w.hash), ds.Spec.RevisionHistoryLimit)
	}
	return res, actErr
}

// holdBack takes failed pods out of the plan that were replaced a moment ago:
// a pod that fails at once is not to be replaced in a loop.
func (c *Controller) holdBack(ds *appsv1.DaemonSet, p *decision) time.Duration {
	var wait time.Duration
	kept := p.remove[:0]
	for _, pod := range p.remove {
		if pod.Status.Phase == corev1.PodFailed {
			if d := c.retries.pause(ds.UID, pod.Spec.NodeName, pod.UID, c.cfg.Now()); d > 0 {
				wait = earliest(wait, d)
				continue
			}
			c.cfg.Recorder.Eventf(ds, corev1.EventTypeWarning, "FailedDaemonPod", "Found failed daemon pod %s on node %s, will try to kill it", schema.KeyOf(pod), pod.Spec.NodeName)
		}
		if pod.Status.Phase == corev1.PodSucceeded {
			c.cfg.Recorder.Eventf(ds, corev1.EventTypeNormal, "SucceededDaemonPod", "Found succeeded daemon pod %s on node %s, will try to delete it", schema.KeyOf(pod), pod.Spec.NodeName)
		}
		kept = append(kept, pod)
	}
	p.remove = kept
	return wait
}

// act carries out a plan.
func (c *Controller) act(ctx context.Context, w world, p decision) error {
	pods := make([]*corev1.Pod, len(p.create))
	for i, node := range p.create {
		pods[i] = newPod(w.ds, node, w.hash)
	}
	if _, err := c.pods.Create(ctx, w.ds, pods[:min(len(pods), podset.Burst)]); err != nil {
		return err
	}
	return c.pods.Delete(ctx, w.ds, p.remove[:min(len(p.remove), podset.Burst)])
}

func usedBy(pods []*corev1.Pod, hash string) map[string]bool {
	used := map[string]bool{hash: true}
	for _, p := range pods {
		used[p.Labels[appsv1.ControllerRevisionHashLabelKey]] = true
	}
	return used
}
