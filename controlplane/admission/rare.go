package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/uuid"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// The plugins here are off by default.

// Always admits everything, or nothing.
type Always struct {
	validates
	deny bool
}

// Validate implements registry.Admission.
func (p *Always) Validate(_ context.Context, a *registry.Attributes) error {
	if p.deny {
		return forbidden(a, errors.New("admission control is denying all modifications"))
	}
	return nil
}

// ExternalIPs refuses new external IPs of Services: whoever may set them takes
// over the traffic to any address. The plugin DenyServiceExternalIPs.
type ExternalIPs struct{ validates }

var _ registry.Admission = (*ExternalIPs)(nil)

// Handles implements registry.Handler.
func (*ExternalIPs) Handles(verb string, r *schema.Resource, sub string) bool {
	return (verb == "create" || verb == "update") && sub == "" && is(r, "", "services")
}

// Validate implements registry.Admission.
func (*ExternalIPs) Validate(_ context.Context, a *registry.Attributes) error {
	s, ok := a.Object.(*corev1.Service)
	if !ok {
		return nil
	}
	var had []string
	if old, ok := a.Old.(*corev1.Service); ok {
		had = old.Spec.ExternalIPs
	}
	for _, ip := range s.Spec.ExternalIPs {
		if !slices.Contains(had, ip) {
			return forbidden(a, errors.New("Use of external IPs is denied by admission control")) //nolint:staticcheck // upstream's text
		}
	}
	return nil
}

// NamespaceExists refuses writes in namespaces that are not there.
type NamespaceExists struct{ validates }

var _ registry.Admission = (*NamespaceExists)(nil)

// Handles implements registry.Handler.
func (*NamespaceExists) Handles(verb string, r *schema.Resource, _ string) bool {
	return r.Namespaced && verb != "connect"
}

// Validate implements registry.Admission.
func (*NamespaceExists) Validate(_ context.Context, a *registry.Attributes) error {
	if _, ok := client.Cached[*corev1.Namespace](a.Cluster, schema.Key{Name: a.Key.Namespace}); ok {
		return nil
	}
	return apierrors.NewNotFound(corev1.Resource("namespaces"), a.Key.Namespace)
}

// Autoprovision makes the namespace of what is created, where there is none:
// the plugin NamespaceAutoProvision.
type Autoprovision struct{ mutates }

var _ registry.Admission = (*Autoprovision)(nil)

// Handles implements registry.Handler.
func (*Autoprovision) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb == "create" && sub == "" && r.Namespaced
}

// Mutate implements registry.Admission. The namespace is stored with what is
// created in it, or not at all.
func (*Autoprovision) Mutate(ctx context.Context, a *registry.Attributes) error {
	r := schema.ResourceFor[*corev1.Namespace]()
	if _, ok := a.Cluster.Get(r, schema.Key{Name: a.Key.Namespace}); ok || a.Key.Namespace == "" {
		return nil
	}
	store, ok := a.Cluster.(interface {
		Put(ctx context.Context, r *schema.Resource, o schema.Object)
	})
	if !ok {
		return nil
	}
	store.Put(ctx, r, &corev1.Namespace{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Namespace"},
		ObjectMeta: metav1.ObjectMeta{
			Name: a.Key.Namespace, UID: uuid.NewUUID(), CreationTimestamp: metav1.Now().Rfc3339Copy(),
			Labels: map[string]string{corev1.LabelMetadataName: a.Key.Namespace},
		},
		Spec:   corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}},
		Status: corev1.NamespaceStatus{Phase: corev1.NamespaceActive},
	})
	return nil
}

// The sorts of limits on events.
const (
	LimitServer          = "Server"
	LimitNamespace       = "Namespace"
	LimitUser            = "User"
	LimitSourceAndObject = "SourceAndObject"
)

// EventLimit bounds the rate of events of a sort: QPS a second for each key,
// Burst at once. The CacheSize keys that were used last are remembered, 4096
// by default.
type EventLimit struct {
	Type      string
	QPS       int32
	Burst     int32
	CacheSize int
}

func (l EventLimit) key(a *registry.Attributes) string {
	switch l.Type {
	case LimitNamespace:
		return a.Key.Namespace
	case LimitUser:
		if a.User != nil {
			return a.User.GetName()
		}
	case LimitSourceAndObject:
		if e, ok := a.Object.(*corev1.Event); ok {
			o := e.InvolvedObject
			return fmt.Sprint([]string{e.Source.Component, e.Source.Host, o.Kind, o.Namespace, o.Name, string(o.UID), o.APIVersion})
		}
	}
	return ""
}
