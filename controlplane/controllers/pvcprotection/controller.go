// Package pvcprotection lets PersistentVolumeClaims go that are being deleted,
// once no pod uses them.
//
// Watches PersistentVolumeClaims and Pods. Owns the finalizer
// "kubernetes.io/pvc-protection", which admission gives to new claims. It
// promises that a claim stays as long as a pod that a node may know refers to
// it, even one that has ended: the node may still have its volume mounted.
package pvcprotection

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// Finalizer keeps a claim that is in use.
const Finalizer = "kubernetes.io/pvc-protection"

// Controller protects claims.
type Controller struct{ cfg controller.Tools }

// New returns a controller; it starts nothing.
func New(cfg controller.Tools) *Controller { return &Controller{cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which claims.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{
		{Resource: schema.ResourceFor[*corev1.PersistentVolumeClaim](), Map: func(ev client.Event) []schema.Key {
			held := slices.Contains(ev.Object.GetFinalizers(), Finalizer)
			if ev.Type == client.Deleted || held == (ev.Object.GetDeletionTimestamp() == nil) {
				return nil
			}
			return []schema.Key{schema.KeyOf(ev.Object)}
		}},
		{Resource: schema.ResourceFor[*corev1.Pod](), Map: freed},
	}
}

// freed returns the claims that an event of a pod may set free: the pod is
// gone or has ended, or was another one under the same name before.
func freed(ev client.Event) []schema.Key {
	pod, ok := ev.Object.(*corev1.Pod)
	if !ok {
		return nil
	}
	var keys []schema.Key
	if ev.Type == client.Deleted || pod.Spec.NodeName == "" || ended(pod) || shutDown(pod) {
		keys = claims(pod)
	}
	if old, ok := ev.Old.(*corev1.Pod); ok && old.UID != pod.UID {
		keys = append(keys, claims(old)...)
	}
	return keys
}

// claims are the keys of the claims that a pod refers to.
func claims(pod *corev1.Pod) []schema.Key {
	var keys []schema.Key
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil:
			keys = append(keys, schema.Key{Namespace: pod.Namespace, Name: v.PersistentVolumeClaim.ClaimName})
		case v.Ephemeral != nil:
			keys = append(keys, schema.Key{Namespace: pod.Namespace, Name: ephemeralName(pod, v)})
		}
	}
	return keys
}

// Reconcile takes the finalizer off a claim that is being deleted and not in
// use, and gives it to one that was made without.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	claim, ok := client.Cached[*corev1.PersistentVolumeClaim](c.cfg.Cache, key)
	if !ok {
		return controller.Result{}, nil
	}
	next := claim.DeepCopy()
	held := slices.Contains(claim.Finalizers, Finalizer)
	switch {
	case claim.DeletionTimestamp == nil && !held:
		next.Finalizers = append(next.Finalizers, Finalizer)
	case claim.DeletionTimestamp != nil && held:
		used, err := c.used(ctx, claim)
		if used || err != nil {
			return controller.Result{}, err
		}
		next.Finalizers = slices.DeleteFunc(next.Finalizers, func(f string) bool { return f == Finalizer })
	default:
		return controller.Result{}, nil
	}
	if _, err := client.Update(ctx, c.cfg.Client, next, client.WriteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return controller.Result{}, fmt.Errorf("update finalizers of claim %s: %w", key, err)
	}
	return controller.Result{}, nil
}

// used says whether a pod uses the claim. What the cache knows suffices to keep
// it; to let it go takes a look at the server.
func (c *Controller) used(ctx context.Context, claim *corev1.PersistentVolumeClaim) (bool, error) {
	for _, pod := range client.CachedList[*corev1.Pod](c.cfg.Cache, claim.Namespace) {
		if uses(pod, claim) {
			return true, nil
		}
	}
	pods, err := client.ListAll[*corev1.Pod](ctx, c.cfg.Client, client.ListOptions{Namespace: claim.Namespace})
	if err != nil {
		return false, fmt.Errorf("list pods in %s: %w", claim.Namespace, err)
	}
	return slices.ContainsFunc(pods, func(pod *corev1.Pod) bool { return uses(pod, claim) }), nil
}

// uses says whether a pod keeps a claim. One without a node does not: no node
// starts a pod whose claim is being deleted.
func uses(pod *corev1.Pod, claim *corev1.PersistentVolumeClaim) bool {
	if pod.Spec.NodeName == "" {
		return false
	}
	for _, v := range pod.Spec.Volumes {
		switch {
		case v.PersistentVolumeClaim != nil && v.PersistentVolumeClaim.ClaimName == claim.Name:
			return true
		case v.Ephemeral != nil && ephemeralName(pod, v) == claim.Name && metav1.IsControlledBy(claim, pod) && !shutDown(pod):
			return true
		}
	}
	return false
}

// ephemeralName is the name of the claim behind a generic ephemeral volume.
func ephemeralName(pod *corev1.Pod, v corev1.Volume) string { return pod.Name + "-" + v.Name }

func ended(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// shutDown says that the node is done with a pod, or that it was deleted by
// force: only finalizers keep it, and those may wait for its claims.
func shutDown(pod *corev1.Pod) bool {
	return pod.DeletionTimestamp != nil && pod.DeletionGracePeriodSeconds != nil && *pod.DeletionGracePeriodSeconds == 0
}
