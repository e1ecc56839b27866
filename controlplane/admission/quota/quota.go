// Package quota charges what is written to the ResourceQuotas of its
// namespace: the plugin ResourceQuota.
//
// Reads and writes ResourceQuotas as the transaction of the write sees them.
// The new usage is stored in the same transaction as what it is for: two writes
// at a time cannot both take what is left, and the pods of one commit see each
// other. Deletions are the quota controller's to count. Texts are upstream's.
package quota

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	lists "k8s.io/apiserver/pkg/quota/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/quota"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// Store puts another object into the transaction of a write. A cluster that a
// write sees (registry.Attributes.Cluster) implements it; where it does not,
// usage is checked but not charged.
type Store interface {
	Put(ctx context.Context, r *schema.Resource, o schema.Object)
}

// Transaction is a cluster that knows what else its transaction deletes.
type Transaction interface {
	Leaving(namespace string) []registry.Leaving
}

// Plugin is the plugin ResourceQuota. It must be the last of the chain: nothing
// may change or refuse what has been charged.
type Plugin struct {
	// Now is the clock; nil is the real one.
	Now func() time.Time
}

var _ registry.Admission = (*Plugin)(nil)

// Handles implements registry.Handler.
func (*Plugin) Handles(verb string, r *schema.Resource, sub string) bool {
	if !r.Namespaced || verb != "create" && verb != "update" {
		return false
	}
	switch sub {
	case "", "resize":
		return true
	case "status":
		return r.Group == "" && r.Plural == "persistentvolumeclaims"
	}
	return false
}

// Mutate implements registry.Admission.
func (*Plugin) Mutate(context.Context, *registry.Attributes) error { return nil }

// Validate implements registry.Admission.
func (p *Plugin) Validate(ctx context.Context, a *registry.Attributes) error {
	if a.Object == nil {
		return nil
	}
	quotas := client.CachedList[*corev1.ResourceQuota](a.Cluster, a.Key.Namespace)
	if len(quotas) == 0 {
		return nil
	}
	e := quota.For(a.Resource.GroupResource())
	if e == nil || !e.Charges(a.Verb, a.Subresource, a.Object, a.Old) {
		return nil
	}
	now := time.Now
	if p.Now != nil {
		now = p.Now
	}
	charged, err := charge(quotas, e, a, now())
	if err != nil {
		return forbidden(a, err)
	}
	store, ok := a.Cluster.(Store)
	if !ok {
		return nil
	}
	// Of a dry run too, which stores nothing: the next write of the transaction
	// has to see what this one takes.
	for _, q := range charged {
		store.Put(ctx, schema.ResourceFor[*corev1.ResourceQuota](), q)
	}
	return nil
}

func forbidden(a *registry.Attributes, err error) error {
	name := a.Object.GetName()
	if name == "" {
		name = a.Object.GetGenerateName()
	}
	return apierrors.NewForbidden(a.Resource.GroupResource(), name, err)
}

// charge returns the quotas that a write changes, with the usage after it, or
// why it cannot be.
func charge(quotas []*corev1.ResourceQuota, e *quota.Evaluator, a *registry.Attributes, now time.Time) ([]*corev1.ResourceQuota, error) {
	var matching []*corev1.ResourceQuota
	for _, q := range quotas {
		if !e.Matches(q, a.Object) {
			continue
		}
		names := e.Names(lists.ResourceNames(q.Status.Hard))
		if err := e.Require(names, a.Object); err != nil {
			return nil, fmt.Errorf("failed quota: %s: %w", q.Name, err)
		}
		for _, n := range names {
			if _, ok := q.Status.Used[n]; !ok {
				return nil, fmt.Errorf("status unknown for quota: %s, resources: %s", q.Name, printNames(names))
			}
		}
		matching = append(matching, q)
	}
	if len(matching) == 0 {
		return nil, nil
	}
	usage := e.Usage(a.Object, now)
	if negative := lists.IsNegative(usage); len(negative) > 0 {
		return nil, fmt.Errorf("quota usage is negative for resource(s): %s", printNames(negative))
	}
	change := usage
	if a.Verb == "update" && a.Old != nil {
		change = lists.SubtractWithNonNegativeResult(usage, e.Usage(a.Old, now))
	}
	var out []*corev1.ResourceQuota
	for _, q := range matching {
		delta := usage
		if a.Verb == "update" && a.Old != nil && e.Matches(q, a.Old) {
			delta = change // it was charged before
		}
		delta = lists.Mask(lists.RemoveZeros(delta), lists.ResourceNames(q.Status.Hard))
		if len(delta) == 0 {
			continue
		}
		used := lists.Add(q.Status.Used, delta)
		if a.Subresource != "status" {
			left := lists.SubtractWithNonNegativeResult(used, freed(a, q, now))
			if ok, over := lists.LessThanOrEqual(lists.Mask(left, lists.ResourceNames(delta)), q.Status.Hard); !ok {
				return nil, fmt.Errorf("exceeded quota: %s, requested: %s, used: %s, limited: %s", q.Name,
					print(lists.Mask(delta, over)), print(lists.Mask(q.Status.Used, over)), print(lists.Mask(q.Status.Hard, over)))
			}
		}
		next := q.DeepCopy()
		next.Status.Used = used
		out = append(out, next)
	}
	return out, nil
}

// freed is what of a quota the transaction gives back.
func freed(a *registry.Attributes, q *corev1.ResourceQuota, now time.Time) corev1.ResourceList {
	out := corev1.ResourceList{}
	tx, ok := a.Cluster.(Transaction)
	if !ok {
		return out
	}
	for _, l := range tx.Leaving(a.Key.Namespace) {
		if e := quota.For(l.Resource.GroupResource()); e != nil && e.Matches(q, l.Object) {
			out = lists.Add(out, e.Usage(l.Object, now))
		}
	}
	return out
}

func print(list corev1.ResourceList) string {
	var parts []string
	for _, n := range slices.Sorted(maps.Keys(list)) {
		q := list[n]
		parts = append(parts, string(n)+"="+q.String())
	}
	return strings.Join(parts, ",")
}

func printNames(names []corev1.ResourceName) string {
	var parts []string
	for _, n := range slices.Sorted(slices.Values(names)) {
		parts = append(parts, string(n))
	}
	return strings.Join(parts, ",")
}
