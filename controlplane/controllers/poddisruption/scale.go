package poddisruption

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// sizes returns the scale of pods: the size of the set that controls each, and
// for a ReplicaSet of a Deployment that. A set is read once, however many pods it
// has: to read one may take a webhook.
func (c *Controller) sizes(ctx context.Context) scale {
	known := map[types.UID]int32{}
	return func(p *corev1.Pod) (types.UID, int32, error) {
		ref := metav1.GetControllerOfNoCopy(p)
		if ref == nil {
			return "", 0, nil
		}
		set, n, err := c.builtIn(p.Namespace, ref)
		if set != "" || err != nil {
			return set, n, err
		}
		if n, ok := known[ref.UID]; ok {
			return ref.UID, n, nil
		}
		n, found, err := c.scaled(ctx, p.Namespace, ref)
		if err != nil {
			return "", 0, err
		}
		if !found {
			return "", 0, fmt.Errorf("found no controllers for pod %q", p.Name)
		}
		known[ref.UID] = n
		return ref.UID, n, nil
	}
}

// builtIn is the size of a set of a kind that we know; "" for another, and for
// one that is not there.
func (c *Controller) builtIn(namespace string, ref *metav1.OwnerReference) (types.UID, int32, error) {
	key := schema.Key{Namespace: namespace, Name: ref.Name}
	var set schema.Object
	found := false
	switch gv, _ := apischema.ParseGroupVersion(ref.APIVersion); gv.Group + "/" + ref.Kind {
	case "apps/ReplicaSet":
		var rs *appsv1.ReplicaSet
		if rs, found = client.Cached[*appsv1.ReplicaSet](c.cfg.Cache, key); found && rs.UID == ref.UID {
			if d, ok := c.deploymentOf(rs); ok {
				return d.UID, sizeOf(d), nil
			}
		}
		set = rs
	case "apps/StatefulSet":
		set, found = client.Cached[*appsv1.StatefulSet](c.cfg.Cache, key)
	case "/ReplicationController":
		set, found = client.Cached[*corev1.ReplicationController](c.cfg.Cache, key)
	}
	if !found || set.GetUID() != ref.UID {
		return "", 0, nil
	}
	return ref.UID, sizeOf(set), nil
}

// scaled is the size of a set of any kind, by what its scale subresource shows.
// The errors are upstream's: of a kind that is not served or has no scale nobody
// knows how many pods there should be.
func (c *Controller) scaled(ctx context.Context, namespace string, ref *metav1.OwnerReference) (n int32, found bool, err error) {
	gv, err := apischema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return 0, false, err
	}
	r := c.cfg.Catalog.Load().ByGVK(gv.WithKind(ref.Kind))
	if r == nil {
		return 0, false, &meta.NoKindMatchError{GroupKind: gv.WithKind(ref.Kind).GroupKind(), SearchedVersions: []string{gv.Version}}
	}
	if !r.Scale {
		return 0, false, fmt.Errorf("%s does not implement the scale subresource", r.GroupResource())
	}
	o, ok := c.cfg.Cache.Get(r.Stored(), schema.Key{Namespace: namespace, Name: ref.Name})
	if !ok || o.GetUID() != ref.UID {
		return 0, false, nil
	}
	if r.Custom == nil {
		return sizeOf(o), true, nil
	}
	if r.Convert != nil {
		out, err := r.Convert(ctx, []schema.Object{o})
		if err != nil {
			return 0, false, fmt.Errorf("convert %s %s: %w", r, ref.Name, err)
		}
		o = out[0]
	}
	n, ok, err = customSize(r, o)
	if err == nil && !ok {
		path, _, _ := r.Custom.ScalePaths()
		err = fmt.Errorf("the spec replicas field %q does not exist", path)
	}
	if err != nil {
		return 0, false, fmt.Errorf("read scale of %s %s: %w", r, ref.Name, err)
	}
	return n, true, nil
}

// customSize reads the replicas of a custom resource where its definition says
// they are; false where it says nothing of them.
func customSize(r *schema.Resource, o schema.Object) (int32, bool, error) {
	u, ok := o.(*unstructured.Unstructured)
	if !ok {
		return 0, false, fmt.Errorf("it is a %T", o)
	}
	path, _, _ := r.Custom.ScalePaths()
	n, ok, err := unstructured.NestedInt64(u.Object, strings.Split(strings.TrimPrefix(path, "."), ".")...)
	return int32(n), ok, err
}

// Custom says which events of a resource that a definition has added wake which
// budgets: those of the namespace, when the size of a set changes.
func (c *Controller) Custom(stored *schema.Resource) controller.Watch {
	return controller.Watch{Resource: stored, Map: func(ev client.Event) []schema.Key {
		catalog := c.cfg.Catalog.Load()
		if r := catalog.Served(stored); r == nil || !r.Scale {
			return nil
		}
		if ev.Type == client.Modified && ev.Old != nil && sameSize(catalog, ev.Old, ev.Object) {
			return nil
		}
		return c.budgets(ev.Object.GetNamespace())
	}}
}

// sameSize says that a set is certainly as large as it was: both states have the
// same version, which is served, and the same replicas.
func sameSize(catalog *schema.Catalog, a, b schema.Object) bool {
	gvk := a.GetObjectKind().GroupVersionKind()
	r := catalog.ByGVK(gvk)
	if r == nil || !r.Scale || b.GetObjectKind().GroupVersionKind() != gvk {
		return false
	}
	n, ok, err := customSize(r, a)
	m, is, wrong := customSize(r, b)
	return err == nil && wrong == nil && ok == is && n == m
}

func (c *Controller) deploymentOf(rs *appsv1.ReplicaSet) (*appsv1.Deployment, bool) {
	owner := metav1.GetControllerOfNoCopy(rs)
	if owner == nil || owner.Kind != "Deployment" {
		return nil, false
	}
	d, ok := client.Cached[*appsv1.Deployment](c.cfg.Cache, schema.Key{Namespace: rs.Namespace, Name: owner.Name})
	return d, ok && d.UID == owner.UID
}

// sizeOf is how many pods a set is to have.
func sizeOf(set schema.Object) int32 {
	var n *int32
	switch s := set.(type) {
	case *appsv1.Deployment:
		n = s.Spec.Replicas
	case *appsv1.ReplicaSet:
		n = s.Spec.Replicas
	case *appsv1.StatefulSet:
		n = s.Spec.Replicas
	case *corev1.ReplicationController:
		n = s.Spec.Replicas
	}
	if n == nil {
		return 1
	}
	return *n
}
