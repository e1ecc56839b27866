// Package pvprotection lets PersistentVolumes go that are being deleted, once
// they are bound to no claim.
//
// Watches PersistentVolumes. Owns the finalizer "kubernetes.io/pv-protection",
// which admission gives to new volumes. It promises that a bound volume stays.
package pvprotection

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// Finalizer keeps a volume that is bound.
const Finalizer = "kubernetes.io/pv-protection"

// Controller protects volumes.
type Controller struct{ cfg controller.Tools }

// New returns a controller; it starts nothing.
func New(cfg controller.Tools) *Controller { return &Controller{cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which volumes.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{{Resource: schema.ResourceFor[*corev1.PersistentVolume]()}}
}

// Reconcile takes the finalizer off a volume that is being deleted and not
// bound, and gives it to one that was made without.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	volume, ok := client.Cached[*corev1.PersistentVolume](c.cfg.Cache, key)
	if !ok {
		return controller.Result{}, nil
	}
	next := volume.DeepCopy()
	held := slices.Contains(volume.Finalizers, Finalizer)
	switch {
	case volume.DeletionTimestamp == nil && !held:
		next.Finalizers = append(next.Finalizers, Finalizer)
	case volume.DeletionTimestamp != nil && held && volume.Status.Phase != corev1.VolumeBound:
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == Finalizer })
	default:
		return controller.Result{}, nil
	}
	if _, err := client.Update(ctx, c.cfg.Client, next, client.WriteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return controller.Result{}, fmt.Errorf("update finalizers of volume %s: %w", key, err)
	}
	return controller.Result{}, nil
}
