package garbagecollector

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var maps = schema.ResourceFor[*corev1.ConfigMap]()

// owned returns a ConfigMap with its name as UID and owners by name.
func owned(name string, blocking bool, owners ...string) *corev1.ConfigMap {
	o := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name)}}
	for _, owner := range owners {
		o.OwnerReferences = append(o.OwnerReferences, metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: owner, UID: types.UID(owner), BlockOwnerDeletion: &blocking})
	}
	return o
}

// collect runs the controller over objects, does something, lets a minute
// pass, and returns the names of what is left.
func collect(t *testing.T, objects []schema.Object, do func(ctx context.Context, f *client.Fake)) (left []string, f *client.Fake) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		f = client.NewFake(objects...)
		controllertest.Start(t, f, New(Config{Tools: controllertest.Tools(f)}), 3)
		synctest.Wait()
		do(t.Context(), f)
		time.Sleep(time.Minute)
	})
	for _, o := range f.Cache().List(maps, "") {
		left = append(left, o.GetName())
	}
	return left, f
}

func remove(t *testing.T, ctx context.Context, f *client.Fake, name string, p metav1.DeletionPropagation) {
	t.Helper()
	if err := f.Delete(ctx, maps, schema.Key{Namespace: "default", Name: name}, client.DeleteOptions{Propagation: p}); err != nil {
		t.Error(err)
	}
}

func TestBackground(t *testing.T) {
	left, _ := collect(t, []schema.Object{owned("a", false), owned("b", false, "a"), owned("c", false, "b"), owned("free", false)}, func(ctx context.Context, f *client.Fake) {
		remove(t, ctx, f, "a", metav1.DeletePropagationBackground)
	})
	if !slices.Equal(left, []string{"free"}) {
		t.Errorf("left: %v", left)
	}
}

// An object with an owner that lives stays, without the reference to the one
// that is gone.
func TestOneOwnerIsEnough(t *testing.T) {
	left, f := collect(t, []schema.Object{owned("a", false), owned("b", false), owned("c", false, "a", "b")}, func(ctx context.Context, f *client.Fake) {
		remove(t, ctx, f, "a", "")
	})
	if !slices.Equal(left, []string{"b", "c"}) {
		t.Fatalf("left: %v", left)
	}
	o, _ := f.Cache().Get(maps, schema.Key{Namespace: "default", Name: "c"})
	if refs := o.GetOwnerReferences(); len(refs) != 1 || refs[0].UID != "b" {
		t.Errorf("owners: %v", refs)
	}
}

func TestOrphan(t *testing.T) {
	left, f := collect(t, []schema.Object{owned("a", false), owned("b", true, "a")}, func(ctx context.Context, f *client.Fake) {
		remove(t, ctx, f, "a", metav1.DeletePropagationOrphan)
	})
	if !slices.Equal(left, []string{"b"}) {
		t.Fatalf("left: %v", left)
	}
	o, _ := f.Cache().Get(maps, schema.Key{Namespace: "default", Name: "b"})
	if len(o.GetOwnerReferences()) != 0 {
		t.Errorf("owners: %v", o.GetOwnerReferences())
	}
}

// In the foreground an owner goes after what blocks it, to any depth; what
// does not block goes too, but nobody waits for it.
func TestForeground(t *testing.T) {
	held := owned("held", true, "b")
	held.Finalizers = []string{"writ.dev/test"}
	objects := []schema.Object{owned("a", false), owned("b", true, "a"), held, owned("loose", false, "a")}
	left, _ := collect(t, objects, func(ctx context.Context, f *client.Fake) {
		remove(t, ctx, f, "a", metav1.DeletePropagationForeground)
	})
	if !slices.Equal(left, []string{"a", "b", "held"}) {
		t.Errorf("while one is held: %v", left)
	}
	left, _ = collect(t, objects, func(ctx context.Context, f *client.Fake) {
		remove(t, ctx, f, "a", metav1.DeletePropagationForeground)
		time.Sleep(time.Second)
		key := schema.Key{Namespace: "default", Name: "held"}
		if _, err := f.Patch(ctx, maps, key, types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`), client.WriteOptions{}); err != nil {
			t.Error(err)
		}
	})
	if len(left) != 0 {
		t.Errorf("in the end: %v", left)
	}
}

// An object made anew under the name of an owner does not own.
func TestOwnersAreKnownByUID(t *testing.T) {
	impostor := owned("a", false)
	impostor.UID = "another"
	left, _ := collect(t, []schema.Object{impostor, owned("b", false, "a")}, func(context.Context, *client.Fake) {})
	if !slices.Equal(left, []string{"a"}) {
		t.Errorf("left: %v", left)
	}
}

// What names an owner of a kind that nobody knows, or a namespaced owner from
// outside any namespace, is left alone.
func TestUnknownOwnersAreLeftAlone(t *testing.T) {
	alien := owned("alien", false, "x")
	alien.OwnerReferences[0].Kind = "Unheard"
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "wide", OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "ConfigMap", Name: "x", UID: "x"}}}}
	left, f := collect(t, []schema.Object{alien, ns}, func(context.Context, *client.Fake) {})
	if !slices.Equal(left, []string{"alien"}) || len(f.Cache().List(schema.ResourceFor[*corev1.Namespace](), "")) != 1 {
		t.Errorf("left: %v", left)
	}
}

// What is created after its owner went is collected too.
func TestLateDependent(t *testing.T) {
	left, _ := collect(t, []schema.Object{owned("a", false)}, func(ctx context.Context, f *client.Fake) {
		remove(t, ctx, f, "a", "")
		f.Put(owned("late", false, "a"))
	})
	if len(left) != 0 {
		t.Errorf("left: %v", left)
	}
}

// What Git declares stays when the owners that others gave it are gone, and
// loses them: nothing is tried again.
func TestDeclaredStays(t *testing.T) {
	declared := apierrors.NewForbidden(maps.GroupResource(), "b", errors.New("declared in Git"))
	declared.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: v1alpha1.DeclaredCause}}
	for _, p := range []metav1.DeletionPropagation{metav1.DeletePropagationForeground, metav1.DeletePropagationBackground} {
		tries := 0
		left, f := collect(t, []schema.Object{owned("a", false), owned("b", true, "a"), owned("c", false, "gone")}, func(ctx context.Context, f *client.Fake) {
			f.Reject(func(verb client.Verb, _ *schema.Resource, _ string, o schema.Object) error {
				if verb != client.VerbDelete || o.GetName() != "b" {
					return nil
				}
				tries++
				return declared
			})
			remove(t, ctx, f, "a", p)
		})
		if !slices.Equal(left, []string{"b"}) || tries != 1 {
			t.Fatalf("%s: left: %v after %d tries", p, left, tries)
		}
		if o, _ := f.Cache().Get(maps, schema.Key{Namespace: "default", Name: "b"}); len(o.GetOwnerReferences()) > 0 {
			t.Errorf("owners: %v", o.GetOwnerReferences())
		}
	}
}
