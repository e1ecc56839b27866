// Package bootstrapsigner keeps cluster-info signed by every bootstrap token
// that may sign it: what joining machines learn of the cluster they believe for
// the signature of their token.
//
// Watches the ConfigMap kube-public/cluster-info and the bootstrap tokens in
// kube-system. Owns the keys "jws-kubeconfig-<id>" of the ConfigMap, not the
// ConfigMap itself: without one it does nothing.
package bootstrapsigner

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

var info = schema.Key{Namespace: "kube-public", Name: bootstrapapi.ConfigMapClusterInfo}

// Config is everything the controller needs from outside.
type Config struct {
	controller.Tools
	// Signed returns cluster-info with the signatures of the tokens that may
	// sign it now and no others, and whether that is a change. It does not
	// change what it is given.
	Signed func(info *corev1.ConfigMap, tokens []*corev1.Secret, now time.Time) (next *corev1.ConfigMap, changed bool, err error)
}

// Controller signs.
type Controller struct{ cfg Config }

// New returns a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events call for signatures. There is one key.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{
		{Resource: schema.ResourceFor[*corev1.ConfigMap](), Map: func(ev client.Event) []schema.Key {
			if ev.Type == client.Deleted || schema.KeyOf(ev.Object) != info {
				return nil
			}
			return []schema.Key{info}
		}},
		{Resource: schema.ResourceFor[*corev1.Secret](), Map: func(ev client.Event) []schema.Key {
			if s, ok := ev.Object.(*corev1.Secret); !ok || !isToken(s) {
				return nil
			}
			return []schema.Key{info}
		}},
	}
}

func isToken(s *corev1.Secret) bool {
	return s.Type == bootstrapapi.SecretTypeBootstrapToken && s.Namespace == "kube-system"
}

// Reconcile writes the signatures where they are not those that should be.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	live, ok := client.Cached[*corev1.ConfigMap](c.cfg.Cache, key)
	if !ok || live.DeletionTimestamp != nil {
		return controller.Result{}, nil
	}
	if _, ok := live.Data[bootstrapapi.KubeConfigKey]; !ok {
		return controller.Result{}, nil // nothing to sign yet
	}
	var tokens []*corev1.Secret
	for _, s := range client.CachedList[*corev1.Secret](c.cfg.Cache, "kube-system") {
		if isToken(s) {
			tokens = append(tokens, s)
		}
	}
	next, changed, err := c.cfg.Signed(live, tokens, c.cfg.Now())
	if err != nil || !changed {
		return controller.Result{}, err
	}
	if _, err := client.Update(ctx, c.cfg.Client, next, client.WriteOptions{}); err != nil && !apierrors.IsNotFound(err) {
		return controller.Result{}, fmt.Errorf("update config map %s: %w", key, err)
	}
	return controller.Result{}, nil
}
