package cluster

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"

	"github.com/writ-os/writ/controlplane/auth/identity"
	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// TestGuardAgainstDeletion: people with every right of RBAC delete what Git
// declares by no detour: not by an owner, not by who adopts, not by a
// namespace. Break-glass deletes a namespace whole, and Git makes it anew.
func TestGuardAgainstDeletion(t *testing.T) {
	s := startGit(t)
	s.commit(s.clone, "shop.yaml", `
apiVersion: v1
kind: Namespace
metadata: {name: shop}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: declared, namespace: shop}
data: {a: b}
---
apiVersion: v1
kind: Pod
metadata: {name: declared, namespace: shop, labels: {app: web}}
spec: {containers: [{name: c, image: "example.com/i:1"}]}
`)
	s.accepted(as("t1")...)
	key := schema.Key{Namespace: "shop", Name: "declared"}
	maps, pods := schema.ResourceFor[*corev1.ConfigMap](), schema.ResourceFor[*corev1.Pod]()
	uid := func(r *schema.Resource, k schema.Key) types.UID {
		o, ok := s.registry.Cache().Get(r, k)
		if !ok || o.GetDeletionTimestamp() != nil {
			return ""
		}
		return o.GetUID()
	}
	pod := uid(pods, key)
	ctx := context.WithoutCancel(t.Context())
	jane := client.Local(s.registry, &user.DefaultInfo{Name: "jane", Groups: []string{user.SystemPrivilegedGroup}}, "kubectl")

	owner := []byte(`{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"ConfigMap","name":"x","uid":"x"}]}}`)
	for _, r := range []*schema.Resource{maps, pods} {
		if _, err := jane.Patch(ctx, r, key, types.MergePatchType, owner, client.WriteOptions{}); !apierrors.HasStatusCause(err, v1alpha1.DeclaredCause) {
			t.Errorf("an owner of a declared object: %v", err)
		}
	}
	if err := jane.Delete(ctx, schema.ResourceFor[*corev1.Namespace](), schema.Key{Name: "shop"}, client.DeleteOptions{}); !apierrors.HasStatusCause(err, v1alpha1.DeclaredCause) {
		t.Errorf("its namespace: %v", err)
	}

	web := map[string]string{"app": "web"}
	template := corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: web}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	none := int32(0)
	thief := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "thief"},
		Spec: appsv1.ReplicaSetSpec{Replicas: &none, Selector: &metav1.LabelSelector{MatchLabels: web}, Template: template}}
	if _, err := client.Create(ctx, jane, thief, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	s.soon("the thief has looked", func() bool {
		rs, ok := client.Cached[*appsv1.ReplicaSet](s.registry.Cache(), schema.Key{Namespace: "shop", Name: "thief"})
		return ok && rs.Status.ObservedGeneration > 0
	})
	if got := uid(pods, key); got != pod {
		t.Errorf("the declared pod %s became %q", pod, got)
	}
	if o, _ := s.registry.Cache().Get(pods, key); len(o.GetOwnerReferences()) > 0 {
		t.Errorf("the declared pod is owned by %v", o.GetOwnerReferences())
	}

	glass := client.Local(s.registry, &user.DefaultInfo{Name: identity.Admin, Groups: []string{user.SystemPrivilegedGroup}}, "kubectl")
	namespace := schema.Key{Name: "shop"}
	before, config := uid(schema.ResourceFor[*corev1.Namespace](), namespace), uid(maps, key)
	if err := glass.Delete(ctx, schema.ResourceFor[*corev1.Namespace](), namespace, client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	anew := func(r *schema.Resource, k schema.Key, old types.UID) bool {
		now := uid(r, k)
		return now != "" && now != old
	}
	s.soon("the namespace and all in it are made anew", func() bool {
		return anew(schema.ResourceFor[*corev1.Namespace](), namespace, before) && anew(maps, key, config) && anew(pods, key, pod)
	})
}
