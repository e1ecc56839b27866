package client

import (
	"context"
	"errors"
	"fmt"
	goruntime "runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/schema"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func podNamed(name string) *corev1.Pod {
	return &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: "uid"}}
}

// recording runs a recorder in a bubble.
func recording(t *testing.T, f *Fake) *Recorder {
	r := NewRecorder(f, "tester", "host1")
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("run: %v", err)
		}
	})
	return r
}

func events(f *Fake) []*corev1.Event { return CachedList[*corev1.Event](f.Cache(), "") }

func TestEventsAreCounted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFake()
		r := recording(t, f)
		begin := time.Now()
		for range 5 {
			r.Eventf(podNamed("p"), corev1.EventTypeWarning, "BackOff", "Back-off restarting %s", "c")
			time.Sleep(time.Minute)
		}
		all := events(f)
		if len(all) != 1 {
			t.Fatalf("%d events", len(all))
		}
		e := all[0]
		if e.Count != 5 || !e.FirstTimestamp.Time.Equal(begin.Truncate(time.Second)) || !e.LastTimestamp.Time.Equal(begin.Add(4*time.Minute).Truncate(time.Second)) {
			t.Errorf("count %d, from %v to %v", e.Count, e.FirstTimestamp, e.LastTimestamp)
		}
		if e.InvolvedObject.Kind != "Pod" || e.InvolvedObject.APIVersion != "v1" || e.Source.Component != "tester" || e.Source.Host != "host1" || e.Type != "Warning" || e.Message != "Back-off restarting c" {
			t.Errorf("event: %+v", e)
		}
	})
}

// Many messages of one reason become one event that says so.
func TestEventsAreCombined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFake()
		r := recording(t, f)
		for i := range 15 {
			r.Event(podNamed("p"), corev1.EventTypeNormal, "SuccessfulCreate", fmt.Sprintf("Created pod: p-%d", i))
			time.Sleep(time.Millisecond)
		}
		synctest.Wait()
		all := events(f)
		if len(all) != 10 {
			t.Fatalf("%d events for 15 messages", len(all))
		}
		most := int32(0)
		for _, e := range all {
			most = max(most, e.Count)
		}
		if most != 6 {
			t.Errorf("combined %d times", most)
		}
	})
}

// Who talks too much about one object is cut short, and only there.
func TestSpamIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFake()
		r := recording(t, f)
		for i := range 60 {
			r.Event(podNamed("p"), corev1.EventTypeNormal, fmt.Sprintf("Reason%d", i), "m")
		}
		r.Event(podNamed("q"), corev1.EventTypeNormal, "Other", "m")
		synctest.Wait()
		if n := len(events(f)); n != 26 {
			t.Errorf("%d events, want a burst of 25 and the other pod's", n)
		}
	})
}

// A server that is away for a while loses nothing that fits in the queue, and
// nobody waits for it.
func TestServerAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := NewFake()
		var away atomic.Bool
		away.Store(true)
		f.Reject(func(Verb, *schema.Resource, string, schema.Object) error {
			if away.Load() {
				return errors.New("connection refused")
			}
			return nil
		})
		r := recording(t, f)
		for i := range recorderQueue + 10 {
			r.Event(podNamed(fmt.Sprintf("p%d", i)), corev1.EventTypeNormal, "Started", "m")
		}
		if n := r.Dropped(); n < 5 || n > 10 {
			t.Errorf("%d dropped", n)
		}
		time.Sleep(20 * time.Second)
		away.Store(false)
		time.Sleep(20 * time.Second)
		if n := len(events(f)); n < recorderQueue {
			t.Errorf("%d events", n)
		}
	})
}

func TestNoRecorder(*testing.T) {
	var r *Recorder
	r.Eventf(podNamed("p"), corev1.EventTypeNormal, "Started", "m")
}

// What a node remembers of its events is bounded by what a node has, and recorders
// of many hosts in one process remember together: each still counts its own up.
func TestWhatARecorderRemembers(t *testing.T) {
	heap := func() uint64 {
		goruntime.GC()
		var m goruntime.MemStats
		goruntime.ReadMemStats(&m)
		return m.HeapAlloc
	}
	grown := func(r *Recorder, n int) int64 {
		before := heap()
		for i := range n {
			ref := corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: fmt.Sprint("p-", i), UID: types.UID(fmt.Sprint("uid-", i))}
			if _, err := r.correlator.EventCorrelate(r.newEvent(ref, corev1.EventTypeNormal, "Started", "Started container main")); err != nil {
				t.Fatal(err)
			}
		}
		after := int64(heap()) - int64(before)
		goruntime.KeepAlive(r)
		return after
	}
	if n := grown(NewRecorder(nil, "kubelet", "n1"), 5000); n > 2<<20 {
		t.Errorf("a node remembers %d KiB of its events", n>>10)
	}
	shared := NewRecorder(nil, "kubelet", "")
	one, two := shared.Of("kubelet", "n1"), shared.Of("kubelet", "n2")
	if one.correlator != two.correlator {
		t.Error("each remembers by itself")
	}
	for _, r := range []*Recorder{one, two} {
		for i := range 2 {
			got, err := r.correlator.EventCorrelate(r.newEvent(ReferenceTo(podNamed("p")), corev1.EventTypeNormal, "Pulled", "x"))
			if err != nil || got.Event.Count != int32(i+1) || got.Event.Source.Host != r.source.Host {
				t.Errorf("event %d of %s: count %d of host %q, %v", i, r.source.Host, got.Event.Count, got.Event.Source.Host, err)
			}
		}
	}
}
