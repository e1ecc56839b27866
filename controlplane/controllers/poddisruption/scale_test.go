package poddisruption

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

// at says where a custom resource keeps its replicas.
type at struct {
	schema.Custom
	path string
}

func (a at) ScalePaths() (spec, status, selector string) { return a.path, ".status.replicas", "" }

// databases is a resource that a definition has added, in one version.
func databases(version, path string) *schema.Resource {
	r := &schema.Resource{Group: "example.com", Version: version, Kind: "Database", ListKind: "DatabaseList", Plural: "databases", Namespaced: true, Scale: path != "", Custom: at{path: path}}
	r.New = func() schema.Object {
		o := &unstructured.Unstructured{}
		o.SetGroupVersionKind(r.GVK())
		return o
	}
	return r
}

// database is the set "db" of a size; -1 says nothing of it.
func database(r *schema.Resource, field string, n int64) *unstructured.Unstructured {
	u := r.New().(*unstructured.Unstructured)
	u.SetNamespace("shop")
	u.SetName("db")
	u.SetUID("1")
	if n >= 0 {
		u.Object["spec"] = map[string]any{field: n}
	}
	return u
}

// byDatabase are a budget, and pods that a Database of a version controls.
func byDatabase(version string) []schema.Object {
	objects := guarded("Database")
	for _, o := range objects[1:] {
		refs := o.GetOwnerReferences()
		refs[0].APIVersion = "example.com/" + version
		o.SetOwnerReferences(refs)
	}
	return objects
}

func atWork(t *testing.T, live *schema.Live, objects ...schema.Object) *client.Fake {
	f := client.NewFake()
	f.Catalog = live
	for _, o := range objects {
		f.Put(o)
	}
	c := New(Config{Tools: controllertest.Tools(f), Catalog: live})
	controllertest.Run(t, controller.Config{Reconciler: c, Watches: c.Watches(), Custom: c.Custom, Catalog: live, Cache: f.Cache()})
	synctest.Wait()
	return f
}

// The pods of a custom resource with a scale are counted by it, as those of a
// StatefulSet are by theirs, and again when it is scaled.
func TestCustomScale(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := databases("v1", ".spec.members")
		live := &schema.Live{}
		live.Publish(schema.NewCatalog(r))
		f := atWork(t, live, append(byDatabase("v1"), database(r, "members", 5))...)
		expect := func(what string, expected, allowed int32) {
			t.Helper()
			synctest.Wait()
			if s := statusOf(t, f); s.ExpectedPods != expected || s.DisruptionsAllowed != allowed {
				t.Errorf("%s: %+v", what, s)
			}
		}
		scale := func(patch string) {
			t.Helper()
			if _, err := f.Patch(t.Context(), r, schema.Key{Namespace: "shop", Name: "db"}, types.MergePatchType, []byte(patch), client.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
		}
		expect("four of five", 5, 0)
		scale(`{"spec":{"members":4}}`)
		expect("shrunk", 4, 1)
		writes := f.Writes()
		scale(`{"spec":{"image":"x"}}`)
		expect("the same size", 4, 1)
		if f.Writes() != writes+1 {
			t.Error("a change that is none of the size was written about")
		}
		scale(`{"spec":{"members":null}}`)
		if s := statusOf(t, f); s.DisruptionsAllowed != 0 || s.Conditions[0].Message != `read scale of databases.example.com db: the spec replicas field ".spec.members" does not exist` {
			t.Errorf("without a size: %+v", s)
		}
		scale(`{"spec":{"members":4}}`)
		expect("with one again", 4, 1)
		if err := f.Delete(t.Context(), r, schema.Key{Namespace: "shop", Name: "db"}, client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if s := statusOf(t, f); s.DisruptionsAllowed != 0 || s.Conditions[0].Reason != policyv1.SyncFailedReason || s.Conditions[0].Message != `found no controllers for pod "db-0"` {
			t.Errorf("without its set: %+v", s)
		}
	})
}

// A kind that has no scale, or that nobody serves, fails closed and is counted as
// soon as its definition says more.
func TestScaleThatComesLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		without, with := databases("v1", ""), databases("v1", ".spec.replicas")
		live := &schema.Live{}
		f := atWork(t, live, byDatabase("v1")...)
		says := func(want string) {
			t.Helper()
			if s := statusOf(t, f); s.DisruptionsAllowed != 0 || s.Conditions[0].Status != metav1.ConditionFalse || s.Conditions[0].Message != want {
				t.Errorf("allows %d, condition %+v, want %s", s.DisruptionsAllowed, s.Conditions[0], want)
			}
		}
		says(`no matches for kind "Database" in version "example.com/v1"`)
		live.Publish(schema.NewCatalog(without))
		f.Put(database(without, "replicas", 4))
		time.Sleep(time.Hour) // the set wakes nobody, as it has no size; the next try comes in time
		synctest.Wait()
		says(`databases.example.com does not implement the scale subresource`)
		live.Publish(schema.NewCatalog(with))
		synctest.Wait()
		f.Put(database(with, "replicas", 4))
		synctest.Wait()
		if s := statusOf(t, f); s.ExpectedPods != 4 || s.DisruptionsAllowed != 1 {
			t.Errorf("with a scale: %+v", s)
		}
	})
}

// The set is read in the version that its pods name, once for all of them.
func TestScaleOfAnotherVersion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		row := &schema.Resource{Group: "example.com", Kind: "Database", Plural: "databases", Namespaced: true}
		v1, v2 := databases("v1", ".spec.size"), databases("v2", ".spec.members")
		v1.Storage, v2.Storage = row, row
		conversions := 0
		v2.Convert = func(_ context.Context, in []schema.Object) ([]schema.Object, error) {
			conversions++
			u := in[0].DeepCopyObject().(*unstructured.Unstructured)
			n, _, err := unstructured.NestedInt64(u.Object, "spec", "size")
			return []schema.Object{database(v2, "members", n)}, err
		}
		live := &schema.Live{}
		live.Publish(schema.NewCatalog(v1, v2))
		objects := byDatabase("v2")
		cache := stored{client.NewFake(objects...).Cache(), row, database(v1, "size", 4)}
		c := New(Config{Tools: controller.Tools{Cache: cache}, Catalog: live})
		d, err := c.count(t.Context(), objects[0].(*policyv1.PodDisruptionBudget))
		if err != nil || d.status.ExpectedPods != 4 || d.status.DisruptionsAllowed != 1 || conversions != 1 {
			t.Errorf("%+v, %d conversions: %v", d.status, conversions, err)
		}
	})
}

// stored is a cache that holds one object more, as it is kept.
type stored struct {
	client.Cache
	row *schema.Resource
	o   schema.Object
}

func (s stored) Get(r *schema.Resource, key schema.Key) (schema.Object, bool) {
	if r == s.row && key == schema.KeyOf(s.o) {
		return s.o, true
	}
	return s.Cache.Get(r, key)
}
