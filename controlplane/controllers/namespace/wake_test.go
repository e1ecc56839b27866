package namespace

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

// rounds counts the looks at namespaces.
type rounds struct {
	*Controller
	n atomic.Int64
}

func (r *rounds) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	r.n.Add(1)
	return r.Controller.Reconcile(ctx, key)
}

// going has the controller at work on a namespace that is going, and on objects.
func going(t *testing.T, live *schema.Live, objects ...schema.Object) (*client.Fake, *rounds) {
	f := client.NewFake()
	f.Catalog = live
	at := metav1.Now()
	f.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop", DeletionTimestamp: &at},
		Spec: corev1.NamespaceSpec{Finalizers: []corev1.FinalizerName{corev1.FinalizerKubernetes}}})
	for _, o := range objects {
		f.Put(o)
	}
	r := &rounds{Controller: New(Config{Tools: controllertest.Tools(f), Catalog: live})}
	controllertest.Run(t, controller.Config{Reconciler: r, Watches: r.Watches(), Custom: r.Custom, Catalog: live, Cache: f.Cache(), Workers: 1, Look: -1})
	synctest.Wait()
	return f, r
}

func is(f *client.Fake) bool {
	_, ok := f.Cache().Get(schema.ResourceFor[*corev1.Namespace](), schema.Key{Name: "shop"})
	return ok
}

func free(t *testing.T, f *client.Fake, r *schema.Resource, name string) {
	t.Helper()
	if _, err := f.Patch(t.Context(), r, schema.Key{Namespace: "shop", Name: name}, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
}

func held(o schema.Object, name string) schema.Object {
	o.SetNamespace("shop")
	o.SetName(name)
	o.SetFinalizers([]string{"example.com/held"})
	return o
}

// A namespace goes in the very moment in which the last that held it ends,
// however long that took: a pod, another object, and one of a kind that a
// definition has added.
func TestTheLastWakes(t *testing.T) {
	r := widgets()
	r.Custom = struct{ schema.Custom }{} // it comes of a definition
	for name, c := range map[string]struct {
		resource *schema.Resource
		object   schema.Object
	}{
		"a pod":           {schema.ResourceFor[*corev1.Pod](), &corev1.Pod{}},
		"a config map":    {schema.ResourceFor[*corev1.ConfigMap](), &corev1.ConfigMap{}},
		"a custom object": {r, r.New()},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				live := &schema.Live{}
				live.Publish(schema.NewCatalog(r))
				f, _ := going(t, live, held(c.object, "a"), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "s"}})
				time.Sleep(10*time.Hour + 17*time.Second)
				synctest.Wait()
				if !is(f) {
					t.Fatal("it went though something holds it")
				}
				free(t, f, c.resource, "a")
				synctest.Wait()
				if is(f) {
					t.Error("it is still there")
				}
			})
		})
	}
}

// Content that ends one by one does not wake the namespace each time, and one
// that is held for a month is looked at once a minute.
func TestLooksAreBounded(t *testing.T) {
	const n = 500
	synctest.Test(t, func(t *testing.T) {
		var all []schema.Object
		for i := range n {
			all = append(all, held(&corev1.ConfigMap{}, fmt.Sprint("m-", i)))
		}
		f, r := going(t, nil, all...)
		before := r.n.Load()
		for i := range n - 1 {
			free(t, f, schema.ResourceFor[*corev1.ConfigMap](), fmt.Sprint("m-", i))
			synctest.Wait()
		}
		if got := r.n.Load() - before; got > 5 {
			t.Errorf("%d looks while %d objects ended", got, n-1)
		}
		time.Sleep(30 * 24 * time.Hour)
		if got := r.n.Load() - before; got > 30*24*60+100 || got < 30*24*60-100 {
			t.Errorf("%d looks in a month", got)
		}
		ns, _ := client.Cached[*corev1.Namespace](f.Cache(), schema.Key{Name: "shop"})
		if got := ns.Status.Conditions; len(got) != 5 || got[3].Message != "Some resources are remaining: configmaps. has 1 resource instances" {
			t.Errorf("conditions: %+v", got)
		}
		free(t, f, schema.ResourceFor[*corev1.ConfigMap](), fmt.Sprint("m-", n-1))
		synctest.Wait()
		if is(f) || len(r.left.of) > 0 {
			t.Errorf("there: %v; remembered: %v", is(f), r.left.of)
		}
	})
}

// What comes while the namespace goes is met at once.
func TestLateObject(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, _ := going(t, nil, held(&corev1.ConfigMap{}, "a"))
		time.Sleep(time.Hour + time.Second/2)
		f.Put(&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "late"}})
		synctest.Wait()
		if _, ok := f.Cache().Get(schema.ResourceFor[*corev1.Secret](), schema.Key{Namespace: "shop", Name: "late"}); ok {
			t.Error("it is still there")
		}
	})
}

// An object that ends while its kind is listed is never forgotten: whatever the
// list has seen of it, the last wakes.
func TestTally(t *testing.T) {
	r := schema.ResourceFor[*corev1.ConfigMap]()
	for _, seen := range []int{1, 2} { // the list shows the one that ends, or does not
		var x tally
		before := x.before("ns", r)
		x.ended("ns", r)
		x.counted("ns", r, seen, before)
		if !x.ended("ns", r) {
			t.Errorf("list of %d: the last did not wake", seen)
		}
	}
	var x tally
	if x.ended("ns", r) {
		t.Error("a namespace that is not going was woken")
	}
}
