// Package serviceaccount keeps a ServiceAccount "default" in every namespace.
//
// Watches Namespaces and ServiceAccounts. Owns the existence of the
// ServiceAccounts named "default", nothing in them.
package serviceaccount

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

const name = "default"

// Controller creates the default ServiceAccounts.
type Controller struct{ cfg controller.Tools }

// New returns a controller; it starts nothing.
func New(cfg controller.Tools) *Controller { return &Controller{cfg: cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which namespaces.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{
		{Resource: schema.ResourceFor[*corev1.Namespace]()},
		{Resource: schema.ResourceFor[*corev1.ServiceAccount](), Map: func(ev client.Event) []schema.Key {
			if ev.Type != client.Deleted || ev.Object.GetName() != name {
				return nil
			}
			return []schema.Key{{Name: ev.Object.GetNamespace()}}
		}},
	}
}

// Reconcile creates the ServiceAccount where it is missing.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	ns, ok := client.Cached[*corev1.Namespace](c.cfg.Cache, key)
	if !ok || ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating {
		return controller.Result{}, nil
	}
	if _, ok := client.Cached[*corev1.ServiceAccount](c.cfg.Cache, schema.Key{Namespace: key.Name, Name: name}); ok {
		return controller.Result{}, nil
	}
	sa := &corev1.ServiceAccount{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"},
		ObjectMeta: metav1.ObjectMeta{Namespace: key.Name, Name: name},
	}
	_, err := client.Create(ctx, c.cfg.Client, sa, client.WriteOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return controller.Result{}, fmt.Errorf("create service account %s/%s: %w", key.Name, name, err)
	}
	return controller.Result{}, nil
}
