// Package garbagecollector deletes objects whose owners are gone, and holds
// owners that are to go after, or without, what they own.
//
// Watches every resource that is served but events. Owns the finalizers
// "foregroundDeletion" and "orphan". An owner is an object by its UID: one of
// the same name that came later owns nothing of its predecessor's. What Git
// declares stays, and loses owners that are gone, unless Git declares them too.
package garbagecollector

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

const (
	// parallel bounds the deletions in flight for one owner.
	parallel = 16
	// heldLook is how often an owner that waits is looked at without an event:
	// the last of a kind that is no longer served may go unheard.
	heldLook = 5 * time.Minute
)

// Config is everything the controller needs from outside.
type Config struct {
	controller.Tools // the cache holds every resource that is served
	// Catalog is what is served. nil: the table alone.
	Catalog *schema.Live
}

// Controller collects garbage.
type Controller struct {
	cfg   Config
	graph *graph
}

// New returns a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg: cfg, graph: newGraph()} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which objects.
func (c *Controller) Watches() []controller.Watch {
	var out []controller.Watch
	for _, r := range schema.Builtin.Stored() {
		if r != schema.ResourceFor[*corev1.Event]() {
			out = append(out, c.Custom(r))
		}
	}
	return out
}

// Custom says which events of a resource that a definition has added wake which
// objects.
func (c *Controller) Custom(stored *schema.Resource) controller.Watch {
	return controller.Watch{Resource: stored, Map: func(ev client.Event) []schema.Key { return c.wake(stored, ev) }}
}

// wake keeps the graph and returns the objects to look at.
func (c *Controller) wake(r *schema.Resource, ev client.Event) []schema.Key {
	id := identity{r, schema.KeyOf(ev.Object)}
	owners := ev.Object.GetOwnerReferences()
	if ev.Type == client.Deleted {
		c.graph.set(id, nil)
		return append(keysOf(c.graph.dependents(ev.Object.GetUID())), c.unheld(id, owners)...)
	}
	c.graph.set(id, owners)
	deleted := ev.Object.GetDeletionTimestamp() != nil
	wasDeleted := ev.Old != nil && ev.Old.GetDeletionTimestamp() != nil
	sameOwners := ev.Old != nil && slices.EqualFunc(owners, ev.Old.GetOwnerReferences(), sameReference)
	if deleted && wasDeleted && sameOwners && slices.Equal(ev.Object.GetFinalizers(), ev.Old.GetFinalizers()) || !deleted && (ev.Old == nil && len(owners) == 0 || sameOwners) {
		return nil
	}
	keys := []schema.Key{id.queueKey()}
	if ev.Old != nil && !sameOwners {
		keys = append(keys, c.unheld(id, ev.Old.GetOwnerReferences())...)
	}
	return keys
}

// unheld returns the owners that an object had, or blocks no more, and for which
// it was the last that they may have waited: the others need not look, and an
// owner of thousands is not looked through for each of them.
func (c *Controller) unheld(id identity, owners []metav1.OwnerReference) (keys []schema.Key) {
	for _, ref := range owners {
		if c.graph.blocked(ref.UID) {
			continue
		}
		if owner, ok := c.ownerOf(id, ref); ok {
			keys = append(keys, owner.queueKey())
		}
	}
	return keys
}

func sameReference(a, b metav1.OwnerReference) bool {
	return a.UID == b.UID && ptrTrue(a.BlockOwnerDeletion) == ptrTrue(b.BlockOwnerDeletion)
}

func ptrTrue(b *bool) bool { return b != nil && *b }

// Reconcile looks at one object.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	id, ok := c.parse(key)
	if !ok {
		return controller.Result{}, nil
	}
	o, ok := c.cfg.Cache.Get(id.resource, id.key)
	if !ok {
		return controller.Result{}, nil
	}
	switch {
	case o.GetDeletionTimestamp() == nil:
		return controller.Result{}, c.collect(ctx, id, o)
	case slices.Contains(o.GetFinalizers(), metav1.FinalizerOrphanDependents):
		return controller.Result{}, c.orphan(ctx, id, o)
	case slices.Contains(o.GetFinalizers(), metav1.FinalizerDeleteDependents):
		return c.foreground(ctx, id, o)
	}
	return controller.Result{}, nil
}

// collect deletes an object none of whose owners is left, and takes the
// references to those that are gone off one that has others.
func (c *Controller) collect(ctx context.Context, id identity, o schema.Object) error {
	var solid, waiting, dangling []metav1.OwnerReference
	for _, ref := range o.GetOwnerReferences() {
		state, err := c.stateOf(ctx, id, ref)
		if err != nil {
			return err
		}
		switch state {
		case alive:
			solid = append(solid, ref)
		case goingForeground:
			waiting = append(waiting, ref)
		case gone:
			dangling = append(dangling, ref)
		}
	}
	switch p := plan(len(solid), len(waiting), len(dangling), o, c.graph.has(o.GetUID())); p.verb {
	case keep:
		return nil
	case unlink:
		return c.unlink(ctx, id, o, append(waiting, dangling...))
	default:
		if len(waiting) > 0 && c.circular(o) {
			return c.unblock(ctx, id, o)
		}
		err := c.delete(ctx, id, o, p.propagation)
		if apierrors.HasStatusCause(err, v1alpha1.DeclaredCause) {
			// Git declares it, and not those owners: it stays, without them.
			return c.unlink(ctx, id, o, append(waiting, dangling...))
		}
		return err
	}
}

// orphan frees what an object owns and lets the object go.
func (c *Controller) orphan(ctx context.Context, id identity, o schema.Object) error {
	for _, dep := range c.graph.dependents(o.GetUID()) {
		obj, ok := c.cfg.Cache.Get(dep.resource, dep.key)
		if !ok {
			continue
		}
		if err := c.unlink(ctx, dep, obj, []metav1.OwnerReference{{UID: o.GetUID()}}); err != nil {
			return err
		}
	}
	return c.release(ctx, id, o, metav1.FinalizerOrphanDependents)
}

// foreground deletes what an object owns, and lets the object go when nothing
// is left of what blocks it.
func (c *Controller) foreground(ctx context.Context, id identity, o schema.Object) (controller.Result, error) {
	blocked := false
	var g errgroup.Group
	g.SetLimit(parallel)
	for _, dep := range c.graph.dependents(o.GetUID()) {
		obj, ok := c.cfg.Cache.Get(dep.resource, dep.key)
		if !ok {
			continue
		}
		blocks := slices.ContainsFunc(obj.GetOwnerReferences(), func(ref metav1.OwnerReference) bool {
			return ref.UID == o.GetUID() && ptrTrue(ref.BlockOwnerDeletion)
		})
		blocked = blocked || blocks
		if obj.GetDeletionTimestamp() == nil {
			g.Go(func() error { return c.collect(ctx, dep, obj) })
		}
	}
	if err := g.Wait(); err != nil {
		return controller.Result{}, err
	}
	if blocked { // the end of the last dependent wakes us
		return controller.Result{RequeueAfter: heldLook}, nil
	}
	return controller.Result{}, c.release(ctx, id, o, metav1.FinalizerDeleteDependents)
}

// release takes a finalizer off.
func (c *Controller) release(ctx context.Context, id identity, o schema.Object, finalizer string) error {
	left := slices.DeleteFunc(slices.Clone(o.GetFinalizers()), func(f string) bool { return f == finalizer })
	return c.patch(ctx, id, "release", map[string]any{"resourceVersion": o.GetResourceVersion(), "finalizers": left})
}

// unlink takes references to owners off an object.
func (c *Controller) unlink(ctx context.Context, id identity, o schema.Object, owners []metav1.OwnerReference) error {
	left := slices.DeleteFunc(slices.Clone(o.GetOwnerReferences()), func(ref metav1.OwnerReference) bool {
		return slices.ContainsFunc(owners, func(x metav1.OwnerReference) bool { return x.UID == ref.UID })
	})
	if len(left) == len(o.GetOwnerReferences()) {
		return nil
	}
	meta := map[string]any{"resourceVersion": o.GetResourceVersion(), "uid": o.GetUID(), "ownerReferences": left}
	if len(left) == 0 {
		meta["ownerReferences"] = nil
	}
	return c.patch(ctx, id, "unlink", meta)
}

// patch merges into the metadata of an object; one that is gone is no error. to
// is what that does to it.
func (c *Controller) patch(ctx context.Context, id identity, to string, meta map[string]any) error {
	data, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	_, err = c.cfg.Client.Patch(ctx, c.served(id), id.key, types.MergePatchType, data, client.WriteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("%s %s: %w", to, id, err)
	}
	return nil
}

// delete removes an object, if it is still the one that was looked at.
func (c *Controller) delete(ctx context.Context, id identity, o schema.Object, p metav1.DeletionPropagation) error {
	uid, version := o.GetUID(), o.GetResourceVersion()
	err := c.cfg.Client.Delete(ctx, c.served(id), id.key, client.DeleteOptions{
		Propagation:   p,
		Preconditions: &metav1.Preconditions{UID: &uid, ResourceVersion: &version},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("collect %s: %w", id, err)
	}
	return nil
}
