package replicaset

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/controlplane/controller/controllertest"
	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func set(replicas int32) *appsv1.ReplicaSet {
	l := map[string]string{"app": "web"}
	return &appsv1.ReplicaSet{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid"},
		Spec: appsv1.ReplicaSetSpec{Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: l},
			Template: corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Labels: l}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}},
	}
}

var key = schema.Key{Namespace: "default", Name: "web"}

// single hides the transactions of a Fake: pods are created one by one.
type single struct{ client.Interface }

func pods(t *testing.T, f *client.Fake) []*corev1.Pod {
	t.Helper()
	all, err := client.ListAll[*corev1.Pod](t.Context(), f, client.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

func reconcile(t *testing.T, c *Controller) controller.Result {
	t.Helper()
	res, err := c.Reconcile(t.Context(), key)
	if err != nil && !apierrors.IsConflict(err) { // a cache that lags shows an old ReplicaSet too
		t.Fatal(err)
	}
	return res
}

// However far the cache lags behind, pods are created once, and ended once.
func TestLagNeverCreatesTwice(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := client.NewFake(set(5))
		cache := client.NewCache(client.CacheConfig{Client: f, Resources: []client.Selection{
			{Resource: schema.ResourceFor[*appsv1.ReplicaSet]()}, {Resource: schema.ResourceFor[*corev1.Pod]()},
		}})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- cache.Run(ctx) }()
		defer func() { <-done }()
		defer cancel()
		if err := cache.WaitSynced(ctx); err != nil {
			t.Fatal(err)
		}
		c := New(controller.Tools{Client: f, Cache: cache})
		f.Hold()
		for range 20 {
			reconcile(t, c)
			time.Sleep(300 * time.Millisecond)
		}
		if n := len(pods(t, f)); n != 5 {
			t.Fatalf("%d pods over a cache that shows none", n)
		}
		// One is deleted by another before the cache ever saw it: only the
		// server knows.
		if err := client.Delete[*corev1.Pod](ctx, f, schema.KeyOf(pods(t, f)[0]), client.DeleteOptions{}); err != nil {
			t.Fatal(err)
		}
		f.Release()
		time.Sleep(2 * time.Second)
		reconcile(t, c)
		if n := len(pods(t, f)); n != 5 {
			t.Fatalf("%d pods after one was deleted", n)
		}
		time.Sleep(2 * time.Second)

		next := set(2)
		next.UID = ""
		if _, err := client.Update(ctx, f, next, client.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		f.Hold()
		for range 10 {
			reconcile(t, c)
			time.Sleep(300 * time.Millisecond)
		}
		if n := len(pods(t, f)); n != 2 {
			t.Fatalf("%d pods after a scale to 2 over a cache that shows 5", n)
		}
		f.Release()
	})
}

// A quota that is used up is met a few times, not five hundred.
func TestSlowStart(t *testing.T) {
	f := client.NewFake(set(500))
	asked := 0
	f.Reject(func(v client.Verb, _ *schema.Resource, _ string, _ schema.Object) error {
		if v != client.VerbCreate {
			return nil
		}
		if asked++; asked > 10 {
			return errors.New("exceeded quota")
		}
		return nil
	})
	c := New(controller.Tools{Client: single{f}, Cache: f.Cache()})
	_, err := c.Reconcile(t.Context(), key)
	if err == nil || !strings.Contains(err.Error(), "exceeded quota") {
		t.Errorf("reconcile: %v", err)
	}
	if asked > 20 {
		t.Errorf("asked %d times", asked)
	}
	rs, _ := client.Cached[*appsv1.ReplicaSet](f.Cache(), key)
	if len(rs.Status.Conditions) != 1 || rs.Status.Conditions[0].Reason != "FailedCreate" {
		t.Errorf("conditions: %+v", rs.Status.Conditions)
	}
	f.Reject(nil)
	reconcile(t, c)
	reconcile(t, c)
	rs, _ = client.Cached[*appsv1.ReplicaSet](f.Cache(), key)
	if n := len(pods(t, f)); n != 500 || len(rs.Status.Conditions) != 0 || rs.Status.Replicas != 500 {
		t.Errorf("%d pods, status %+v", n, rs.Status)
	}
}

func TestAdoptsAndReleases(t *testing.T) {
	yes := true
	pod := func(name, app string, owner string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{"app": app}}}
		if owner != "" {
			p.OwnerReferences = []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "web", UID: "web-uid", Controller: &yes}}
			p.OwnerReferences[0].UID = "web-uid"
			if owner != "web" {
				p.OwnerReferences[0].UID = "another"
			}
		}
		return p
	}
	f := client.NewFake(set(2), pod("orphan", "web", ""), pod("stranger", "db", ""), pod("mine", "web", "web"), pod("relabelled", "db", "web"), pod("theirs", "web", "another"))
	c := New(controllertest.Tools(f))
	reconcile(t, c)
	owners := map[string]string{}
	for _, p := range pods(t, f) {
		if ref := metav1.GetControllerOf(p); ref != nil {
			owners[p.Name] = string(ref.UID)
		}
	}
	want := map[string]string{"orphan": "web-uid", "mine": "web-uid", "theirs": "another"}
	if fmt.Sprint(owners) != fmt.Sprint(want) {
		t.Errorf("owners: %v, want %v", owners, want)
	}
}

// A ReplicaSet that the cache shows alive but that was deleted and made anew
// adopts nothing.
func TestDeadOwnerAdoptsNothing(t *testing.T) {
	stale := client.NewFake(set(1), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "orphan", Labels: map[string]string{"app": "web"}}})
	live := set(1)
	live.UID = "made-anew"
	c := New(controller.Tools{Client: client.NewFake(live), Cache: stale.Cache()})
	if _, err := c.Reconcile(t.Context(), key); err == nil || !strings.Contains(err.Error(), "is gone") {
		t.Errorf("reconcile: %v", err)
	}
}

func TestAvailabilityTakesTime(t *testing.T) {
	now := time.Unix(1e9, 0)
	rs := set(1)
	rs.Spec.MinReadySeconds = 10
	p := podset.FromTemplate(&rs.Spec.Template, rs)
	p.Status.Phase = corev1.PodRunning
	p.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue, LastTransitionTime: metav1.NewTime(now.Add(-4 * time.Second))}}
	all := []*corev1.Pod{p}
	if s := statusOf(rs, all, nil, now); s.ReadyReplicas != 1 || s.AvailableReplicas != 0 {
		t.Errorf("status: %+v", s)
	}
	if d := nextAvailable(rs, all, now); d != 6*time.Second {
		t.Errorf("looks again in %v", d)
	}
	if s := statusOf(rs, all, nil, now.Add(6*time.Second)); s.AvailableReplicas != 1 {
		t.Errorf("status later: %+v", s)
	}
}
