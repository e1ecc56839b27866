package job

import (
	"context"
	"fmt"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/schema"
)

// counted counts what a controller asks of the server and of its cache.
type counted struct {
	client.Interface
	client.Cache
	all              client.Transactor
	lists            atomic.Int64 // of all pods of a namespace
	patches, commits atomic.Int64
	ops              atomic.Int64 // of all transactions
}

func count(f *client.Fake) *counted { return &counted{Interface: f, Cache: f.Cache(), all: f} }

func (c *counted) List(r *schema.Resource, namespace string) []schema.Object {
	if r == schema.ResourceFor[*corev1.Pod]() {
		c.lists.Add(1)
	}
	return c.Cache.List(r, namespace)
}

// cacheOf and clientOf tell the two sides apart, whose methods have the same names.
type cacheOf struct{ *counted }

func (c cacheOf) Get(r *schema.Resource, k schema.Key) (schema.Object, bool) {
	return c.Cache.Get(r, k)
}

type clientOf struct {
	client.Interface
	c *counted
}

func (x clientOf) Patch(ctx context.Context, r *schema.Resource, k schema.Key, t types.PatchType, data []byte, w client.WriteOptions) (schema.Object, error) {
	x.c.patches.Add(1)
	return x.Interface.Patch(ctx, r, k, t, data, w)
}

func (x clientOf) Transact(ctx context.Context, ops []client.Op, dryRun bool) ([]schema.Object, error) {
	x.c.commits.Add(1)
	x.c.ops.Add(int64(len(ops)))
	return x.c.all.Transact(ctx, ops, dryRun)
}

func tools(c *counted) controller.Tools {
	return controller.Tools{Client: controller.Noting(clientOf{c.Interface, c}), Cache: cacheOf{c}}
}

func run(t *testing.T, c *counted) {
	r := New(tools(c))
	controllertest.Run(t, controller.Config{Reconciler: r, Watches: r.Watches(), Cache: cacheOf{c}, Workers: 1})
	synctest.Wait()
}

func wide(name string, n int32) *batchv1.Job {
	j := jobOf(n, n, 6)
	j.Name, j.UID = name, types.UID(name)
	j.Spec.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: name}}
	return j
}

// ofJob is a pod of a Job that the finalizer holds.
func ofJob(job, uid, name string) *corev1.Pod {
	p := podIn(name, corev1.PodRunning, true)
	p.Namespace, p.Labels = "default", map[string]string{batchv1.ControllerUidLabel: uid}
	p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "batch/v1", Kind: "Job", Name: job, UID: types.UID(uid), Controller: ptr.To(true)}}
	return p
}

// pass lets pods of a Job succeed, all at the same moment.
func pass(t *testing.T, f *client.Fake, pods []*corev1.Pod) {
	t.Helper()
	var ops []client.Op
	for _, p := range pods {
		next := p.DeepCopy()
		next.Status.Phase = corev1.PodSucceeded
		ops = append(ops, client.Op{Verb: client.VerbUpdate, Subresource: "status", Resource: schema.ResourceOf(p), Key: schema.KeyOf(p), Object: next})
	}
	if _, err := f.Transact(t.Context(), ops, false); err != nil {
		t.Fatal(err)
	}
}

func podsOf(f *client.Fake, uid string) []*corev1.Pod {
	return client.CachedIndex[*corev1.Pod](f.Cache(), client.IndexOwner, uid)
}

// A Job looks at its own pods, and at no others of its namespace, and lets those
// that ended together go together: one transaction for all.
func TestJobIsCheap(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := client.NewFake(wide("j", 200))
		for i := range 300 {
			f.Put(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("other-", i), OwnerReferences: []metav1.OwnerReference{
				{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "rs", UID: "rs", Controller: ptr.To(true)}}}})
		}
		c := count(f)
		run(t, c)
		if n := len(podsOf(f, "j")); n != 200 {
			t.Fatalf("%d pods", n)
		}
		before, writes := c.commits.Load(), f.Writes()
		pass(t, f, podsOf(f, "j"))
		time.Sleep(time.Minute)
		j, _ := client.Cached[*batchv1.Job](f.Cache(), schema.Key{Namespace: "default", Name: "j"})
		if j.Status.Succeeded != 200 || !finished(j.Status.Conditions) {
			t.Errorf("status: %+v", j.Status)
		}
		if n := c.lists.Load(); n != 0 {
			t.Errorf("all pods of the namespace were listed %d times", n)
		}
		if commits, patches := c.commits.Load()-before, c.patches.Load(); commits != 1 || patches != 0 {
			t.Errorf("the finalizers went in %d transactions and %d patches, want one transaction", commits, patches)
		}
		if n := f.Writes() - writes - 200; n > 200+4 { // 200 finalizers, and the status on its way
			t.Errorf("%d writes", n)
		}
	})
}

// One pod that changes meanwhile does not hold up the others, and is let go too.
func TestReleaseInConflict(t *testing.T) {
	f := client.NewFake(ofJob("j", "j", "a"), ofJob("j", "j", "b"))
	c := count(f)
	seen := podsOf(f, "j")
	busy := seen[0].DeepCopy()
	busy.Status.PodIP = "10.0.0.1"
	if _, err := client.UpdateStatus(t.Context(), f, busy); err != nil {
		t.Fatal(err)
	}
	r := New(tools(c))
	if err := r.release(t.Context(), seen); err == nil {
		t.Error("the conflict was kept quiet: nobody tries again")
	}
	if tracked(podsOf(f, "j")[1]) {
		t.Error("the pod that had not changed is still held")
	}
	if err := r.release(t.Context(), podsOf(f, "j")); err != nil || tracked(podsOf(f, "j")[0]) {
		t.Errorf("the second time: %v", err)
	}
}

// Pods whose Job is gone are let go: one that was deleted, one whose name is
// another's now, one that was never seen.
func TestOrphansAreFreed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gone, renewed := wide("gone", 1), wide("renewed", 1)
		f := client.NewFake(gone, renewed, ofJob("gone", "gone", "a"), ofJob("renewed", "renewed", "b"), ofJob("renewed", "before", "c"), ofJob("unseen", "unseen", "d"))
		other := ofJob("gone", "alien", "e")
		other.OwnerReferences[0].APIVersion = "example.com/v1" // somebody else's Job
		f.Put(other)
		run(t, count(f))
		held := func(want string) {
			t.Helper()
			synctest.Wait()
			got := ""
			for _, p := range client.CachedList[*corev1.Pod](f.Cache(), "default") {
				if tracked(p) {
					got += p.Name
				}
			}
			if got != want {
				t.Errorf("held: %q, want %q", got, want)
			}
		}
		held("abe")
		if err := client.Delete[*batchv1.Job](t.Context(), f, schema.KeyOf(gone), client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		held("be")
		f.Put(ofJob("gone", "gone", "late"))
		held("be")
	})
}

// A cache may show a pod before its Job: the server has the last word.
func TestOrphanIsAskedFor(t *testing.T) {
	server, shown := client.NewFake(wide("j", 1), ofJob("j", "j", "a")), client.NewFake(ofJob("j", "j", "a"))
	r := New(controller.Tools{Client: server, Cache: shown.Cache()})
	if _, err := r.Reconcile(t.Context(), orphanKey(podsOf(shown, "j")[0])); err != nil || !tracked(podsOf(server, "j")[0]) {
		t.Errorf("the pod of a Job that lives was let go: %v", err)
	}
}
