// Package namespace empties namespaces that are being deleted and lets them
// go.
//
// Watches Namespaces, and in those that are going what comes and ends. Owns
// the finalizer "kubernetes" of Namespaces and the conditions that say what
// still keeps one. It promises that pods end before the rest: what a pod needs
// is there until it has stopped.
package namespace

import (
	"context"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

const (
	parallel = 32
	// A namespace whose content is on its way out is woken by the end of the last
	// of each kind. It is looked at besides, for what it says of its content and
	// for an end that nobody told of: after an eighth of the time that it has been
	// going for, within these bounds.
	lookFirst = time.Second
	lookLast  = time.Minute
)

// lookAgain is when to look at a namespace that something holds.
func lookAgain(ns *corev1.Namespace, now time.Time) time.Duration {
	return min(max(now.Sub(ns.DeletionTimestamp.Time)/8, lookFirst), lookLast)
}

// Config is everything the controller needs from outside.
type Config struct {
	controller.Tools
	// Catalog is what may be in a namespace. nil: the table alone.
	Catalog *schema.Live
}

// Controller empties namespaces.
type Controller struct {
	cfg  Config
	left tally
}

// New returns a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg: cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which namespaces.
func (c *Controller) Watches() []controller.Watch {
	out := []controller.Watch{{Resource: schema.ResourceFor[*corev1.Namespace](), Map: func(ev client.Event) []schema.Key {
		if ev.Type == client.Deleted {
			c.left.forget(ev.Object.GetName())
			return nil
		}
		if ev.Object.GetDeletionTimestamp() == nil {
			return nil
		}
		return []schema.Key{schema.KeyOf(ev.Object)}
	}}}
	for _, r := range schema.Builtin.Stored() {
		if r.Namespaced && r != schema.ResourceFor[*corev1.Event]() { // nothing holds an event
			out = append(out, c.Custom(r))
		}
	}
	return out
}

// Custom says which events of a resource that a definition has added wake which
// namespaces.
func (c *Controller) Custom(stored *schema.Resource) controller.Watch {
	return controller.Watch{Resource: stored, Map: func(ev client.Event) []schema.Key {
		key := schema.Key{Name: ev.Object.GetNamespace()}
		switch ev.Type {
		case client.Deleted:
			if !c.left.ended(key.Name, stored) {
				return nil
			}
		case client.Added: // too late, or from before we looked
			if ns, ok := client.Cached[*corev1.Namespace](c.cfg.Cache, key); !ok || ns.DeletionTimestamp == nil {
				return nil
			}
		default:
			return nil
		}
		return []schema.Key{key}
	}}
}

// Reconcile deletes what is in a namespace that is being deleted, and the
// namespace itself once nothing is.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	ns, ok := client.Cached[*corev1.Namespace](c.cfg.Cache, key)
	if !ok || ns.DeletionTimestamp == nil {
		return controller.Result{}, nil
	}
	left, deleteErr := c.empty(ctx, ns.Name)
	if err := c.report(ctx, ns, left, deleteErr); err != nil {
		return controller.Result{}, err
	}
	if deleteErr != nil {
		return controller.Result{}, deleteErr
	}
	if len(left) > 0 {
		return controller.Result{RequeueAfter: lookAgain(ns, c.cfg.Now())}, nil
	}
	return controller.Result{}, c.finalize(ctx, key)
}

// empty asks all content to go and returns what is left: pods first, the rest
// when no pod is left.
func (c *Controller) empty(ctx context.Context, ns string) ([]remnant, error) {
	pods := schema.ResourceFor[*corev1.Pod]()
	left, err := c.sweep(ctx, pods, ns)
	if err != nil || left.count > 0 {
		return []remnant{left}, err
	}
	var all []remnant
	var errs []error
	catalog := c.cfg.Catalog.Load()
	for _, stored := range catalog.Stored() {
		if !stored.Namespaced || stored == pods {
			continue
		}
		left, err := c.sweep(ctx, catalog.Served(stored), ns)
		errs = append(errs, err)
		if left.count > 0 {
			all = append(all, left)
		}
	}
	return all, errors.Join(errs...)
}

// sweep deletes the objects of one resource and returns how many are left.
func (c *Controller) sweep(ctx context.Context, r *schema.Resource, ns string) (remnant, error) {
	left := remnant{resource: r, finalizers: map[string]int{}}
	ended := c.left.before(ns, r.Stored())
	defer func() { c.left.counted(ns, r.Stored(), left.count, ended) }()
	l, err := c.cfg.Client.List(ctx, r, client.ListOptions{Namespace: ns})
	if err != nil {
		return left, fmt.Errorf("list %s in %s: %w", r, ns, err)
	}
	if len(l.Items) == 0 {
		return left, nil
	}
	var g errgroup.Group
	g.SetLimit(parallel)
	for _, o := range l.Items {
		if o.GetDeletionTimestamp() != nil {
			continue
		}
		g.Go(func() error {
			uid := o.GetUID()
			err := c.cfg.Client.Delete(ctx, r, schema.KeyOf(o), client.DeleteOptions{
				Propagation:   metav1.DeletePropagationBackground,
				Preconditions: &metav1.Preconditions{UID: &uid},
			})
			if err != nil && !apierrors.IsNotFound(err) {
				return fmt.Errorf("delete %s %s: %w", r, schema.KeyOf(o), err)
			}
			return nil
		})
	}
	err = g.Wait()
	rest, lerr := c.cfg.Client.List(ctx, r, client.ListOptions{Namespace: ns})
	for _, o := range rest.Items {
		left.count++
		for _, f := range o.GetFinalizers() {
			left.finalizers[f]++
		}
	}
	return left, errors.Join(err, lerr)
}

// report writes the conditions where they changed.
func (c *Controller) report(ctx context.Context, ns *corev1.Namespace, left []remnant, deleteErr error) error {
	next := ns.DeepCopy()
	next.Status.Conditions = conditions(ns.Status.Conditions, left, deleteErr, c.cfg.Now())
	if len(left) == 0 && deleteErr == nil || apiequality.Semantic.DeepEqual(ns.Status, next.Status) {
		return nil // about to go, or nothing new
	}
	if _, err := client.UpdateStatus(ctx, c.cfg.Client, next); err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("update status of namespace %s: %w", ns.Name, err)
	}
	return nil
}

// finalize takes our finalizer off, whereupon the server removes the namespace
// if no other holds it.
func (c *Controller) finalize(ctx context.Context, key schema.Key) error {
	ns, err := client.Get[*corev1.Namespace](ctx, c.cfg.Client, key)
	if apierrors.IsNotFound(err) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read namespace %s: %w", key, err)
	}
	next := ns.DeepCopy()
	next.Spec.Finalizers = withoutOurs(ns.Spec.Finalizers)
	if len(next.Spec.Finalizers) == len(ns.Spec.Finalizers) {
		return nil
	}
	_, err = client.Update(ctx, c.cfg.Client, next, client.WriteOptions{Subresource: "finalize"})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("finalize namespace %s: %w", key, err)
	}
	return nil
}
