package admission

import (
	"cmp"
	"context"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/quota"
	"github.com/writ-os/writ/controlplane/registry"
	"github.com/writ-os/writ/schema"
)

// DefaultStorageClass gives claims that name no class the default one.
type DefaultStorageClass struct{ mutates }

var _ registry.Admission = (*DefaultStorageClass)(nil)

// The annotations that mark the default of a kind.
const (
	defaultStorage     = "storageclass.kubernetes.io/is-default-class"
	defaultStorageBeta = "storageclass.beta.kubernetes.io/is-default-class"
)

// Handles implements registry.Handler.
func (*DefaultStorageClass) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb == "create" && sub == "" && is(r, "", "persistentvolumeclaims")
}

// Mutate implements registry.Admission.
func (*DefaultStorageClass) Mutate(_ context.Context, a *registry.Attributes) error {
	pvc, ok := a.Object.(*corev1.PersistentVolumeClaim)
	if !ok || pvc.Spec.StorageClassName != nil {
		return nil
	}
	if _, ok := pvc.Annotations[corev1.BetaStorageClassAnnotation]; ok {
		return nil
	}
	if class := newest(client.CachedList[*storagev1.StorageClass](a.Cluster, ""), defaultStorage, defaultStorageBeta); class != nil {
		name := (*class).Name
		pvc.Spec.StorageClassName = &name
	}
	return nil
}

// newest returns the object that is marked as default; of several the newest,
// of those the first by name. nil when there is none.
func newest[T metav1.Object](list []T, marks ...string) *T {
	list = slices.DeleteFunc(slices.Clone(list), func(o T) bool {
		return !slices.ContainsFunc(marks, func(m string) bool { return o.GetAnnotations()[m] == "true" })
	})
	if len(list) == 0 {
		return nil
	}
	first := slices.MinFunc(list, func(a, b T) int {
		return cmp.Or(b.GetCreationTimestamp().Compare(a.GetCreationTimestamp().Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	return &first
}

// DefaultIngressClass gives ingresses that name no class the default one.
type DefaultIngressClass struct{ mutates }

var _ registry.Admission = (*DefaultIngressClass)(nil)

// Handles implements registry.Handler.
func (*DefaultIngressClass) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb == "create" && sub == "" && is(r, "networking.k8s.io", "ingresses")
}

// Mutate implements registry.Admission.
func (*DefaultIngressClass) Mutate(_ context.Context, a *registry.Attributes) error {
	o, ok := a.Object.(*networkingv1.Ingress)
	if !ok || o.Spec.IngressClassName != nil {
		return nil
	}
	if _, ok := o.Annotations["kubernetes.io/ingress.class"]; ok {
		return nil
	}
	if class := newest(client.CachedList[*networkingv1.IngressClass](a.Cluster, ""), networkingv1.AnnotationIsDefaultIngressClass); class != nil {
		name := (*class).Name
		o.Spec.IngressClassName = &name
	}
	return nil
}

// StorageProtection keeps volumes and claims that are in use: the protection
// controllers take the finalizer away when nothing uses them.
type StorageProtection struct{ mutates }

var _ registry.Admission = (*StorageProtection)(nil)

// Handles implements registry.Handler.
func (*StorageProtection) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb == "create" && sub == "" &&
		(is(r, "", "persistentvolumes") || is(r, "", "persistentvolumeclaims") || is(r, "storage.k8s.io", "volumeattributesclasses"))
}

// Mutate implements registry.Admission.
func (*StorageProtection) Mutate(_ context.Context, a *registry.Attributes) error {
	finalizer := ""
	switch a.Resource.Plural {
	case "persistentvolumes":
		finalizer = "kubernetes.io/pv-protection"
	case "persistentvolumeclaims":
		finalizer = "kubernetes.io/pvc-protection"
	case "volumeattributesclasses":
		finalizer = "kubernetes.io/vac-protection"
	}
	if f := a.Object.GetFinalizers(); !slices.Contains(f, finalizer) {
		a.Object.SetFinalizers(append(f, finalizer))
	}
	return nil
}

// ClaimResize lets claims grow only where their class can.
type ClaimResize struct{ validates }

var _ registry.Admission = (*ClaimResize)(nil)

// Handles implements registry.Handler.
func (*ClaimResize) Handles(verb string, r *schema.Resource, sub string) bool {
	return verb == "update" && sub == "" && is(r, "", "persistentvolumeclaims")
}

// Validate implements registry.Admission.
func (*ClaimResize) Validate(_ context.Context, a *registry.Attributes) error {
	pvc, ok := a.Object.(*corev1.PersistentVolumeClaim)
	old, was := a.Old.(*corev1.PersistentVolumeClaim)
	if !ok || !was {
		return nil
	}
	size, before := pvc.Spec.Resources.Requests[corev1.ResourceStorage], old.Spec.Resources.Requests[corev1.ResourceStorage]
	switch {
	case size.Cmp(before) <= 0:
		return nil
	case old.Status.Phase != corev1.ClaimBound:
		return forbidden(a, errors.New("Only bound persistent volume claims can be expanded")) //nolint:staticcheck // upstream's text
	case !growable(a, pvc, old):
		return forbidden(a, errors.New("only dynamically provisioned pvc can be resized and the storageclass that provisions the pvc must support resize"))
	}
	return nil
}

func growable(a *registry.Attributes, pvc, old *corev1.PersistentVolumeClaim) bool {
	name := quota.StorageClass(pvc)
	if name == "" || name != quota.StorageClass(old) {
		return false
	}
	class, ok := client.Cached[*storagev1.StorageClass](a.Cluster, schema.Key{Name: name})
	return ok && class.AllowVolumeExpansion != nil && *class.AllowVolumeExpansion
}
