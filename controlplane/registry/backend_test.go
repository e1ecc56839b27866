package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

func mustCreate(t testing.TB, g *Registry, o schema.Object) schema.Object {
	t.Helper()
	made, err := g.Create(as("system:test"), schema.ResourceOf(o), o, client.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return made
}

// next waits for one event of a watch.
func next(t *testing.T, w client.Watcher) client.Event {
	t.Helper()
	select {
	case e, ok := <-w.Events():
		if !ok {
			t.Fatal("watch ended")
		}
		return e
	case <-time.After(10 * time.Second):
		t.Fatal("no event came")
	}
	return client.Event{}
}

func TestListAndWatch(t *testing.T) {
	g, _ := open(t, t.TempDir())
	a := configMap("a", "1")
	a.Labels = map[string]string{"app": "x"}
	mustCreate(t, g, a)
	mustCreate(t, g, configMap("b", "1"))
	selectX := client.ListOptions{Labels: labels.SelectorFromSet(labels.Set{"app": "x"})}

	list, err := g.List(person, configMaps, selectX)
	if err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "a" {
		t.Fatalf("list: %v, %v", list.Items, err)
	}
	byName := client.ListOptions{Namespace: "default", Fields: fields.OneTermEqualSelector("metadata.name", "b")}
	if list, err = g.List(person, configMaps, byName); err != nil || len(list.Items) != 1 || list.Items[0].GetName() != "b" {
		t.Fatalf("list by name: %v, %v", list.Items, err)
	}
	if _, err := g.List(person, configMaps, client.ListOptions{Fields: fields.OneTermEqualSelector("data.v", "1")}); !apierrors.IsBadRequest(err) {
		t.Errorf("selector over a field that cannot be selected: %v", err)
	}

	w, err := g.Watch(t.Context(), configMaps, client.WatchOptions{ListOptions: selectX})
	if err != nil {
		t.Fatal(err)
	}
	if e := next(t, w); e.Type != client.Added || e.Object.GetName() != "a" {
		t.Errorf("first event is %v", e)
	}
	if e := next(t, w); e.Type != client.Bookmark || !e.InitialEventsEnd || e.Object.GetResourceVersion() == "" {
		t.Errorf("second event is %v, want the end of the initial events", e)
	}
	relabel := func(name, value string) {
		t.Helper()
		patch := fmt.Sprintf(`{"metadata":{"labels":{"app":%q}}}`, value)
		if _, err := g.Patch(person, configMaps, key(name), types.MergePatchType, []byte(patch), client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	relabel("b", "x")
	if e := next(t, w); e.Type != client.Added || e.Object.GetName() != "b" {
		t.Errorf("b begins to match: %v", e)
	}
	relabel("a", "y")
	if e := next(t, w); e.Type != client.Deleted || e.Object.GetLabels()["app"] != "x" || e.Object.GetResourceVersion() != g.store.Version().String() {
		t.Errorf("a ceases to match: %v, want its last matching state at the new version", e)
	}
	w.Stop()
	for range w.Events() { // until it has ended
	}
	if _, err := g.Watch(t.Context(), configMaps, client.WatchOptions{ResourceVersion: "x"}); !apierrors.IsBadRequest(err) {
		t.Errorf("watch from a bad version: %v", err)
	}
}

func TestSubscribe(t *testing.T) {
	g, _ := open(t, t.TempDir())
	mustCreate(t, g, configMap("a", "1"))
	ctx, cancel := context.WithCancel(t.Context())
	got := make(chan string, 10)
	err := g.Cache().Subscribe(ctx, configMaps, func(e client.Event) { got <- string(e.Type) + " " + e.Object.GetName() })
	if err != nil {
		t.Fatal(err)
	}
	if len(got) != 1 {
		t.Fatalf("%d initial events when Subscribe has returned, want 1", len(got))
	}
	mustCreate(t, g, configMap("b", "1"))
	if err := g.Delete(person, configMaps, key("a"), client.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"ADDED a", "ADDED b", "DELETED a"} {
		select {
		case e := <-got:
			if e != want {
				t.Errorf("got %s, want %s", e, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("%s did not come", want)
		}
	}
	cancel()
}

func TestCacheIndex(t *testing.T) {
	g, _ := open(t, t.TempDir())
	p := mustCreate(t, g, pod("p1"))
	mustCreate(t, g, pod("p2"))
	owner := string(p.GetOwnerReferences()[0].UID)
	if n := len(g.Cache().Index(pods, client.IndexOwner, owner)); n != 2 {
		t.Errorf("owner has %d pods, want 2", n)
	}
	if n := len(g.Cache().List(pods, "other")); n != 0 {
		t.Errorf("%d pods in another namespace", n)
	}
}

func TestDeleteAll(t *testing.T) {
	g, _ := open(t, t.TempDir())
	for i := range 5 {
		c := configMap(fmt.Sprintf("c%d", i), "x")
		c.Labels = map[string]string{"odd": fmt.Sprint(i % 2)}
		mustCreate(t, g, c)
	}
	items, err := g.selected(person, g.store.Snapshot(configMaps), configMaps, client.ListOptions{Namespace: "default", Labels: labels.SelectorFromSet(labels.Set{"odd": "0"})})
	if err != nil || len(items) != 3 {
		t.Fatalf("selected %d, %v, want 3", len(items), err)
	}
	mustDelete := func() {
		if err := g.DeleteAll(person, configMaps, items, client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	mustDelete()
	mustDelete() // what is gone is no error
	if n := len(g.Cache().List(configMaps, "")); n != 2 {
		t.Errorf("%d are left, want 2", n)
	}
}

func TestDryRunWritesNothing(t *testing.T) {
	g, _ := open(t, t.TempDir())
	mustCreate(t, g, configMap("a", "1"))
	before := g.store.Version()
	w := client.WriteOptions{DryRun: true}
	if o, err := g.Create(person, configMaps, configMap("b", "1"), w); err != nil || o.GetUID() == "" {
		t.Errorf("create: %v, %v", o, err)
	}
	if _, err := g.Patch(person, configMaps, key("a"), types.MergePatchType, []byte(`{"data":{"x":"y"}}`), w); err != nil {
		t.Error(err)
	}
	if err := g.Delete(person, configMaps, key("a"), client.DeleteOptions{DryRun: true}); err != nil {
		t.Error(err)
	}
	if g.store.Version() != before {
		t.Error("something was written")
	}
}

func TestDeletePreconditions(t *testing.T) {
	g, _ := open(t, t.TempDir())
	o := mustCreate(t, g, configMap("a", "1"))
	other, version := types.UID("other"), "1"
	for _, p := range []metav1.Preconditions{{UID: &other}, {ResourceVersion: &version}} {
		if err := g.Delete(person, configMaps, key("a"), client.DeleteOptions{Preconditions: &p}); !apierrors.IsConflict(err) {
			t.Errorf("delete with %v: %v, want a conflict", p, err)
		}
	}
	uid := o.GetUID()
	if err := g.Delete(person, configMaps, key("a"), client.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &uid}}); err != nil {
		t.Error(err)
	}
}

// recorder is an Admission that writes down what it is asked.
type recorder struct {
	name   string
	calls  *[]string
	refuse string
}

func (r recorder) note(step string, a *Attributes) {
	*r.calls = append(*r.calls, fmt.Sprintf("%s %s %s %s %s", r.name, step, a.Verb, a.Resource, a.Key))
}

func (r recorder) Mutate(_ context.Context, a *Attributes) error {
	r.note("mutate", a)
	if a.Object != nil {
		metav1.SetMetaDataAnnotation(objectMeta(a.Object), r.name, "seen")
	}
	return nil
}

func (r recorder) Validate(_ context.Context, a *Attributes) error {
	r.note("validate", a)
	if a.Verb == r.refuse {
		return apierrors.NewForbidden(a.Resource.GroupResource(), a.Key.Name, errors.New("no"))
	}
	return nil
}

// picky is asked about deletions only.
type picky struct{ recorder }

func (picky) Handles(verb string, _ *schema.Resource, _ string) bool { return verb == "delete" }

func TestAdmission(t *testing.T) {
	var calls []string
	g, _ := open(t, t.TempDir(), recorder{"one", &calls, ""}, recorder{"two", &calls, ""}, picky{recorder{"three", &calls, "delete"}})
	o := mustCreate(t, g, configMap("a", "1"))
	if o.GetAnnotations()["one"] != "seen" || o.GetAnnotations()["two"] != "seen" {
		t.Errorf("admission did not change the object: %v", o.GetAnnotations())
	}
	if err := g.Delete(person, configMaps, key("a"), client.DeleteOptions{}); !apierrors.IsForbidden(err) {
		t.Errorf("delete: %v, want forbidden", err)
	}
	want := []string{
		"one mutate create configmaps default/a", "two mutate create configmaps default/a",
		"one validate create configmaps default/a", "two validate create configmaps default/a",
		"one mutate delete configmaps default/a", "two mutate delete configmaps default/a", "three mutate delete configmaps default/a",
		"one validate delete configmaps default/a", "two validate delete configmaps default/a", "three validate delete configmaps default/a",
	}
	if !slices.Equal(calls, want) {
		t.Errorf("calls are\n%v\nwant\n%v", calls, want)
	}
}

func TestEviction(t *testing.T) {
	g, _ := open(t, t.TempDir())
	p := mustCreate(t, g, pod("p"))
	mustCreate(t, g, &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: p.GetLabels()}},
	})
	if _, err := g.Patch(person, pods, key("p"), types.MergePatchType, []byte(`{"status":{"phase":"Running"}}`), client.WriteOptions{Subresource: "status"}); err != nil {
		t.Fatal(err)
	}
	ev := &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p"}}
	post := func() error {
		_, err := g.Create(person, pods, ev, client.WriteOptions{Subresource: "eviction", Key: key("p")})
		return err
	}
	if err := post(); !apierrors.IsTooManyRequests(err) {
		t.Fatalf("evict: %v, want too many requests", err)
	}
	status := `{"status":{"disruptionsAllowed":1,"observedGeneration":1,"expectedPods":1,"currentHealthy":1,"desiredHealthy":0}}`
	budgets := schema.ResourceFor[*policyv1.PodDisruptionBudget]()
	if _, err := g.Patch(person, budgets, key("web"), types.MergePatchType, []byte(status), client.WriteOptions{Subresource: "status"}); err != nil {
		t.Fatal(err)
	}
	if err := post(); err != nil {
		t.Fatal(err)
	}
	if _, ok := g.Cache().Get(pods, key("p")); ok {
		t.Error("the pod is still there")
	}
	b, _ := client.Cached[*policyv1.PodDisruptionBudget](g.Cache(), key("web"))
	if b.Status.DisruptionsAllowed != 0 || len(b.Status.DisruptedPods) != 1 {
		t.Errorf("the budget was not charged: %+v", b.Status)
	}
}
