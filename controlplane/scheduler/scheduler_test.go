package scheduler

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// recorder keeps events.
type recorder struct {
	mu     sync.Mutex
	events []string
}

func (r *recorder) Event(o schema.Object, eventtype, reason, message string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprintf("%s %s %s: %s", o.GetName(), eventtype, reason, message))
}

func (r *recorder) has(text string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range r.events {
		if strings.Contains(e, text) {
			return true
		}
	}
	return false
}

// world is a running scheduler over a fake server.
type world struct {
	*testing.T
	*client.Fake
	recorder *recorder
}

func run(t *testing.T, test func(w *world), objects ...schema.Object) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t, client.NewFake(objects...), &recorder{}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		s := New(Config{Client: w.Fake, Cache: w.Cache(), Recorder: w.recorder})
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		test(w)
		cancel()
		if err := <-done; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
}

// node returns where a pod is.
func (w *world) node(name string) string { return w.get(name).Spec.NodeName }

func (w *world) get(name string) *corev1.Pod {
	w.Helper()
	p, err := client.Get[*corev1.Pod](w.Context(), w.Fake, schema.Key{Namespace: "shop", Name: name})
	if err != nil {
		w.Fatal(err)
	}
	return p
}

func (w *world) create(o schema.Object) {
	w.Helper()
	if _, err := w.Create(w.Context(), schema.ResourceOf(o), o, client.WriteOptions{}); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

func (w *world) delete(o schema.Object) {
	w.Helper()
	none := int64(0)
	if err := w.Delete(w.Context(), schema.ResourceOf(o), schema.KeyOf(o), client.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
		w.Fatal(err)
	}
	synctest.Wait()
}

func condition(p *corev1.Pod) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled {
			return c
		}
	}
	return corev1.PodCondition{}
}

func TestSchedules(t *testing.T) {
	run(t, func(w *world) {
		for i := range 6 {
			w.create(pod(numbered("p", i), asks("500m", "1Mi"), owned("rs")))
		}
		on := map[string]int{}
		for i := range 6 {
			on[w.node(numbered("p", i))]++
		}
		if on["a"] != 2 || on["b"] != 2 || on["c"] != 2 {
			w.Errorf("pods per node: %v, want two on each", on)
		}
		if !w.recorder.has("p-0000 Normal Scheduled: Successfully assigned shop/p-0000 to ") {
			w.Errorf("events: %q", w.recorder.events)
		}
	}, node("a", "1", "1Gi"), node("b", "1", "1Gi"), node("c", "1", "1Gi"))
}

func TestExplainsAndWakes(t *testing.T) {
	run(t, func(w *world) {
		w.create(pod("p", asks("2", "1Mi")))
		const want = "0/1 nodes are available: 1 Insufficient cpu. preemption: 0/1 nodes are available: 1 No preemption victims found for incoming pod."
		c := condition(w.get("p"))
		if c.Status != corev1.ConditionFalse || c.Reason != corev1.PodReasonUnschedulable || c.Message != want {
			w.Errorf("condition %+v", c)
		}
		if !w.recorder.has("p Warning FailedScheduling: " + want) {
			w.Errorf("events: %q", w.recorder.events)
		}

		// A node that does not help, then one that does.
		writes := w.Writes()
		w.Put(node("b", "1", "1Gi"))
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.node("p"); got != "" || w.Writes() != writes+1 {
			w.Errorf("pod on %q after %d writes", got, w.Writes()-writes)
		}
		w.Put(node("c", "4", "1Gi"))
		synctest.Wait()
		if got := w.node("p"); got != "c" {
			w.Errorf("pod on %q, want c", got)
		}
	}, node("a", "1", "1Gi"))
}

func TestRoomByDeletion(t *testing.T) {
	first := pod("first", asks("1", "1Mi"), on("a"))
	run(t, func(w *world) {
		w.create(pod("second", asks("1", "1Mi")))
		time.Sleep(time.Minute)
		if got := w.node("second"); got != "" {
			w.Fatalf("second on %q while first is there", got)
		}
		w.delete(first)
		if got := w.node("second"); got != "a" {
			w.Errorf("second on %q, want a", got)
		}
	}, node("a", "1", "1Gi"), first)
}

func TestRoomByEnd(t *testing.T) {
	first := pod("first", asks("1", "1Mi"), on("a"))
	run(t, func(w *world) {
		w.create(pod("second", asks("1", "1Mi")))
		time.Sleep(time.Minute)
		done := w.get("first").DeepCopy()
		done.Status.Phase = corev1.PodSucceeded
		if _, err := client.UpdateStatus(w.Context(), w.Fake, done); err != nil {
			w.Fatal(err)
		}
		synctest.Wait()
		if got := w.node("second"); got != "a" {
			w.Errorf("second on %q, want a", got)
		}
	}, node("a", "1", "1Gi"), first)
}

func TestRoomByNodeChange(t *testing.T) {
	run(t, func(w *world) {
		w.create(pod("p", asks("2", "1Mi")))
		time.Sleep(time.Minute)
		n := node("a", "4", "1Gi")
		n.Status.Allocatable[corev1.ResourceCPU] = resource.MustParse("4")
		w.Put(n)
		synctest.Wait()
		if got := w.node("p"); got != "a" {
			w.Errorf("pod on %q, want a", got)
		}
	}, node("a", "1", "1Gi"))
}

func TestLeavesOthersAlone(t *testing.T) {
	other := pod("other", func(p *corev1.Pod) { p.Spec.SchedulerName = "someone-else" })
	gated := pod("gated", func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "later"}} })
	run(t, func(w *world) {
		time.Sleep(time.Hour)
		for _, name := range []string{"other", "gated"} {
			if got := w.node(name); got != "" {
				w.Errorf("%s on %q", name, got)
			}
		}
		open := w.get("gated").DeepCopy()
		open.Spec.SchedulingGates = nil
		if _, err := client.Update(w.Context(), w.Fake, open, client.WriteOptions{}); err != nil {
			w.Fatal(err)
		}
		synctest.Wait()
		if got := w.node("gated"); got != "a" {
			w.Errorf("gated on %q after its gate was opened", got)
		}
	}, node("a", "1", "1Gi"), other, gated)
}

// TestBindingFails: a refused binding gives the room back, and the others of
// its batch are bound all the same.
func TestBindingFails(t *testing.T) {
	var objects []schema.Object
	objects = append(objects, node("a", "10", "1Gi"))
	for i := range 10 {
		objects = append(objects, pod(numbered("p", i), asks("1", "1Mi")))
	}
	synctest.Test(t, func(t *testing.T) {
		w := &world{t, client.NewFake(objects...), &recorder{}}
		var mu sync.Mutex
		failures := 0
		w.Reject(func(_ client.Verb, _ *schema.Resource, sub string, o schema.Object) error {
			mu.Lock()
			defer mu.Unlock()
			if sub == "binding" && o.GetName() == "p-0003" && failures < 3 {
				failures++
				return apierrors.NewInternalError(fmt.Errorf("no"))
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		s := New(Config{Client: w.Fake, Cache: w.Cache(), Recorder: w.recorder})
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		for i := range 10 {
			if got := w.node(numbered("p", i)); (got == "a") == (i == 3) {
				t.Errorf("pod %d on %q", i, got)
			}
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if got := w.node("p-0003"); got != "a" {
			t.Errorf("pod 3 on %q after its binding was accepted", got)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
		if n := s.cluster.byName["a"]; n.asked.milliCPU != 10000 || len(n.pods) != 10 {
			t.Errorf("account of the node: %+v with %d pods", n.asked, len(n.pods))
		}
	})
}

func TestPreemptsAndWaits(t *testing.T) {
	run(t, func(w *world) {
		w.create(pod("urgent", priority(100), asks("1", "1Mi")))
		urgent := w.get("urgent")
		if urgent.Status.NominatedNodeName != "a" || urgent.Spec.NodeName != "" {
			w.Errorf("urgent is nominated to %q, bound to %q", urgent.Status.NominatedNodeName, urgent.Spec.NodeName)
		}
		victim := w.get("low")
		if victim.DeletionTimestamp == nil {
			w.Fatal("low was not asked to leave")
		}
		if !w.recorder.has(fmt.Sprintf("low Normal Preempted: Preempted by pod %s on node a", urgent.UID)) {
			w.Errorf("events: %q", w.recorder.events)
		}
		// Somebody else must not take the room.
		w.create(pod("thief", priority(1), asks("1", "1Mi")))
		time.Sleep(20 * time.Second)
		synctest.Wait()
		w.delete(victim)
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if got, thief := w.node("urgent"), w.node("thief"); got != "a" || thief != "" {
			w.Errorf("urgent on %q, thief on %q", got, thief)
		}
	}, node("a", "1", "1Gi"), pod("low", priority(1), asks("1", "1Mi"), on("a")))
}
