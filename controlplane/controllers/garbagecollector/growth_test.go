package garbagecollector

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

// rounds counts how often a reconciler looks at one object.
type rounds struct {
	*Controller
	of schema.Key
	n  atomic.Int64
}

func (r *rounds) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	if key == r.of {
		r.n.Add(1)
	}
	return r.Controller.Reconcile(ctx, key)
}

// gets counts the objects that are read from a cache.
type gets struct {
	client.Cache
	n atomic.Int64
}

func (g *gets) Get(r *schema.Resource, key schema.Key) (schema.Object, bool) {
	g.n.Add(1)
	return g.Cache.Get(r, key)
}

// An owner that goes after its dependents is not looked through for each of
// them: the work grows with their number, not with its square.
func TestForegroundGrowsWithItsDependents(t *testing.T) {
	const n = 300
	synctest.Test(t, func(t *testing.T) {
		f := client.NewFake(owned("a", false))
		for i := range n {
			dep := owned(fmt.Sprint("dep-", i), true, "a")
			dep.Finalizers = []string{"writ.dev/test"}
			f.Put(dep)
		}
		cache := &gets{Cache: f.Cache()}
		r := &rounds{Controller: New(Config{Tools: controller.Tools{Client: f, Cache: cache}})}
		r.of = identity{maps, schema.Key{Namespace: "default", Name: "a"}}.queueKey()
		controllertest.Run(t, controller.Config{Reconciler: r, Watches: r.Watches(), Cache: f.Cache(), Workers: 1})
		synctest.Wait()
		cache.n.Store(0)
		remove(t, t.Context(), f, "a", metav1.DeletePropagationForeground)
		for i := range n { // each ends in a moment of its own
			synctest.Wait()
			key := schema.Key{Namespace: "default", Name: fmt.Sprint("dep-", i)}
			if o, ok := f.Cache().Get(maps, key); !ok || o.GetDeletionTimestamp() == nil {
				t.Fatalf("%s was not asked to go", key)
			}
			if _, ok := f.Cache().Get(maps, schema.Key{Namespace: "default", Name: "a"}); !ok {
				t.Fatalf("the owner went before %s", key)
			}
			if _, err := f.Patch(t.Context(), maps, key, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), client.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		synctest.Wait()
		if left := f.Cache().List(maps, ""); len(left) != 0 {
			t.Fatalf("left: %d", len(left))
		}
		if got := r.n.Load(); got > 5 {
			t.Errorf("the owner was looked at %d times", got)
		}
		if got := cache.n.Load(); got > 6*n {
			t.Errorf("%d objects were read for %d dependents", got, n)
		}
	})
}

// What is said of no event, as when a kind is served no more, frees an owner
// within minutes.
func TestForegroundOfUnheardEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := client.NewFake(owned("a", false), owned("b", false))
		r := New(Config{Tools: controllertest.Tools(f)})
		held := owned("held", true, "a")
		held.Finalizers = []string{"writ.dev/test"}
		f.Put(held)
		controllertest.Run(t, controller.Config{Reconciler: r, Watches: r.Watches(), Cache: f.Cache(), Workers: 1})
		synctest.Wait()
		r.graph.set(identity{maps, schema.Key{Namespace: "default", Name: "unheard"}}, owned("unheard", true, "a").OwnerReferences)
		remove(t, t.Context(), f, "a", metav1.DeletePropagationForeground)
		time.Sleep(time.Second)
		key := schema.Key{Namespace: "default", Name: "held"}
		if _, err := f.Patch(t.Context(), maps, key, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(heldLook)
		synctest.Wait()
		if _, ok := f.Cache().Get(maps, schema.Key{Namespace: "default", Name: "a"}); ok {
			t.Error("the owner still waits")
		}
	})
}
