// Package tokencleaner deletes bootstrap tokens that have expired, at their
// time.
//
// Watches the Secrets of type bootstrap.kubernetes.io/token in kube-system.
// Owns nothing in them. It promises that a token without an expiration stays.
package tokencleaner

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// Config is everything the controller needs from outside.
type Config struct {
	controller.Tools
	// Expired says whether a token is over.
	Expired func(token *corev1.Secret, now time.Time) bool
}

// Controller deletes.
type Controller struct{ cfg Config }

// New returns a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which tokens.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{{Resource: schema.ResourceFor[*corev1.Secret](), Map: func(ev client.Event) []schema.Key {
		s, ok := ev.Object.(*corev1.Secret)
		if !ok || ev.Type == client.Deleted || !isToken(s) {
			return nil
		}
		return []schema.Key{schema.KeyOf(s)}
	}}}
}

func isToken(s *corev1.Secret) bool {
	return s.Type == bootstrapapi.SecretTypeBootstrapToken && s.Namespace == "kube-system"
}

// Reconcile deletes one token, or comes back when its time has come.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	s, ok := client.Cached[*corev1.Secret](c.cfg.Cache, key)
	if !ok || s.DeletionTimestamp != nil || !isToken(s) {
		return controller.Result{}, nil
	}
	now := c.cfg.Now()
	if !c.cfg.Expired(s, now) {
		at, err := time.Parse(time.RFC3339, string(s.Data[bootstrapapi.BootstrapTokenExpirationKey]))
		if err != nil {
			return controller.Result{}, nil // none: it never expires
		}
		return controller.Result{RequeueAfter: max(at.Sub(now), time.Second)}, nil
	}
	if err := controller.DeleteSeen(ctx, c.cfg.Client, s); err != nil {
		return controller.Result{}, fmt.Errorf("delete bootstrap token %s: %w", key, err)
	}
	return controller.Result{}, nil
}
