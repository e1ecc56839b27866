// Package sliceset is what the controllers of EndpointSlices have in common:
// which slices are whose, and how they are written.
//
// It watches nothing itself and owns nothing. It promises that slices of other
// controllers are left alone, whatever their names.
package sliceset

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// Manager is who writes slices, as the label
// endpointslice.kubernetes.io/managed-by says it.
type Manager string

// Watch wakes what the manager's slices are of: the name in their label
// kubernetes.io/service-name.
func (m Manager) Watch() controller.Watch {
	return controller.Watch{Resource: schema.ResourceFor[*discoveryv1.EndpointSlice](), Map: func(ev client.Event) []schema.Key {
		l := ev.Object.GetLabels()
		if l[discoveryv1.LabelManagedBy] != string(m) {
			return nil
		}
		return []schema.Key{{Namespace: ev.Object.GetNamespace(), Name: l[discoveryv1.LabelServiceName]}}
	}}
}

// Of returns the manager's slices of a key that are not being deleted.
func (m Manager) Of(cache client.Cache, key schema.Key) []*discoveryv1.EndpointSlice {
	var out []*discoveryv1.EndpointSlice
	for _, s := range client.CachedList[*discoveryv1.EndpointSlice](cache, key.Namespace) {
		if s.Labels[discoveryv1.LabelServiceName] == key.Name && s.Labels[discoveryv1.LabelManagedBy] == string(m) && s.DeletionTimestamp == nil {
			out = append(out, s)
		}
	}
	return out
}

// Changes is what to do about some slices.
type Changes struct {
	Create, Update, Remove []*discoveryv1.EndpointSlice
}

// Write makes the changes to the slices of an owner. In a namespace that is
// going nothing is created, and the rest goes with it.
func (c *Changes) Write(ctx context.Context, w client.Interface, owner string) error {
	for _, s := range c.Create {
		_, err := client.Create(ctx, w, s, client.WriteOptions{})
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("create endpoint slice of %s: %w", owner, err)
		}
	}
	for _, s := range c.Update {
		if _, err := client.Update(ctx, w, s, client.WriteOptions{}); err != nil {
			return fmt.Errorf("update endpoint slice %s: %w", schema.KeyOf(s), err)
		}
	}
	for _, s := range c.Remove {
		err := client.Delete[*discoveryv1.EndpointSlice](ctx, w, schema.KeyOf(s), client.DeleteOptions{})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("delete endpoint slice %s: %w", schema.KeyOf(s), err)
		}
	}
	return nil
}

// GroupKey tells apart what cannot share a slice: another family, or other
// ports. The order of ports does not count.
func GroupKey(family discoveryv1.AddressType, ports []discoveryv1.EndpointPort) string {
	var parts []string
	for _, p := range ports {
		parts = append(parts, fmt.Sprintf("%q/%q/%d/%q", ptr.Deref(p.Name, ""), ptr.Deref(p.Protocol, ""), ptr.Deref(p.Port, 0), ptr.Deref(p.AppProtocol, "")))
	}
	slices.Sort(parts)
	return string(family) + " " + strings.Join(parts, ",")
}
