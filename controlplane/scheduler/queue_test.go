package scheduler

import (
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// popped returns the names of what the queue gives now, in order.
func popped(q *queue) []string {
	var names []string
	for w := q.pop(time.Now()); w != nil; w = q.pop(time.Now()) {
		names = append(names, w.key.Name)
	}
	return names
}

func wantPopped(t *testing.T, q *queue, want ...string) {
	t.Helper()
	got := popped(q)
	if len(got) != len(want) {
		t.Fatalf("popped %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("popped %v, want %v", got, want)
		}
	}
}

func TestQueueOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.add(pendingOf(t, pod("first")), time.Now())
		q.add(pendingOf(t, pod("same-time")), time.Now())
		time.Sleep(time.Millisecond)
		q.add(pendingOf(t, pod("later")), time.Now())
		q.add(pendingOf(t, pod("urgent", priority(1000))), time.Now())
		q.add(pendingOf(t, pod("gone")), time.Now())
		q.remove(pendingOf(t, pod("gone")).key)
		wantPopped(t, q, "urgent", "first", "same-time", "later")
	})
}

func TestQueueBackoff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.add(pendingOf(t, pod("p")), time.Now())
		for _, want := range []time.Duration{time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 10 * time.Second, 10 * time.Second} {
			w := q.pop(time.Now())
			if w == nil {
				t.Fatalf("nothing to pop before a back-off of %s", want)
			}
			q.retry(w, time.Now())
			next, ok := q.next()
			if !ok || time.Until(next) != want {
				t.Fatalf("back-off %s, want %s", time.Until(next), want)
			}
			time.Sleep(want - time.Millisecond)
			wantPopped(t, q)
			time.Sleep(time.Millisecond)
		}
	})
}

func TestQueueWakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		for _, name := range []string{"small", "large"} {
			q.add(pendingOf(t, pod(name)), time.Now())
			q.refused(q.pop(time.Now()), time.Now())
		}
		wantPopped(t, q)
		if n := q.count(unschedulable); n != 2 {
			t.Fatalf("%d unschedulable, want 2", n)
		}

		// An event soon after the attempt: the back-off is waited out.
		q.wake(time.Now(), func(p *podInfo) bool { return p.key.Name == "small" }, func(*waiting) bool { return true })
		wantPopped(t, q)
		time.Sleep(time.Second)
		wantPopped(t, q, "small")

		// An event long after: at once.
		time.Sleep(time.Minute)
		q.wake(time.Now(), func(*podInfo) bool { return true }, func(*waiting) bool { return true })
		wantPopped(t, q, "large")
	})
}

func TestQueueTriesStalePods(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.add(pendingOf(t, pod("p")), time.Now())
		q.refused(q.pop(time.Now()), time.Now())
		time.Sleep(stale - time.Second)
		wantPopped(t, q)
		time.Sleep(time.Second)
		wantPopped(t, q, "p")
	})
}

func TestQueueTakesChangedPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		q := newQueue()
		q.add(pendingOf(t, pod("p", asks("8", "1Gi"))), time.Now())
		w := q.pop(time.Now())
		q.refused(w, time.Now())
		q.add(pendingOf(t, pod("p", asks("1", "1Gi"))), time.Now())
		if got := q.pop(time.Now()); got != w || got.asked.milliCPU != 1000 || got.attempts != 2 {
			t.Fatalf("popped %+v", got)
		}

		// Another pod of the name starts anew, and the old one's failed
		// binding does not put it back.
		other := pod("p")
		other.UID = "other"
		q.add(pendingOf(t, other), time.Now())
		q.retry(w, time.Now())
		got := q.pop(time.Now())
		if got == nil || got.pod.UID != other.UID || got.attempts != 1 {
			t.Fatalf("popped %+v", got)
		}
		wantPopped(t, q)
	})
}

func TestPreempt(t *testing.T) {
	low, mid := priority(1), priority(5)
	never := corev1.PreemptNever
	full := []*corev1.Pod{
		pod("a1", on("a"), low, asks("1", "1Mi")), pod("a2", on("a"), mid, asks("1", "1Mi")),
		pod("b1", on("b"), low, asks("500m", "1Mi")), pod("b2", on("b"), low, asks("500m", "1Mi")), pod("b3", on("b"), priority(100), asks("1", "1Mi")),
		pod("c1", on("c"), priority(100), asks("2", "1Mi")),
	}
	for _, tt := range []struct {
		name    string
		pod     *corev1.Pod
		node    string
		victims []string
		text    string
	}{
		{"one small pod leaves", pod("p", priority(10), asks("500m", "1Mi")), "a", []string{"a1"}, ""},
		{"no more than needed", pod("p", priority(10), asks("1", "1Mi")), "a", []string{"a1"}, ""},
		{"the least important go", pod("p", priority(10), asks("1500m", "1Mi")), "a", []string{"a2", "a1"}, ""},
		{"nobody is less important", pod("p", priority(1), asks("1", "1Mi")), "", nil, "0/3 nodes are available: 3 No preemption victims found for incoming pod."},
		{"larger than any node", pod("p", priority(1000), asks("4", "1Mi")), "", nil, "0/3 nodes are available: 3 No preemption victims found for incoming pod."},
		{"may not", pod("p", priority(10), asks("1", "1Mi"), func(p *corev1.Pod) { p.Spec.PreemptionPolicy = &never }), "", nil, "not eligible due to preemptionPolicy=Never."},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c := clusterOf(t, node("a", "2", "1Gi"), node("b", "2", "1Gi"), node("c", "2", "1Gi"))
			for _, p := range full {
				c.setPod(p)
			}
			p := pendingOf(t, tt.pod)
			d := (&decider{}).decide(p, c.nodes, 0)
			if d.node != nil {
				t.Fatalf("fits on %s", d.node.name)
			}
			before := c.byName["a"].asked
			got := preempt(p, d.refusal, c)
			if after := c.byName["a"].asked; !reflect.DeepEqual(after, before) || len(c.byName["a"].pods) != 2 {
				t.Errorf("the account of the node has changed")
			}
			name := ""
			if got.node != nil {
				name = got.node.name
			}
			var victims []string
			for _, v := range got.victims {
				victims = append(victims, v.Name)
			}
			if name != tt.node || got.text != tt.text || len(victims) != len(tt.victims) {
				t.Fatalf("got %q %v %q, want %q %v %q", name, victims, got.text, tt.node, tt.victims, tt.text)
			}
			for i := range victims {
				if victims[i] != tt.victims[i] {
					t.Errorf("victims %v, want %v", victims, tt.victims)
				}
			}
		})
	}
}
