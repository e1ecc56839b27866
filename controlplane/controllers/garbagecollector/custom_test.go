package garbagecollector

import (
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

// Owners are known by what the catalog serves when they are asked for: a
// custom resource owns, and is owned, like any other.
func TestCustomResources(t *testing.T) {
	widgets := &schema.Resource{Group: "example.com", Version: "v1", Kind: "Widget", ListKind: "WidgetList", Plural: "widgets", Namespaced: true, Custom: struct{ schema.Custom }{}}
	widgets.New = func() schema.Object {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(widgets.GVK())
		return o
	}
	widget := func(name string, owners ...metav1.OwnerReference) schema.Object {
		o := widgets.New()
		o.SetNamespace("default")
		o.SetName(name)
		o.SetUID(types.UID(name))
		o.SetOwnerReferences(owners)
		return o
	}
	ofMap := metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "root", UID: "root"}
	ofWidget := func(name string) metav1.OwnerReference {
		return metav1.OwnerReference{APIVersion: "example.com/v1", Kind: "Widget", Name: name, UID: types.UID(name)}
	}
	synctest.Test(t, func(t *testing.T) {
		live := &schema.Live{}
		live.Publish(schema.NewCatalog(widgets))
		f := client.NewFake()
		f.Catalog = live
		leaf := owned("leaf", false)
		leaf.OwnerReferences = []metav1.OwnerReference{ofWidget("w")}
		kept := owned("kept", false)
		kept.OwnerReferences = []metav1.OwnerReference{ofWidget("free")}
		for _, o := range []schema.Object{owned("root", false), widget("w", ofMap), leaf, widget("free"), kept} {
			f.Put(o)
		}
		gc := New(Config{Tools: controllertest.Tools(f), Catalog: live})
		stop := controllertest.Run(t, controller.Config{Reconciler: gc, Watches: gc.Watches(), Custom: gc.Custom, Catalog: live, Cache: f.Cache()})
		synctest.Wait()
		remove(t, t.Context(), f, "root", metav1.DeletePropagationBackground)
		time.Sleep(time.Minute)
		stop()
		for _, want := range []struct {
			r    *schema.Resource
			name string
			left bool
		}{{maps, "root", false}, {widgets, "w", false}, {maps, "leaf", false}, {widgets, "free", true}, {maps, "kept", true}} {
			if _, ok := f.Cache().Get(want.r, schema.Key{Namespace: "default", Name: want.name}); ok != want.left {
				t.Errorf("%s %s: left %v", want.r, want.name, ok)
			}
		}
	})
}
