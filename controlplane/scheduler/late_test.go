package scheduler

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// A report that comes late says nothing of a pod that has got its node, and
// nobody has to leave for it: neither where the scheduler itself has bound the
// pod, nor where somebody else has, nor where that happens during the write.
func TestLateReport(t *testing.T) {
	bind := func(f *client.Fake, name string) {
		p, _ := f.Get(context.Background(), podResource, schema.Key{Namespace: "shop", Name: name})
		next := p.(*corev1.Pod).DeepCopy()
		next.Spec.NodeName = "a"
		next.Status.Conditions = []corev1.PodCondition{{Type: corev1.PodScheduled, Status: corev1.ConditionTrue}}
		f.Put(next)
	}
	for _, c := range []struct {
		name string
		set  func(w *writer, f *client.Fake, p *corev1.Pod)
	}{
		{"bound by others", func(_ *writer, f *client.Fake, _ *corev1.Pod) { bind(f, "late") }},
		{"binding on its way", func(w *writer, _ *client.Fake, p *corev1.Pod) {
			w.report(report{pod: p, message: "no", changed: true})
			w.bind(binding{&waiting{podInfo: newPod(p)}, "a"})
		}},
		{"bound during the write", func(w *writer, f *client.Fake, _ *corev1.Pod) {
			w.cfg.Client = &meanwhile{Interface: f, do: func() { bind(f, "late") }}
		}},
		{"bound at the very write", func(w *writer, f *client.Fake, _ *corev1.Pod) {
			w.cfg.Client = &meanwhile{Interface: f, do: func() { bind(f, "late") }, atWrite: true}
		}},
		{"bound, and the cache does not show it", func(w *writer, f *client.Fake, p *corev1.Pod) {
			w.cfg.Cache = client.NewFake(p.DeepCopy()).Cache()
			bind(f, "late")
		}},
		{"ended", func(_ *writer, f *client.Fake, p *corev1.Pod) {
			none := int64(0)
			if err := f.Delete(context.Background(), podResource, schema.KeyOf(p), client.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
				t.Fatal(err)
			}
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			f := client.NewFake(pod("late"), pod("victim", on("a")))
			late, _ := client.Cached[*corev1.Pod](f.Cache(), schema.Key{Namespace: "shop", Name: "late"})
			victim, _ := client.Cached[*corev1.Pod](f.Cache(), schema.Key{Namespace: "shop", Name: "victim"})
			events := &recorder{}
			w := newWriter(Config{Client: f, Cache: f.Cache(), Recorder: events, Log: slog.New(slog.DiscardHandler)}, func(any) {})
			c.set(w, f, late)
			shown := w.waits(late)
			r := report{pod: late, message: "no", changed: true, preemption: preemption{node: newNode("a"), victims: []*corev1.Pod{victim}}}
			w.report(r)
			for w.reportOne(t.Context()) {
			}
			if v, ok := client.Cached[*corev1.Pod](f.Cache(), schema.KeyOf(victim)); !ok || v.DeletionTimestamp != nil {
				t.Error("the victim was asked to leave")
			}
			if p, ok := client.Cached[*corev1.Pod](f.Cache(), schema.KeyOf(late)); ok && (condition(p).Status == corev1.ConditionFalse || p.Status.NominatedNodeName != "") {
				t.Errorf("condition %+v, nominated to %q", condition(p), p.Status.NominatedNodeName)
			}
			if !shown && len(events.events) > 0 {
				t.Errorf("of a pod that is known to wait no more: %q", events.events)
			}
		})
	}
}

// A pod that gets its node while others leave for it lets the rest of them stay.
func TestPlacedWhileVictimsLeave(t *testing.T) {
	f := client.NewFake(pod("late"), pod("first", on("a")), pod("second", on("a")))
	get := func(name string) *corev1.Pod {
		p, _ := client.Cached[*corev1.Pod](f.Cache(), schema.Key{Namespace: "shop", Name: name})
		return p
	}
	place := &leaving{Interface: f, do: func() {
		next := get("late").DeepCopy()
		next.Spec.NodeName = "b"
		f.Put(next)
	}}
	w := newWriter(Config{Client: place, Cache: f.Cache(), Recorder: silent{}, Log: slog.New(slog.DiscardHandler)}, func(any) {})
	w.report(report{pod: get("late"), message: "no", changed: true, preemption: preemption{node: newNode("a"), victims: []*corev1.Pod{get("first"), get("second")}}})
	for w.reportOne(t.Context()) {
	}
	if get("first").DeletionTimestamp == nil {
		t.Error("nobody was asked to leave")
	}
	if p := get("second"); p.DeletionTimestamp != nil || len(p.Status.Conditions) > 0 {
		t.Errorf("the second was asked to leave for a pod that has its node: %+v", p.Status.Conditions)
	}
}

// leaving does something after each deletion.
type leaving struct {
	client.Interface
	do func()
}

func (l *leaving) Delete(ctx context.Context, r *schema.Resource, key schema.Key, d client.DeleteOptions) error {
	err := l.Interface.Delete(ctx, r, key, d)
	l.do()
	return err
}

// meanwhile does something once between a read and the write after it, as early
// or as late as can be.
type meanwhile struct {
	client.Interface
	do      func()
	atWrite bool
	done    atomic.Bool
}

func (m *meanwhile) Patch(ctx context.Context, r *schema.Resource, key schema.Key, t types.PatchType, data []byte, o client.WriteOptions) (schema.Object, error) {
	if m.atWrite && m.done.CompareAndSwap(false, true) {
		m.do()
	}
	return m.Interface.Patch(ctx, r, key, t, data, o)
}

func (m *meanwhile) Get(ctx context.Context, r *schema.Resource, key schema.Key) (schema.Object, error) {
	o, err := m.Interface.Get(ctx, r, key)
	if !m.atWrite && m.done.CompareAndSwap(false, true) {
		m.do()
	}
	return o, err
}

// A victim that cannot be deleted is tried again and said: the pod is not left
// waiting for room that nobody makes.
func TestRefusedPreemption(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &world{t, client.NewFake(node("a", "1", "1Gi"), pod("low", priority(1), asks("1", "1Mi"), on("a"))), &recorder{}}
		refused := 0
		w.Reject(func(v client.Verb, r *schema.Resource, _ string, o schema.Object) error {
			if v == client.VerbDelete && o.GetName() == "low" && refused < 3 {
				refused++
				return apierrors.NewForbidden(r.GroupResource(), "low", errors.New("not now"))
			}
			return nil
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		s := New(Config{Client: w.Fake, Cache: w.Cache(), Recorder: w.recorder})
		go func() { done <- s.Run(ctx) }()
		synctest.Wait()
		w.create(pod("urgent", priority(100), asks("1", "1Mi")))
		time.Sleep(20 * time.Second)
		synctest.Wait()
		if low := w.get("low"); refused != 3 || low.DeletionTimestamp == nil {
			t.Errorf("after %d refusals low is still there", refused)
		}
		if !w.recorder.has("urgent Warning FailedScheduling: preemption: delete pod shop/low") {
			t.Errorf("events: %q", w.recorder.events)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// A pod that is to get less counts with what it has until the node has taken
// that away, and with the less from then on.
func TestShrinkInPlace(t *testing.T) {
	run(t, func(w *world) {
		shrink := func(change func(*corev1.Pod)) {
			p := w.get("big").DeepCopy()
			change(p)
			w.Put(p)
			synctest.Wait()
		}
		list := func(cpu string) corev1.ResourceList {
			return corev1.ResourceList{corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse("1Mi")}
		}
		w.create(pod("small", asks("500m", "1Mi")))
		shrink(func(p *corev1.Pod) {
			p.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "c", AllocatedResources: list("1"), Resources: &corev1.ResourceRequirements{Requests: list("1")}}}
		})
		shrink(func(p *corev1.Pod) { // asked for and granted
			p.Generation++
			p.Spec.Containers[0].Resources.Requests = list("500m")
			p.Status.ContainerStatuses[0].AllocatedResources = list("500m")
		})
		time.Sleep(time.Minute)
		if got := w.node("small"); got != "" {
			w.Errorf("small is on %q before the node has shrunk the other", got)
		}
		shrink(func(p *corev1.Pod) { p.Status.ContainerStatuses[0].Resources.Requests = list("500m") })
		time.Sleep(time.Minute)
		if got := w.node("small"); got != "a" {
			w.Errorf("small is on %q after the node has shrunk the other", got)
		}
	}, node("a", "1", "1Gi"), pod("big", asks("1", "1Mi"), on("a")))
}

// One slot that becomes free wakes one of many pods that are alike, and as soon
// as that one does not take it another.
func TestOneSlotWakesOne(t *testing.T) {
	for _, gone := range []bool{false, true} {
		t.Run(fmt.Sprint("gone ", gone), func(t *testing.T) {
			objects := []schema.Object{node("a", "1", "1Gi"), pod("first", asks("1", "1Mi"), on("a"))}
			for i := range 50 {
				objects = append(objects, pod(numbered("p", i), asks("1", "1Mi")))
			}
			synctest.Test(t, func(t *testing.T) {
				w := &world{t, client.NewFake(objects...), &recorder{}}
				ctx, cancel := context.WithCancel(t.Context())
				done := make(chan error)
				s := New(Config{Client: w.Fake, Cache: w.Cache(), Recorder: w.recorder})
				go func() { done <- s.Run(ctx) }()
				time.Sleep(30 * time.Second)
				synctest.Wait()
				before := attempts(t, s)
				w.delete(w.get("first"))
				if gone { // whoever got it gives it back at once
					for i := range 50 {
						if w.node(numbered("p", i)) == "a" {
							w.delete(w.get(numbered("p", i)))
							break
						}
					}
				}
				time.Sleep(30 * time.Second)
				synctest.Wait()
				placed := 0
				for i := range 50 {
					if o, ok := client.Cached[*corev1.Pod](w.Cache(), schema.Key{Namespace: "shop", Name: numbered("p", i)}); ok && o.Spec.NodeName == "a" {
						placed++
					}
				}
				if n := attempts(t, s) - before; placed != 1 || n > 4 {
					t.Errorf("%d placed after %d more attempts", placed, n)
				}
				cancel()
				if err := <-done; err != nil {
					t.Error(err)
				}
			})
		})
	}
}

// attempts is how often pods have been tried.
func attempts(t *testing.T, s *Scheduler) (n int) {
	t.Helper()
	reg := prometheus.NewRegistry()
	reg.MustRegister(s.metrics.attempts)
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all[0].GetMetric() {
		n += int(m.GetCounter().GetValue())
	}
	return n
}

// Pods that no node will ever take are tried again each five minutes in case an
// event was not understood; in a month nothing is written about them after the
// first time, and nothing spins.
func TestUnschedulableMonth(t *testing.T) {
	objects := []schema.Object{node("a", "1", "1Gi"), node("b", "1", "1Gi", cordoned), pod("low", priority(1), asks("1", "1Mi"), on("a"))}
	for i := range 3 {
		objects = append(objects, pod(numbered("large", i), priority(5), asks("64", "1Gi")), pod(numbered("bound-to", i), onlyNode("gone")), pod(numbered("same", i), priority(1), asks("1", "1Mi")))
	}
	synctest.Test(t, func(t *testing.T) {
		w := &world{t, client.NewFake(objects...), &recorder{}}
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		s := New(Config{Client: w.Fake, Cache: w.Cache(), Recorder: w.recorder})
		go func() { done <- s.Run(ctx) }()
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		writes := w.Writes()
		for range 29 * 24 { // a node that says each hour that it is there
			n, _ := client.Cached[*corev1.Node](w.Cache(), schema.Key{Name: "a"})
			beat := n.DeepCopy()
			beat.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, LastHeartbeatTime: metav1.Now()}}
			w.Put(beat)
			time.Sleep(time.Hour)
		}
		synctest.Wait()
		if n := w.Writes() - writes - 29*24; n > 0 {
			t.Errorf("%d writes after the first day", n)
		}
		if n := attempts(t, s); n > 9*(30*24*12+10) {
			t.Errorf("%d attempts at 9 pods in a month", n)
		}
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}
