package registry

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// counter is an admission that counts in one object what is created.
type counter struct{}

func (counter) Mutate(context.Context, *Attributes) error { return nil }

func (counter) Handles(verb string, r *schema.Resource, _ string) bool {
	return verb == "create" && r == configMaps
}

func (counter) Validate(ctx context.Context, a *Attributes) error {
	quotas := schema.ResourceFor[*corev1.ResourceQuota]()
	o, ok := a.Cluster.Get(quotas, key("q"))
	if !ok {
		return nil
	}
	q := o.(*corev1.ResourceQuota).DeepCopy()
	n := q.Status.Used["count/configmaps"]
	n.Add(resource.MustParse("1"))
	q.Status.Used = corev1.ResourceList{"count/configmaps": n}
	a.Cluster.(interface {
		Put(context.Context, *schema.Resource, schema.Object)
	}).Put(ctx, quotas, q)
	return nil
}

// TestWritesMeetAtOneObject: many writes at a time that all change one other
// object all succeed, and none of the changes is lost.
func TestWritesMeetAtOneObject(t *testing.T) {
	const writers = 32
	g, _ := open(t, t.TempDir(), counter{})
	quotas := schema.ResourceFor[*corev1.ResourceQuota]()
	if _, err := g.Create(t.Context(), quotas, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "q"}}, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	errs := make([]error, writers)
	for i := range writers {
		wg.Go(func() {
			_, errs[i] = g.Create(t.Context(), configMaps, configMap(fmt.Sprintf("c-%d", i), "v"), client.WriteOptions{})
		})
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Errorf("create %d: %v", i, err)
		}
	}
	q, err := g.Get(t.Context(), quotas, key("q"))
	if err != nil {
		t.Fatal(err)
	}
	if used := q.(*corev1.ResourceQuota).Status.Used["count/configmaps"]; used.Value() != writers {
		t.Errorf("counted %v of %d", used.String(), writers)
	}
	if len(g.queues.of) != 0 {
		t.Errorf("%d queues are left", len(g.queues.of))
	}
}

// TestBindingLabels: the labels of a binding go to the pod, over its own.
func TestBindingLabels(t *testing.T) {
	g, _ := open(t, t.TempDir())
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Labels: map[string]string{"app": "web", "topology.kubernetes.io/zone": "x"}},
		Spec:       deployment("p").Spec.Template.Spec,
	}
	if _, err := g.Create(t.Context(), pods, pod, client.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	b := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", Labels: map[string]string{"topology.kubernetes.io/zone": "a"}},
		Target:     corev1.ObjectReference{Kind: "Node", Name: "n"},
	}
	bound, err := g.Create(t.Context(), pods, b, client.WriteOptions{Subresource: "binding", Key: key("p")})
	if err != nil {
		t.Fatal(err)
	}
	if l := bound.GetLabels(); l["topology.kubernetes.io/zone"] != "a" || l["app"] != "web" {
		t.Errorf("labels are %v", l)
	}
}

// TestResourceNoLongerKept: a watch of the instances of a definition that goes
// ends, and asking for them by rows of yesterday is answered.
func TestResourceNoLongerKept(t *testing.T) {
	g, _ := open(t, t.TempDir())
	v1, _ := serveWidgets(t, g)
	ctx, k := t.Context(), key("w")
	if _, err := g.Create(ctx, v1, widget("v1", "w", `{"value":"x"}`), client.WriteOptions{FieldManager: "a"}); err != nil {
		t.Fatal(err)
	}
	w, err := g.Watch(ctx, v1, client.WatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	if e := <-w.Events(); e.Type != client.Added {
		t.Fatalf("first event: %v", e)
	}
	if err := g.store.Remove(ctx, v1.Stored()); err != nil {
		t.Fatal(err)
	}
	end := time.After(10 * time.Second)
	for open := true; open; {
		select {
		case _, open = <-w.Events():
		case <-end:
			t.Fatal("the watch goes on")
		}
	}

	if _, err := g.Get(ctx, v1, k); err == nil {
		t.Error("get finds it")
	}
	if l, err := g.List(ctx, v1, client.ListOptions{}); err == nil && len(l.Items) > 0 {
		t.Error("list finds it")
	}
	if _, err := g.Watch(ctx, v1, client.WatchOptions{}); err == nil {
		t.Error("watch begins")
	}
	if _, err := g.Create(ctx, v1, widget("v1", "x", `{"value":"x"}`), client.WriteOptions{}); err == nil {
		t.Error("create stores it")
	}
	if err := g.Delete(ctx, v1, k, client.DeleteOptions{}); err == nil {
		t.Error("delete finds it")
	}
	c := g.Cache()
	if o, ok := c.Get(v1, k); ok || len(c.List(v1, "")) > 0 || len(c.List(v1, "default")) > 0 || len(c.Index(v1, client.IndexOwner, "u")) > 0 {
		t.Errorf("the cache has %v", o)
	}
	if err := c.Subscribe(ctx, v1, func(client.Event) {}); err == nil {
		t.Error("subscribe begins")
	}
	_, err = g.Transact(ctx, []client.Op{{Verb: client.VerbDelete, Resource: v1, Key: k}}, false)
	if err == nil {
		t.Error("a transaction deletes it")
	}
}
