// Package replicaset keeps as many pods as each ReplicaSet, or each
// ReplicationController, asks for: the two differ in their names only.
//
// Watches ReplicaSets or ReplicationControllers, and Pods. Owns the Pods that
// it created or adopted, and the status of its kind. It promises never to create a pod twice, however
// far its cache lags behind, and to end those first whose end hurts least.
package replicaset

import (
	"context"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/schema"
)

// Controller reconciles ReplicaSets, or ReplicationControllers.
type Controller struct {
	cfg     controller.Tools
	kind    kind
	pods    podset.Control
	pending *podset.Pending
}

// New returns a controller of ReplicaSets; it starts nothing.
func New(cfg controller.Tools) *Controller { return newController(cfg, replicaSets) }

// NewReplicationController returns a controller of ReplicationControllers; it
// starts nothing.
func NewReplicationController(cfg controller.Tools) *Controller {
	return newController(cfg, replicationControllers)
}

func newController(cfg controller.Tools, k kind) *Controller {
	pending := &podset.Pending{}
	return &Controller{
		cfg:     cfg,
		kind:    k,
		pending: pending,
		pods:    podset.Control{Client: cfg.Client, Recorder: cfg.Recorder, Pending: pending},
	}
}

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which sets.
func (c *Controller) Watches() []controller.Watch {
	selects := func(owner, o schema.Object) bool { return podset.Selects(c.kind.view(owner).Spec.Selector, o) }
	return []controller.Watch{
		{Resource: c.kind.resource()},
		{Resource: schema.ResourceFor[*corev1.Pod](), Map: podset.WakeOwner(c.cfg.Cache, c.kind.resource(), selects)},
	}
}

// Reconcile brings the pods of one set to the number asked for.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	// Read.
	owner, ok := c.cfg.Cache.Get(c.kind.resource(), key)
	if !ok {
		return controller.Result{}, nil
	}
	rs := c.kind.view(owner)
	settled, err := c.pending.Settled(ctx, c.cfg.Client, c.cfg.Cache, rs)
	if err != nil {
		return controller.Result{}, fmt.Errorf("check pods of %s: %w", key, err)
	}
	sel, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	if err != nil {
		return controller.Result{}, controller.Terminal(fmt.Errorf("read selector of %s: %w", key, err))
	}
	pods, err := podset.Claim[*corev1.Pod](ctx, c.cfg.Client, c.cfg.Cache, owner, sel)
	if err != nil {
		return controller.Result{}, err
	}

	// Decide and act.
	var manageErr error
	if settled && rs.DeletionTimestamp == nil {
		manageErr = c.manage(ctx, owner, &rs.Spec.Template, plan(rs, pods, c.related(rs), c.cfg.Now()))
	}
	res := controller.Result{RequeueAfter: nextAvailable(rs, pods, c.cfg.Now())}
	if !settled {
		res.RequeueAfter = podset.LagCheck
	}
	status := c.kind.told(statusOf(rs, pods, manageErr, c.cfg.Now()))
	if !apiequality.Semantic.DeepEqual(rs.Status, status) {
		_, err := c.cfg.Client.Update(ctx, c.kind.resource(), c.kind.withStatus(owner, status), client.WriteOptions{Subresource: "status"})
		if err != nil && manageErr == nil {
			return res, fmt.Errorf("update status of %s: %w", key, err)
		}
	}
	return res, manageErr
}

// manage carries out a plan.
func (c *Controller) manage(ctx context.Context, owner schema.Object, template *corev1.PodTemplateSpec, p decision) error {
	if p.create > 0 {
		pods := make([]*corev1.Pod, p.create)
		for i := range pods {
			pods[i] = podset.FromTemplate(template, owner)
		}
		_, err := c.pods.Create(ctx, owner, pods)
		return err
	}
	return c.pods.Delete(ctx, owner, p.remove)
}

// related returns the pods of all ReplicaSets that have the same controller:
// where those of the other sets run matters for which pod to end.
func (c *Controller) related(rs *appsv1.ReplicaSet) func() []*corev1.Pod {
	return func() []*corev1.Pod {
		ref := metav1.GetControllerOfNoCopy(rs)
		if ref == nil {
			return podset.PodsOf(c.cfg.Cache, rs.UID)
		}
		var out []*corev1.Pod
		for _, sibling := range client.CachedIndex[*appsv1.ReplicaSet](c.cfg.Cache, client.IndexOwner, string(ref.UID)) {
			out = append(out, podset.PodsOf(c.cfg.Cache, sibling.UID)...)
		}
		return out
	}
}
