package store

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/store/killtest"
	"github.com/writ-os/writ/schema"
)

// TestHistory lets writers and watchers loose on a store, in several lives of
// it, and holds what each has seen against the one history that there was.
//
// Every write is conditional on the version that its writer has read, so the
// writes of a key that succeeded form one chain. Every watcher begins at a
// random version that somebody has seen; what it gets must be that chain from
// there on: none lost, none twice, none out of order, each with the state before
// it. At the end all of them hold what the store holds.
func TestHistory(t *testing.T) {
	seed := killtest.Seed(t)
	dir := t.TempDir()
	h := &history{chain: map[schema.Key][]write{}}
	for life := range 3 {
		s, stop := open(t, Config{Dir: dir, EventLog: 1 << 16})
		h.live(t, s, rand.New(rand.NewPCG(seed, uint64(life))))
		stop()
	}
	h.check(t)
}

// write is one that succeeded: a value, or a deletion.
type write struct {
	version schema.ResourceVersion
	value   string // "" deleted
	prev    schema.ResourceVersion
}

// leastWrites of a life are enough to have something to check.
const leastWrites = 100

type history struct {
	mu    sync.Mutex
	chain map[schema.Key][]write
	n     int // writes in all
	until time.Time
	least int
}

func (h *history) add(k schema.Key, w write) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.chain[k] = append(h.chain[k], w)
	h.n++
}

func (h *history) len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.n
}

// goesOn says whether a life is neither long enough nor has seen enough.
func (h *history) goesOn() bool { return time.Now().Before(h.until) || h.len() < h.least }

// live runs one life of the store.
func (h *history) live(t *testing.T, s *Store, rnd *rand.Rand) {
	h.until, h.least = time.Now().Add(400*time.Millisecond), h.len()+leastWrites
	var writers, watchers sync.WaitGroup
	stopped := make(chan schema.ResourceVersion)
	var end schema.ResourceVersion
	for range 6 {
		own := rand.New(rand.NewPCG(rnd.Uint64(), 1))
		writers.Go(func() { h.writer(t, s, own) })
	}
	for range 12 {
		own := rand.New(rand.NewPCG(rnd.Uint64(), 2))
		watchers.Go(func() {
			time.Sleep(time.Duration(own.IntN(300)) * time.Millisecond)
			watchAll(t, s, own, stopped, &end)
		})
	}
	writers.Wait()
	end = s.Version()
	close(stopped)
	watchers.Wait()
}

func (h *history) writer(t *testing.T, s *Store, rnd *rand.Rand) {
	for h.goesOn() {
		var writes []Write
		v := s.View()
		for _, i := range rnd.Perm(10)[:1+rnd.IntN(3)] {
			k := key("default", fmt.Sprintf("h%d", i))
			w := Write{Resource: configMaps, Key: k}
			if it := v.Get(configMaps, k); it != nil {
				w.Expect = it.Version
			}
			if w.Expect == 0 || rnd.IntN(4) > 0 {
				w.Object = configMap("default", k.Name, strconv.FormatUint(rnd.Uint64(), 36))
			}
			writes = append(writes, w)
		}
		items, err := s.Txn(t.Context(), writes)
		var conflict *ConflictError
		if errors.As(err, &conflict) {
			continue
		}
		if err != nil {
			t.Error(err)
			return
		}
		for i, it := range items {
			w := write{version: it.Version, prev: writes[i].Expect}
			if writes[i].Object != nil {
				w.value = it.Object.(*corev1.ConfigMap).Data["v"]
			}
			h.add(writes[i].Key, w)
			// Reading comes after writing: whoever looks now sees this or a later state.
			if got := s.Get(configMaps, writes[i].Key); got != nil && got.Version < it.Version {
				t.Errorf("%v was written at %v and read at %v", it.Key, it.Version, got.Version)
			}
		}
	}
}

// watchAll follows the store from a snapshot, with stops and resumptions at
// random events, and ends with the state of the store.
func watchAll(t *testing.T, s *Store, rnd *rand.Rand, stopped <-chan schema.ResourceVersion, end *schema.ResourceVersion) {
	snap := s.Snapshot(configMaps)
	state := map[schema.Key]schema.ResourceVersion{}
	for it := range snap.All() {
		state[it.Key] = it.Version
	}
	at := snap.Version()
	for {
		w, err := s.Watch(configMaps, at)
		if err != nil {
			t.Errorf("watch from %v: %v", at, err)
			return
		}
		over := false
		for left := 1 + rnd.IntN(200); left > 0 && !over; {
			select {
			case b, ok := <-w.Events():
				if !ok {
					t.Errorf("watch from %v ended: %v", at, w.Err())
					return
				}
				for _, e := range b {
					if e.Version() <= at {
						t.Errorf("%v comes after %v", e.Version(), at)
					}
					follow(t, state, e)
					if at, left = e.Version(), left-1; left == 0 {
						break // in the middle of a batch, of a transaction perhaps
					}
				}
			case <-stopped:
				stopped = nil
			case <-time.After(time.Millisecond):
				over = stopped == nil && (at >= *end || w.Progress() >= *end)
			}
		}
		w.Stop()
		for range w.Events() { //nolint:revive // until it has ended
		}
		if over {
			break
		}
	}
	n := 0
	for it := range s.Snapshot(configMaps).All() {
		if n++; state[it.Key] != it.Version {
			t.Errorf("a watcher ends with %v at %v, the store has %v", it.Key, state[it.Key], it.Version)
		}
	}
	if n != len(state) {
		t.Errorf("a watcher ends with %d objects, the store has %d", len(state), n)
	}
}

// check demands that the writes of each key follow one from the other.
func (h *history) check(t *testing.T) {
	n := 0
	for k, chain := range h.chain {
		byPrev := map[schema.ResourceVersion]write{}
		creations := 0
		for _, w := range chain {
			n++
			if w.prev == 0 {
				creations++
				continue
			}
			if other, twice := byPrev[w.prev]; twice {
				t.Errorf("%v: both %v and %v were written over %v", k, w.version, other.version, w.prev)
			}
			if byPrev[w.prev] = w; w.version <= w.prev {
				t.Errorf("%v: %v was written over %v", k, w.version, w.prev)
			}
		}
		deletions := 0
		for _, w := range chain {
			if w.value == "" {
				deletions++
			}
		}
		if creations != deletions && creations != deletions+1 {
			t.Errorf("%v: created %d times, deleted %d times", k, creations, deletions)
		}
	}
	if n < 3*leastWrites || n != h.len() {
		t.Errorf("%d writes in all, %d were made", n, h.len())
	}
	t.Logf("%d writes", n)
}

// TestKillWatchers kills a writing process and resumes, in the next life, from
// every version that was seen: what comes is what the copy holds, or the store
// says that it no longer knows.
func TestKillWatchers(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	killtest.Rounds(t, killtest.Config{Rounds: 6, Steps: 6, Delay: 20 * time.Millisecond}, func(p killtest.Point) {
		_, version := liveRounds(t, p, dir)
		s, stop := open(t, Config{Dir: dir})
		if _, err := s.Watch(configMaps, 1); !errors.Is(err, ErrExpired) {
			t.Errorf("resume from before all: %v", err)
		}
		if s.Version() < version {
			t.Errorf("the version was %v and is %v", version, s.Version())
		}
		w, err := s.Watch(configMaps, s.Version())
		if err != nil {
			t.Fatalf("resume from the newest version: %v", err)
		}
		state := map[schema.Key]schema.ResourceVersion{}
		for it := range s.Snapshot(configMaps).All() {
			state[it.Key] = it.Version
		}
		commit(t, s, roundWrites(s, roundOf(s)+1)...)
		for upTo := s.Version(); w.Progress() < upTo; {
			select {
			case b := <-w.Events():
				for _, e := range b {
					follow(t, state, e)
				}
			default:
			}
		}
		for it := range s.Snapshot(configMaps).All() {
			if state[it.Key] != it.Version {
				t.Fatalf("%v is %v, by the events %v", it.Key, it.Version, state[it.Key])
			}
		}
		w.Stop()
		stop()
	})
}
