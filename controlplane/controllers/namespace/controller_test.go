package namespace

import (
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

// widgets is a resource that a definition has added.
func widgets() *schema.Resource {
	r := &schema.Resource{Group: "example.com", Version: "v1", Kind: "Widget", ListKind: "WidgetList", Plural: "widgets", Namespaced: true}
	r.New = func() schema.Object {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(r.GVK())
		return o
	}
	return r
}

// Pods end first, then custom resources go like all others, and a finalizer of
// one keeps the namespace and is told of.
func TestCustomResources(t *testing.T) {
	r := widgets()
	live := &schema.Live{}
	live.Publish(schema.NewCatalog(r))
	f := client.NewFake()
	f.Catalog = live
	f.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", DeletionTimestamp: ptr.To(metav1.Now())},
		Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}}})
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", Finalizers: []string{"example.com/pod"}}}
	f.Put(pod)
	w := r.New()
	w.SetNamespace("shop")
	w.SetName("w")
	w.SetFinalizers([]string{"example.com/widget"})
	f.Put(w)
	c := New(Config{Tools: controllertest.Tools(f), Catalog: live})
	step := func() *corev1.Namespace {
		if _, err := c.Reconcile(t.Context(), schema.Key{Name: "shop"}); err != nil {
			t.Fatal(err)
		}
		ns, err := client.Get[*corev1.Namespace](t.Context(), f, schema.Key{Name: "shop"})
		if apierrors.IsNotFound(err) {
			return nil
		}
		if err != nil {
			t.Fatal(err)
		}
		return ns
	}
	message := func(ns *corev1.Namespace, kind corev1.NamespaceConditionType) string {
		if i := slices.IndexFunc(ns.Status.Conditions, func(c corev1.NamespaceCondition) bool { return c.Type == kind }); i >= 0 {
			return ns.Status.Conditions[i].Message
		}
		return ""
	}
	free := func(r *schema.Resource, name string) {
		if _, err := f.Patch(t.Context(), r, schema.Key{Namespace: "shop", Name: name}, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}

	ns := step()
	if got, _ := f.Cache().Get(r, schema.KeyOf(w)); got == nil || got.GetDeletionTimestamp() != nil {
		t.Errorf("with a pod there the widget was deleted: %v", got)
	}
	if got := message(ns, corev1.NamespaceContentRemaining); got != "Some resources are remaining: pods. has 1 resource instances" {
		t.Errorf("content: %q", got)
	}
	free(schema.ResourceFor[*corev1.Pod](), "p")
	if _, ok := f.Cache().Get(schema.ResourceFor[*corev1.Pod](), schema.KeyOf(pod)); ok {
		t.Fatal("the pod is still there")
	}
	ns = step()
	if got, _ := f.Cache().Get(r, schema.KeyOf(w)); got == nil || got.GetDeletionTimestamp() == nil {
		t.Errorf("the widget was not deleted: %v", got)
	}
	if got := message(ns, corev1.NamespaceContentRemaining); got != "Some resources are remaining: widgets.example.com has 1 resource instances" {
		t.Errorf("content: %q", got)
	}
	if got := message(ns, corev1.NamespaceFinalizersRemaining); got != "Some content in the namespace has finalizers remaining: example.com/widget in 1 resource instances" {
		t.Errorf("finalizers: %q", got)
	}
	free(r, "w")
	if ns := step(); ns != nil {
		t.Errorf("still there: %+v", ns)
	}
}
