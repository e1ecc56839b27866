// Package legacytokencleaner takes tokens of ServiceAccounts that do not expire
// out of use when nobody has used them for a year, and deletes them when nobody
// has missed them for another (KEP-2799).
//
// Watches Namespaces and the ConfigMap
// kube-system/kube-apiserver-legacy-service-account-token-tracking, and reads
// Secrets, ServiceAccounts and Pods once a day. Owns that ConfigMap, which says
// since when the use of tokens is noted, and the label
// kubernetes.io/legacy-token-invalid-since. It promises not to touch what people
// have made: only Secrets that their account lists were made by a server.
package legacytokencleaner

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// Upstream's defaults.
const (
	year = 365 * 24 * time.Hour
	day  = 24 * time.Hour
)

var tracking = schema.Key{Namespace: "kube-system", Name: "kube-apiserver-legacy-service-account-token-tracking"}

// since is the key of the ConfigMap with the first day of which uses are known.
const since = "since"

// Config is everything the controller needs from outside.
type Config struct {
	controller.Tools
	// Unused is how long a token may be unused, and then out of use. Default a
	// year.
	Unused time.Duration
}

// Controller cleans.
type Controller struct{ cfg Config }

// New returns a controller; it starts nothing.
func New(cfg Config) *Controller {
	if cfg.Unused <= 0 {
		cfg.Unused = year
	}
	return &Controller{cfg}
}

var _ controller.Reconciler = (*Controller)(nil)

// Watches says what wakes it besides the next day. There is one key.
func (c *Controller) Watches() []controller.Watch {
	return []controller.Watch{
		{Resource: schema.ResourceFor[*corev1.Namespace](), Map: func(ev client.Event) []schema.Key {
			if ev.Type != client.Added || ev.Object.GetName() != tracking.Namespace {
				return nil
			}
			return []schema.Key{tracking}
		}},
		{Resource: schema.ResourceFor[*corev1.ConfigMap](), Map: func(ev client.Event) []schema.Key {
			if schema.KeyOf(ev.Object) != tracking {
				return nil
			}
			return []schema.Key{tracking}
		}},
	}
}

// Reconcile looks through all tokens, and comes back the next day.
func (c *Controller) Reconcile(ctx context.Context, _ schema.Key) (controller.Result, error) {
	now := c.cfg.Now().UTC()
	first, err := c.track(ctx, now)
	if err != nil {
		return controller.Result{}, err
	}
	// The first day counts for nothing: its uses are known in part.
	if first.IsZero() || now.Before(first.AddDate(0, 0, 1).Add(c.cfg.Unused)) {
		return controller.Result{RequeueAfter: day}, nil
	}
	used := map[string]map[string]bool{}
	for _, s := range client.CachedList[*corev1.Secret](c.cfg.Cache, "") {
		if !stale(s, now, c.cfg.Unused) || !c.generated(s) {
			continue
		}
		if used[s.Namespace] == nil {
			used[s.Namespace] = secretsOf(client.CachedList[*corev1.Pod](c.cfg.Cache, s.Namespace))
		}
		if used[s.Namespace][s.Name] {
			continue
		}
		if err := c.retire(ctx, s, now); err != nil {
			return controller.Result{}, err
		}
	}
	return controller.Result{RequeueAfter: day}, nil
}

// track returns the day since when uses are noted, and notes that it begins.
// Zero: another has just written it.
func (c *Controller) track(ctx context.Context, now time.Time) (time.Time, error) {
	live, ok := client.Cached[*corev1.ConfigMap](c.cfg.Cache, tracking)
	if ok {
		if first, err := time.Parse(time.DateOnly, live.Data[since]); err == nil {
			return first, nil
		}
		next := live.DeepCopy()
		next.Data = map[string]string{since: now.Format(time.DateOnly)}
		for k, v := range live.Data {
			if k != since {
				next.Data[k] = v
			}
		}
		if _, err := client.Update(ctx, c.cfg.Client, next, client.WriteOptions{}); err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return time.Time{}, fmt.Errorf("update config map %s: %w", tracking, err)
		}
		return time.Time{}, nil
	}
	_, err := client.Create(ctx, c.cfg.Client, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: tracking.Namespace, Name: tracking.Name},
		Data:       map[string]string{since: now.Format(time.DateOnly)},
	}, client.WriteOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return time.Time{}, fmt.Errorf("create config map %s: %w", tracking, err)
	}
	return time.Time{}, nil
}

// generated says whether a server has made a Secret for its account: the account
// lists it.
func (c *Controller) generated(s *corev1.Secret) bool {
	sa, ok := client.Cached[*corev1.ServiceAccount](c.cfg.Cache, schema.Key{Namespace: s.Namespace, Name: s.Annotations[corev1.ServiceAccountNameKey]})
	if uid := s.Annotations[corev1.ServiceAccountUIDKey]; !ok || uid != "" && uid != string(sa.UID) {
		return false
	}
	for _, ref := range sa.Secrets {
		if ref.Name == s.Name {
			return true
		}
	}
	return false
}

// retire takes a token out of use, or deletes one that has been for long.
func (c *Controller) retire(ctx context.Context, s *corev1.Secret, now time.Time) error {
	key, version := schema.KeyOf(s), s.ResourceVersion
	invalid := s.Labels[invalidSince]
	if _, err := time.Parse(time.DateOnly, invalid); err != nil {
		patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
			"uid": s.UID, "labels": map[string]string{invalidSince: now.Format(time.DateOnly)}}})
		if err != nil {
			return fmt.Errorf("encode label of secret %s: %w", key, err)
		}
		_, err = c.cfg.Client.Patch(ctx, schema.ResourceFor[*corev1.Secret](), key, types.MergePatchType, patch, client.WriteOptions{})
		if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
			return fmt.Errorf("label secret %s: %w", key, err)
		}
		return nil
	}
	if invalid >= now.Add(-c.cfg.Unused).Format(time.DateOnly) {
		return nil
	}
	err := client.Delete[*corev1.Secret](ctx, c.cfg.Client, key, client.DeleteOptions{Preconditions: &metav1.Preconditions{ResourceVersion: &version}})
	if err != nil && !apierrors.IsNotFound(err) && !apierrors.IsConflict(err) {
		return fmt.Errorf("delete secret %s: %w", key, err)
	}
	return nil
}
