// Package replicaset keeps as many pods as each ReplicaSet asks for.
//
// Watches ReplicaSets and Pods. Owns the Pods that it created or adopted, and
// the status of ReplicaSets. It promises never to create a pod twice, however
// far its cache lags behind, and to end those first whose end hurts least.
package replicaset

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/schema"
)

// Config is everything the controller needs from outside.
type Config struct {
	Client   client.Interface
	Cache    client.Cache
	Recorder *client.Recorder
	Now      func() time.Time
}

// Controller reconciles ReplicaSets.
type Controller struct {
	cfg     Config
	pods    podset.Control
	pending *podset.Pending
}

// New returns a controller; it starts nothing.
func New(cfg Config) *Controller {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	pending := &podset.Pending{}
	return &Controller{
		cfg:     cfg,
		pending: pending,
		pods:    podset.Control{Client: cfg.Client, Recorder: cfg.Recorder, Pending: pending},
	}
}

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which ReplicaSets.
func (c *Controller) Watches() []controller.Watch {
	sets := schema.ResourceFor[*appsv1.ReplicaSet]()
	selects := func(owner, o schema.Object) bool {
		return podset.Selects(owner.(*appsv1.ReplicaSet).Spec.Selector, o)
	}
	return []controller.Watch{
		{Resource: sets},
		{Resource: schema.ResourceFor[*corev1.Pod](), Map: podset.WakeOwner(c.cfg.Cache, sets, selects)},
	}
}

// Reconcile brings the pods of one ReplicaSet to the number asked for.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	// Read.
	rs, ok := client.Cached[*appsv1.ReplicaSet](c.cfg.Cache, key)
	if !ok {
		return controller.Result{}, nil
	}
	settled, err := c.pending.Settled(ctx, c.cfg.Client, c.cfg.Cache, rs)
	if err != nil {
		return controller.Result{}, fmt.Errorf("check pods of %s: %w", key, err)
	}
	sel, err := metav1.LabelSelectorAsSelector(rs.Spec.Selector)
	if err != nil {
		return controller.Result{}, controller.Terminal(fmt.Errorf("read selector of %s: %w", key, err))
	}
	pods, err := podset.Claim[*corev1.Pod](ctx, c.cfg.Client, c.cfg.Cache, rs, sel)
	if err != nil {
		return controller.Result{}, err
	}

	// Decide and act.
	var manageErr error
	if settled && rs.DeletionTimestamp == nil {
		manageErr = c.manage(ctx, rs, plan(rs, pods, c.related(rs), c.cfg.Now()))
	}
	res := controller.Result{RequeueAfter: nextAvailable(rs, pods, c.cfg.Now())}
	if !settled {
		res.RequeueAfter = podset.LagCheck
	}
	status := statusOf(rs, pods, manageErr, c.cfg.Now())
	if !apiequality.Semantic.DeepEqual(rs.Status, status) {
		next := rs.DeepCopy()
		next.Status = status
		if _, err := client.UpdateStatus(ctx, c.cfg.Client, next); err != nil && manageErr == nil {
			return res, fmt.Errorf("update status of %s: %w", key, err)
		}
	}
	return res, manageErr
}

// manage carries out a plan.
func (c *Controller) manage(ctx context.Context, rs *appsv1.ReplicaSet, p decision) error {
	if p.create > 0 {
		pods := make([]*corev1.Pod, p.create)
		for i := range pods {
			pods[i] = podset.FromTemplate(&rs.Spec.Template, rs)
		}
		_, err := c.pods.Create(ctx, rs, pods)
		return err
	}
	return c.pods.Delete(ctx, rs, p.remove)
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
