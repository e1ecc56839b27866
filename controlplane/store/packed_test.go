package store

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-os/writ/schema"
)

// told is all that a watcher may be told of events.
func told(events []*Event) string {
	var b strings.Builder
	for _, e := range events {
		fmt.Fprintf(&b, "%s %v %v\n%s%x\n", e.Type, e.Version(), e.Item.Key, e.JSONFrame(e.Type), e.ProtobufFrame(e.Type))
		if e.Prev != nil {
			fmt.Fprintf(&b, "%v %s %s\n", e.Prev.Version, e.Prev.JSON(), e.Gone().JSON())
		}
	}
	return b.String()
}

// TestPackedEventsTellTheSame: whoever resumes a watch from any version is told the
// same, however often and whenever the log has been packed.
func TestPackedEventsTellTheSame(t *testing.T) {
	s, _ := open(t, Config{})
	rnd := rand.New(rand.NewPCG(1, 2)) //nolint:gosec // a test
	start := s.Version()
	log := s.keys.Load().find(configMaps).log
	var all []*Event
	w, err := s.Follow(configMaps, start)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	live := map[string]*Item{}
	for round := range 300 {
		name := fmt.Sprintf("c-%d", rnd.IntN(12))
		switch it := live[name]; {
		case it == nil:
			live[name] = commit(t, s, create(configMap("default", name, fmt.Sprint(round))))[0]
		case rnd.IntN(3) == 0:
			commit(t, s, Write{Resource: configMaps, Key: it.Key, Expect: it.Version})
			delete(live, name)
		default:
			o := configMap("default", name, fmt.Sprint(round))
			live[name] = commit(t, s, Write{Resource: configMaps, Key: it.Key, Object: o, Expect: it.Version})[0]
		}
		all = append(all, <-w.Events()...)
		if rnd.IntN(10) == 0 { // all is old, or what is there is new
			if err := log.pack(time.Now().Add(time.Duration(rnd.IntN(2)) * time.Minute)); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := told(all)
	if err := log.pack(time.Now().Add(time.Minute)); err != nil {
		t.Fatal(err)
	}
	objects := 0
	for _, e := range log.events {
		if e.packed == nil {
			t.Fatal("an old event is not packed")
		}
		if e.packed.item.live != nil {
			objects++
		}
	}
	if objects > len(live) {
		t.Errorf("the log holds %d objects as they are, and there are %d", objects, len(live))
	}
	for _, from := range []int{0, 1, 150, 299} {
		version := start
		if from > 0 {
			version = all[from-1].Version()
		}
		part, err := s.Between(t.Context(), configMaps, version, s.Version())
		if err != nil || len(part) != 300-from || told(part) != told(all[from:]) {
			t.Errorf("from event %d on something else is told: %d events, %v", from, len(part), err)
		}
		if got := drain(t, s, version, 300-from); told(got) != told(all[from:]) {
			t.Errorf("a watch from event %d on is told something else", from)
		}
	}
	if told(all) != want {
		t.Error("who holds events sees them change")
	}
}

// drain reads so many events of a new watch.
func drain(t *testing.T, s *Store, from schema.ResourceVersion, n int) (out []*Event) {
	t.Helper()
	w, err := s.Watch(configMaps, from)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	for len(out) < n {
		batch, ok := <-w.Events()
		if !ok {
			t.Fatal(w.Err())
		}
		out = append(out, batch...)
	}
	return out
}

// TestPackWhileWatched: packing goes on beside writers and watchers, and beside
// the log forgetting.
func TestPackWhileWatched(t *testing.T) {
	s, _ := open(t, Config{EventLog: 64})
	start := newReplay(s.Snapshot(configMaps))
	w, err := s.Follow(configMaps, s.Version())
	if err != nil {
		t.Fatal(err)
	}
	defer w.Stop()
	log := s.keys.Load().find(configMaps).log
	stop := make(chan struct{})
	var packing sync.WaitGroup
	packing.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
			}
			if err := log.pack(time.Now().Add(time.Minute)); err != nil {
				t.Error(err)
			}
			log.trim(time.Now(), time.Hour)
		}
	})
	floodConfigMaps(t, s, 40)
	err = start.until(w, s.Version())
	close(stop)
	packing.Wait()
	if err != nil || start.n != 400 {
		t.Errorf("got %d of 400 events: %v", start.n, err)
	}
}
