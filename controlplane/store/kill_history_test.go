package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/store/killtest"
	"github.com/writ-os/writ/schema"
)

// TestKillHistory kills a process in which six write and four watch, and holds
// what all of them have said, in all its lives, against the one history that
// there may be; see lives.
func TestKillHistory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	h := newLives()
	writes := 0
	killtest.Rounds(t, killtest.Config{Rounds: 20, Steps: 120, Delay: 10 * time.Millisecond}, func(p killtest.Point) {
		h.begin()
		p.Live(t, "history", dir, func(line string) {
			if err := h.hear(line); err != nil {
				t.Fatalf("%q: %v", line, err)
			}
		})
		if err := h.end(); err != nil {
			t.Fatal(err)
		}
		s, stop := open(t, Config{Dir: dir})
		found := map[string]kept{}
		for it := range s.Snapshot(configMaps).All() {
			found[it.Key.Name] = kept{it.Version, it.Object.(*corev1.ConfigMap).Data["v"]}
		}
		if err := h.buried(s.Version(), found); err != nil {
			t.Fatal(err)
		}
		writes += p.Steps
		stop()
	})
	if h.acked < writes || h.events == 0 {
		t.Errorf("%d writes are known to be stored, of %d, and %d events were seen", h.acked, writes, h.events)
	}
	t.Logf("%d writes stored, %d events, %d writes that nobody heard the end of, %d of them stored", h.acked, h.events, h.unknown, h.late)
}

// historyChild says a line before and after all that it does. A line is printed
// whole before the next thing happens, so that the order of the lines is one in
// which the operations may have happened: a write whose beginning comes after
// the end of another is the later one.
func historyChild(m *killtest.Mortal) {
	s := childStore(m)
	var out sync.Mutex
	say := func(format string, args ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	rnd := m.Point.Rand()
	for w := range 4 {
		own := rand.New(rand.NewPCG(rnd.Uint64(), 2))
		go historyWatcher(s, w, own, say)
	}
	for w := range 6 {
		own := rand.New(rand.NewPCG(rnd.Uint64(), 1))
		go historyWriter(m, s, w, own, say)
	}
	select {} // until it is killed
}

// historyWriter writes one to four keys at a time, over what it has read.
func historyWriter(m *killtest.Mortal, s *Store, writer int, rnd *rand.Rand, say func(string, ...any)) {
	for n := 0; ; n++ {
		id := fmt.Sprintf("%d.%d.%d", m.Point.Round, writer, n)
		var writes []Write
		var words []string
		v := s.View()
		for i, k := range rnd.Perm(10)[:1+rnd.IntN(4)] {
			w := Write{Resource: configMaps, Key: key("default", fmt.Sprintf("h%d", k))}
			if it := v.Get(configMaps, w.Key); it != nil {
				w.Expect = it.Version
			}
			value := "-"
			if w.Expect == 0 || rnd.IntN(4) > 0 {
				value = fmt.Sprintf("%s.%d", id, i)
				w.Object = configMap("default", w.Key.Name, value)
			}
			writes = append(writes, w)
			words = append(words, fmt.Sprintf("%s %d %s", w.Key.Name, uint64(w.Expect), value))
		}
		say("begin %s %s", id, strings.Join(words, " "))
		items, err := s.Txn(context.Background(), writes)
		var conflict *ConflictError
		switch {
		case errors.As(err, &conflict):
			say("refused %s", id)
			continue
		case err != nil:
			killtest.Fail(err)
		}
		words = words[:0]
		for _, it := range items {
			words = append(words, fmt.Sprint(uint64(it.Version)))
		}
		say("stored %s %s", id, strings.Join(words, " "))
		m.Step()
	}
}

// historyWatcher says what it begins with and every event. Now and then it goes
// on with another watch, in the middle of a transaction perhaps.
func historyWatcher(s *Store, watcher int, rnd *rand.Rand, say func(string, ...any)) {
	snap := s.Snapshot(configMaps)
	at := snap.Version()
	var words []string
	for it := range snap.All() {
		words = append(words, fmt.Sprintf("%s %d %s", it.Key.Name, uint64(it.Version), it.Object.(*corev1.ConfigMap).Data["v"]))
	}
	say("list %d %d %s", watcher, uint64(at), strings.Join(words, " "))
	for {
		w, err := s.Watch(configMaps, at)
		if err != nil {
			killtest.Fail(err)
		}
		left := 1 + rnd.IntN(100)
	events:
		for batch := range w.Events() {
			for _, e := range batch {
				var prev schema.ResourceVersion
				if e.Prev != nil {
					prev = e.Prev.Version
				}
				value := "-"
				if e.Type != Deleted {
					value = e.Item.Object.(*corev1.ConfigMap).Data["v"]
				}
				at = e.Version()
				say("event %d %s %d %d %s", watcher, e.Item.Key.Name, uint64(prev), uint64(at), value)
				if left--; left == 0 {
					break events
				}
			}
		}
		if left > 0 {
			killtest.Fail(fmt.Errorf("watch ended: %w", w.Err()))
		}
		w.Stop()
		for range w.Events() { //nolint:revive // until it has ended
		}
	}
}
