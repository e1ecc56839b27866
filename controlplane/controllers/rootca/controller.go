// Package rootca publishes the cluster's certificate authority in every
// namespace, for pods that talk to the API server.
//
// Watches Namespaces and ConfigMaps. Owns the ConfigMaps named
// "kube-root-ca.crt".
package rootca

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

const (
	name           = "kube-root-ca.crt"
	annDescription = "kubernetes.io/description"
	description    = "Contains a CA bundle that can be used to verify the kube-apiserver when using internal endpoints such as the internal service IP or kubernetes.default.svc. " +
		"No other usage is guaranteed across distributions of Kubernetes clusters."
)

// Config is everything the controller needs from outside.
type Config struct {
	controller.Tools
	// CA is the bundle in PEM.
	CA []byte
}

// Controller publishes the bundle.
type Controller struct{ cfg Config }

// New returns a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg: cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which namespaces.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{
		{Resource: schema.ResourceFor[*corev1.Namespace]()},
		{Resource: schema.ResourceFor[*corev1.ConfigMap](), Map: func(ev client.Event) []schema.Key {
			if ev.Object.GetName() != name {
				return nil
			}
			return []schema.Key{{Name: ev.Object.GetNamespace()}}
		}},
	}
}

// Reconcile creates the ConfigMap, or takes back what was changed in it.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	ns, ok := client.Cached[*corev1.Namespace](c.cfg.Cache, key)
	if !ok || ns.DeletionTimestamp != nil || ns.Status.Phase == corev1.NamespaceTerminating {
		return controller.Result{}, nil
	}
	live, ok := client.Cached[*corev1.ConfigMap](c.cfg.Cache, schema.Key{Namespace: key.Name, Name: name})
	data := map[string]string{"ca.crt": string(c.cfg.CA)}
	if !ok {
		_, err := client.Create(ctx, c.cfg.Client, &corev1.ConfigMap{
			TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
			ObjectMeta: metav1.ObjectMeta{Namespace: key.Name, Name: name, Annotations: map[string]string{annDescription: description}},
			Data:       data,
		}, client.WriteOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) && !apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return controller.Result{}, fmt.Errorf("create config map %s/%s: %w", key.Name, name, err)
		}
		return controller.Result{}, nil
	}
	if maps.Equal(live.Data, data) && live.Annotations[annDescription] == description {
		return controller.Result{}, nil
	}
	next := live.DeepCopy()
	next.Data = data
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, annDescription, description)
	if _, err := client.Update(ctx, c.cfg.Client, next, client.WriteOptions{}); err != nil {
		return controller.Result{}, fmt.Errorf("update config map %s/%s: %w", key.Name, name, err)
	}
	return controller.Result{}, nil
}
