package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/schema"
)

// replay follows a watch from a snapshot and checks every event against the
// state that the events before it have made.
type replay struct {
	have map[schema.Key]schema.ResourceVersion
	last schema.ResourceVersion
	n    int
}

func newReplay(s Snapshot) *replay {
	r := &replay{have: map[schema.Key]schema.ResourceVersion{}, last: s.Version()}
	for it := range s.All() {
		r.have[it.Key] = it.Version
	}
	return r
}

func (r *replay) apply(e *Event) error {
	v, had := r.have[e.Item.Key]
	switch {
	case e.Version() <= r.last:
		return fmt.Errorf("event %v of %v after %v: doubled or out of order", e.Version(), e.Item.Key, r.last)
	case (e.Type == Added) == had:
		return fmt.Errorf("%s of %v, which is there: %v", e.Type, e.Item.Key, had)
	case had && e.Prev.Version != v:
		return fmt.Errorf("%s of %v from %v, but it was %v: an event is lost", e.Type, e.Item.Key, e.Prev.Version, v)
	case e.Item.Object.GetResourceVersion() != e.Version().String():
		return fmt.Errorf("event %v shows an object of version %s", e.Version(), e.Item.Object.GetResourceVersion())
	}
	r.last, r.n = e.Version(), r.n+1
	if e.Type == Deleted {
		delete(r.have, e.Item.Key)
	} else {
		r.have[e.Item.Key] = e.Version()
	}
	return nil
}

// until reads a watch until it has reached a version.
func (r *replay) until(w *Watch, v schema.ResourceVersion) error {
	timeout := time.After(20 * time.Second)
	for r.last < v {
		select {
		case batch, ok := <-w.Events():
			if !ok {
				return fmt.Errorf("watch ended at %v: %w", r.last, w.Err())
			}
			for _, e := range batch {
				if err := r.apply(e); err != nil {
					return err
				}
			}
		case <-timeout:
			return fmt.Errorf("nothing comes after %v, want %v", r.last, v)
		}
	}
	return nil
}

// TestWatchOrder has writers and watchers that come and go at the same time.
func TestWatchOrder(t *testing.T) {
	s, _ := open(t, Config{})
	const writers, txns = 6, 60
	stop := make(chan struct{})
	var writing, watching sync.WaitGroup
	for i := range writers {
		writing.Add(1)
		go func() {
			defer writing.Done()
			rnd := rand.New(rand.NewPCG(uint64(i), 1))
			for n := range txns {
				writeRandom(t, s, rnd, n)
			}
		}()
	}
	for range 4 {
		watching.Add(1)
		go func() {
			defer watching.Done()
			for {
				if err := watchSome(s); err != nil {
					t.Error(err)
					return
				}
				select {
				case <-stop:
					return
				default:
				}
			}
		}()
	}
	first := newReplay(s.Snapshot(configMaps))
	w, err := s.Watch(configMaps, first.last)
	if err != nil {
		t.Fatal(err)
	}
	writing.Wait()
	close(stop)
	watching.Wait()
	commit(t, s, create(configMap("default", "the-end", "")))
	if err := first.until(w, s.Version()); err != nil {
		t.Fatal(err)
	}
	if got := versions(s, configMaps); len(got) != len(first.have) {
		t.Errorf("events leave %d objects, the store has %d", len(first.have), len(got))
	}
	if first.n < writers*txns {
		t.Errorf("%d events of %d transactions", first.n, writers*txns)
	}
}

// writeRandom writes some keys that others write too; conflicts are part of it.
func writeRandom(t *testing.T, s *Store, rnd *rand.Rand, n int) {
	var writes []Write
	for _, i := range rnd.Perm(20)[:1+rnd.IntN(8)] {
		name := fmt.Sprintf("c%d", i)
		w := Write{Resource: configMaps, Key: key("default", name), Object: configMap("default", name, fmt.Sprint(n))}
		if it := s.Get(configMaps, w.Key); it != nil {
			w.Expect = it.Version
			if rnd.IntN(3) == 0 {
				w.Object = nil
			}
		}
		writes = append(writes, w)
	}
	_, err := s.Txn(t.Context(), writes)
	var c *ConflictError
	if err != nil && !errors.As(err, &c) {
		t.Error(err)
	}
}

// watchSome lists, watches for a little while, and resumes in the middle.
func watchSome(s *Store) error {
	snap := s.Snapshot(configMaps)
	r := newReplay(snap)
	for range 3 {
		w, err := s.Watch(configMaps, r.last)
		if err != nil {
			return err
		}
		select {
		case batch := <-w.Events():
			for i, e := range batch {
				if i > len(batch)/2 {
					break // resume between two events of one transaction
				}
				if err := r.apply(e); err != nil {
					w.Stop()
					return err
				}
			}
		case <-time.After(2 * time.Millisecond):
		}
		w.Stop()
		for range w.Events() { // until it has ended
		}
	}
	return nil
}

// floodConfigMaps stores n transactions of ten objects.
func floodConfigMaps(t *testing.T, s *Store, n int) {
	t.Helper()
	for i := range n {
		var w []Write
		for j := range 10 {
			w = append(w, create(configMap("default", fmt.Sprintf("flood-%d-%d", i, j), "")))
		}
		commit(t, s, w...)
	}
}

func TestSlowWatchIsCutOff(t *testing.T) {
	s, _ := open(t, Config{EventLog: 8})
	slow, err := s.Watch(configMaps, s.Version())
	if err != nil {
		t.Fatal(err)
	}
	commit(t, s, manyConfigMaps(1)...)
	first := <-slow.Events()
	if len(first) != 1 {
		t.Fatalf("%d events, want 1", len(first))
	}
	floodConfigMaps(t, s, 40)
	n := 1
	for batch := range slow.Events() {
		n += len(batch)
	}
	if !errors.Is(slow.Err(), ErrExpired) || n >= 401 {
		t.Errorf("slow watch got %d events and ended with %v, want ErrExpired", n, slow.Err())
	}
	if _, err := s.Watch(configMaps, first[0].Version()); !errors.Is(err, ErrExpired) {
		t.Errorf("watch from a forgotten version: %v, want ErrExpired", err)
	}
	if _, err := s.Watch(configMaps, s.Version()); err != nil {
		t.Errorf("watch from now: %v", err)
	}
}

func TestFollowGetsAll(t *testing.T) {
	s, _ := open(t, Config{EventLog: 8})
	start := newReplay(s.Snapshot(configMaps))
	w, err := s.Follow(configMaps, s.Version())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	floodConfigMaps(t, s, 40)
	s.keys.Load().find(configMaps).log.trim(time.Now().Add(time.Hour), 0)
	if err := start.until(w, s.Version()); err != nil || start.n != 400 {
		t.Errorf("got %d of 400 events: %v", start.n, err)
	}
	commit(t, s, manyConfigMaps(20)...)
	if err := start.until(w, s.Version()); err != nil {
		t.Error(err)
	}
	if l := s.keys.Load().find(configMaps).log; len(l.events) > 30 {
		t.Errorf("%d events are kept although all have been received", len(l.events))
	}
}

func TestProgress(t *testing.T) {
	s, _ := open(t, Config{})
	w, err := s.Watch(configMaps, s.Version())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	before := w.Progress()
	commit(t, s, create(namespace("other"))) // another resource: no event here
	if got := waitProgress(t, w, s.Version()); got <= before {
		t.Errorf("progress is %v after a write elsewhere, was %v", got, before)
	}
	at := w.Progress()
	commit(t, s, create(configMap("default", "a", "")))
	if got := w.Progress(); got != at {
		t.Errorf("progress is %v before the event was received, was %v", got, at)
	}
	e := <-w.Events()
	if got := waitProgress(t, w, e[0].Version()); got != s.Version() {
		t.Errorf("progress is %v, want %v", got, s.Version())
	}
}

// waitProgress waits for what the goroutine of the watch does after it has
// handed over a batch.
func waitProgress(t *testing.T, w *Watch, v schema.ResourceVersion) schema.ResourceVersion {
	t.Helper()
	for range 2000 {
		if p := w.Progress(); p >= v {
			return p
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("progress stays at %v, want %v", w.Progress(), v)
	return 0
}

// TestStateBeforeEvent: who is woken by an event finds its object.
func TestStateBeforeEvent(t *testing.T) {
	s, _ := open(t, Config{})
	w, err := s.Watch(configMaps, s.Version())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	done := make(chan struct{})
	defer func() { <-done }()
	go func() {
		defer close(done)
		for i := range 200 {
			if _, err := s.Txn(t.Context(), []Write{create(configMap("default", fmt.Sprintf("c%d", i), ""))}); err != nil {
				t.Error(err)
			}
		}
	}()
	for n := 0; n < 200; {
		for _, e := range <-w.Events() {
			n++
			if it := s.Get(configMaps, e.Item.Key); it == nil || it.Version < e.Version() {
				t.Fatalf("the event of %v came before its state", e.Item.Key)
			}
		}
	}
}

// TestViewIsWhole: a reader sees both halves of a transaction or none, across
// resources.
func TestViewIsWhole(t *testing.T) {
	s, _ := open(t, Config{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 150 {
			_, err := s.Txn(t.Context(), []Write{
				{Resource: configMaps, Key: key("a", "c"), Object: configMap("a", "c", fmt.Sprint(i)), Unconditional: true},
				{Resource: pods, Key: key("a", "p"), Object: pod("a", "p", fmt.Sprint(i), "o"), Unconditional: true},
			})
			if err != nil {
				t.Error(err)
			}
		}
	}()
	for {
		v := s.View()
		c, p := v.Get(configMaps, key("a", "c")), v.Get(pods, key("a", "p"))
		if (c == nil) != (p == nil) {
			t.Fatal("half a transaction is visible")
		}
		if c != nil && c.Object.(*corev1.ConfigMap).Data["v"] != p.Object.(*corev1.Pod).Spec.NodeName {
			t.Fatalf("view %v mixes two transactions", v.Version())
		}
		select {
		case <-done:
			return
		default:
		}
	}
}

func TestEventFrames(t *testing.T) {
	s, _ := open(t, Config{})
	w, err := s.Watch(pods, s.Version())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	one := commit(t, s, create(pod("a", "p", "", "o")))[0]
	commit(t, s, Write{Resource: pods, Key: one.Key, Expect: one.Version, Object: pod("a", "p", "n1", "o")})
	var got []*Event
	for len(got) < 2 {
		got = append(got, <-w.Events()...)
	}
	e := got[1]
	if e.Type != Modified || e.Prev != one {
		t.Fatalf("second event is %s from %v", e.Type, e.Prev)
	}
	want := `{"type":"ADDED","object":` + string(e.Item.JSON()) + "}\n"
	if f := string(e.JSONFrame(Added)); f != want {
		t.Errorf("JSON frame is %s", f)
	}
	for _, frame := range []func() []byte{
		func() []byte { return e.JSONFrame(Added) },
		func() []byte { return e.ProtobufFrame(Modified) },
	} {
		if first, again := frame(), frame(); &first[0] != &again[0] {
			t.Error("frames are encoded for each watcher")
		}
	}
	gone := e.Gone()
	if gone.Version != e.Version() || gone.Object.(*corev1.Pod).Spec.NodeName != "" || one.Object.GetResourceVersion() != one.Version.String() {
		t.Errorf("Gone is not the state before with the version of the event: %v", gone.Object)
	}
}
