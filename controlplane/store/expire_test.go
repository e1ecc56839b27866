package store

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/writ-os/writ/schema"
)

func occurrence(ns, name string, at time.Time) *corev1.Event {
	return &corev1.Event{
		TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:     metav1.ObjectMeta{Namespace: ns, Name: name, CreationTimestamp: metav1.NewTime(at)},
		InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: ns, Name: "p", UID: "8d3c"},
		Reason:         "Scheduled", Message: "Successfully assigned default/p to node-1, which is as long as such a message is", Type: "Normal", Count: 1,
	}
}

// Events end when their time is over, unless they were seen again, and watchers
// hear of it.
func TestEventsExpire(t *testing.T) {
	t.Parallel()
	s, _ := open(t, Config{EventTTL: time.Hour, expireEvery: 20 * time.Millisecond})
	events := schema.ResourceFor[*corev1.Event]()
	now := time.Now()
	again := occurrence("default", "again", now.Add(-2*time.Hour))
	again.LastTimestamp = metav1.NewTime(now)
	w, err := s.Watch(events, s.Version())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	commit(t, s, create(occurrence("default", "old", now.Add(-61*time.Minute))), create(occurrence("default", "new", now.Add(-59*time.Minute))), create(again))
	for gone := false; !gone; {
		for _, e := range <-w.Events() {
			if e.Type == Deleted {
				gone = true
				if e.Item.Key.Name != "old" {
					t.Errorf("%v was deleted", e.Item.Key)
				}
			}
		}
	}
	if n := s.Snapshot(events).Len(); n != 2 {
		t.Errorf("%d events are left", n)
	}
}

// However many Events are written, the store holds no more than its bound, and
// neither memory nor the database grows.
func TestEventsAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("writes 60,000 events")
	}
	const most, perRound = 2000, 10_000
	s, _ := open(t, Config{MaxEvents: most, expireEvery: 20 * time.Millisecond, EventLog: 512, EventAge: 100 * time.Millisecond})
	events := schema.ResourceFor[*corev1.Event]()
	var used, heap [6]int64
	for round := range used {
		for i := range perRound / 20 { // etcd keeps the last thousand transactions in memory
			var writes []Write
			for j := range 20 {
				writes = append(writes, create(occurrence("default", fmt.Sprintf("e-%d-%d-%d", round, i, j), time.Now())))
			}
			commit(t, s, writes...)
		}
		eventually(t, time.Minute, func() error {
			if n := s.Snapshot(events).Len(); n > most {
				return fmt.Errorf("%d events, want %d at most", n, most)
			}
			return nil
		})
		if err := s.compact(t.Context(), s.Version().Main()); err != nil {
			t.Fatal(err)
		}
		eventually(t, time.Minute, func() error { // compaction goes on beside
			s.etcd.Backend().ForceCommit()
			if used[round] = s.etcd.Backend().SizeInUse(); used[round] > 12<<20 {
				return fmt.Errorf("%d bytes in use", used[round])
			}
			return nil
		})
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		heap[round] = int64(m.HeapAlloc)
	}
	t.Logf("after each %d events: %d bytes of the database in use, %d of heap", perRound, used, heap)
	if heap[5] > heap[3]*3/2 || used[5] > 2*used[2] {
		t.Error("it grows")
	}
}

// The share of a namespace is not taken by another one.
func TestExpired(t *testing.T) {
	now := time.Now()
	var all []mortal
	add := func(ns string, n int) {
		for i := range n {
			all = append(all, mortal{schema.Key{Namespace: ns, Name: fmt.Sprint(i)}, schema.ResourceVersion(i), now.Add(time.Duration(i-n) * time.Second)})
		}
	}
	add("noisy", 500)
	add("quiet", 10)
	add("other", 45)
	left := map[string]int{"noisy": 500, "quiet": 10, "other": 45}
	for _, m := range expired(all, now, 0, 100) {
		left[m.key.Namespace]--
		if m.key.Namespace == "noisy" && now.Sub(m.last) < 40*time.Second {
			t.Errorf("%v is not among the oldest", m.key)
		}
	}
	if left["quiet"] != 10 || left["other"] < 42 || left["noisy"] < 42 || left["noisy"]+left["other"]+left["quiet"] > 95 {
		t.Errorf("left: %v", left)
	}
	if got := expired(all, now, 0, 555); len(got) != 0 {
		t.Errorf("%d go where all fit", len(got))
	}
	if got := expired(all, now, 100*time.Second, 10_000); len(got) != 401 {
		t.Errorf("%d are 100 s old", len(got))
	}
}
