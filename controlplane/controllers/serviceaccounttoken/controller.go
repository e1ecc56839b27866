// Package serviceaccounttoken fills the Secrets in which ServiceAccounts have
// tokens that do not expire, and deletes those whose account is gone.
//
// Watches Secrets and ServiceAccounts. Owns token, ca.crt and namespace of the
// Secrets of type kubernetes.io/service-account-token. It makes no Secret: who
// wants such a token creates one with the annotation
// kubernetes.io/service-account.name.
package serviceaccounttoken

import (
	"bytes"
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

// Config is everything the controller needs from outside.
type Config struct {
	controller.Tools
	// CA is the bundle in PEM.
	CA []byte
	// Token returns the token of an account for the Secret of a name.
	Token func(account *corev1.ServiceAccount, secret string) (string, error)
}

// Controller fills and deletes.
type Controller struct{ cfg Config }

// New returns a controller; it starts nothing.
func New(cfg Config) *Controller { return &Controller{cfg} }

var _ controller.Reconciler = (*Controller)(nil)

// Watches says which events wake which Secrets.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{
		{Resource: schema.ResourceFor[*corev1.Secret](), Map: func(ev client.Event) []schema.Key {
			if s, ok := ev.Object.(*corev1.Secret); !ok || !isToken(s) {
				return nil
			}
			return []schema.Key{schema.KeyOf(ev.Object)}
		}},
		{Resource: schema.ResourceFor[*corev1.ServiceAccount](), Map: func(ev client.Event) []schema.Key {
			old := ev.Old
			if ev.Type != client.Deleted && (old == nil || old.GetUID() == ev.Object.GetUID()) {
				return nil
			}
			var keys []schema.Key
			for _, s := range client.CachedList[*corev1.Secret](c.cfg.Cache, ev.Object.GetNamespace()) {
				if isToken(s) && s.Annotations[corev1.ServiceAccountNameKey] == ev.Object.GetName() {
					keys = append(keys, schema.KeyOf(s))
				}
			}
			return keys
		}},
	}
}

// isToken says whether a Secret is for the token of an account.
func isToken(s *corev1.Secret) bool {
	return s.Type == corev1.SecretTypeServiceAccountToken && s.Annotations[corev1.ServiceAccountNameKey] != ""
}

// Reconcile fills or deletes one Secret; of one that is gone it takes back the
// reference that its account may have.
func (c *Controller) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	s, ok := client.Cached[*corev1.Secret](c.cfg.Cache, key)
	if !ok {
		return controller.Result{}, c.forget(ctx, key)
	}
	if !isToken(s) {
		return controller.Result{}, nil
	}
	account, err := c.account(ctx, s)
	switch {
	case err != nil:
		return controller.Result{}, err
	case account == nil:
		return controller.Result{}, c.remove(ctx, s)
	}
	next, changed, err := c.filled(s, account)
	if err != nil || !changed {
		return controller.Result{}, err
	}
	// A conflict is an event to come, as upstream.
	_, err = client.Update(ctx, c.cfg.Client, next, client.WriteOptions{})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return controller.Result{}, fmt.Errorf("update secret %s: %w", key, err)
	}
	return controller.Result{}, nil
}

// account returns the account of a Secret, nil if there is none. A token may
// be younger than the cache's news of its account: that there is none is asked
// of the server.
func (c *Controller) account(ctx context.Context, s *corev1.Secret) (*corev1.ServiceAccount, error) {
	key := schema.Key{Namespace: s.Namespace, Name: s.Annotations[corev1.ServiceAccountNameKey]}
	uid := s.Annotations[corev1.ServiceAccountUIDKey]
	if sa, ok := client.Cached[*corev1.ServiceAccount](c.cfg.Cache, key); ok && (uid == "" || uid == string(sa.UID)) {
		return sa, nil
	}
	sa, err := client.Get[*corev1.ServiceAccount](ctx, c.cfg.Client, key)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read service account %s: %w", key, err)
	case uid != "" && uid != string(sa.UID):
		return nil, nil
	}
	return sa, nil
}

// filled returns a Secret with everything it lacks.
func (c *Controller) filled(s *corev1.Secret, account *corev1.ServiceAccount) (next *corev1.Secret, changed bool, err error) {
	next = s.DeepCopy()
	if next.Data == nil {
		next.Data = map[string][]byte{}
	}
	if len(c.cfg.CA) > 0 && !bytes.Equal(s.Data[corev1.ServiceAccountRootCAKey], c.cfg.CA) {
		next.Data[corev1.ServiceAccountRootCAKey], changed = c.cfg.CA, true
	}
	if len(s.Data[corev1.ServiceAccountNamespaceKey]) == 0 {
		next.Data[corev1.ServiceAccountNamespaceKey], changed = []byte(s.Namespace), true
	}
	if len(s.Data[corev1.ServiceAccountTokenKey]) == 0 {
		token, err := c.cfg.Token(account, s.Name)
		if err != nil {
			return nil, false, fmt.Errorf("token for secret %s/%s: %w", s.Namespace, s.Name, err)
		}
		next.Data[corev1.ServiceAccountTokenKey], changed = []byte(token), true
	}
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, corev1.ServiceAccountNameKey, account.Name)
	metav1.SetMetaDataAnnotation(&next.ObjectMeta, corev1.ServiceAccountUIDKey, string(account.UID))
	return next, changed, nil
}

func (c *Controller) remove(ctx context.Context, s *corev1.Secret) error {
	if err := controller.DeleteSeen(ctx, c.cfg.Client, s); err != nil {
		return fmt.Errorf("delete secret %s/%s: %w", s.Namespace, s.Name, err)
	}
	return nil
}

// forget takes a Secret that is gone out of the lists of accounts.
func (c *Controller) forget(ctx context.Context, key schema.Key) error {
	mine := func(r corev1.ObjectReference) bool { return r.Name == key.Name }
	for _, sa := range client.CachedList[*corev1.ServiceAccount](c.cfg.Cache, key.Namespace) {
		if !slices.ContainsFunc(sa.Secrets, mine) {
			continue
		}
		next := sa.DeepCopy()
		next.Secrets = slices.DeleteFunc(next.Secrets, mine)
		if _, err := client.Update(ctx, c.cfg.Client, next, client.WriteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("update service account %s/%s: %w", sa.Namespace, sa.Name, err)
		}
	}
	return nil
}
