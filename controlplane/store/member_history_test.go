package store

import (
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/store/killtest"
	"github.com/writ-os/writ/schema"
)

// finalCheck holds what members have at the end, and what their watchers have
// seen, against the history.
func (h *lives) finalCheck(at schema.ResourceVersion, found map[string]kept, watchers []string) error {
	if err := h.end(); err != nil {
		return err
	}
	for _, id := range watchers {
		w := h.watchers[id]
		if w == nil {
			return fmt.Errorf("watcher %s was never heard", id)
		}
		for k, have := range found {
			if w.state[k] != have.version {
				return fmt.Errorf("watcher %s ends with %s at %v, the store has %v", id, k, w.state[k], have)
			}
		}
		if len(w.state) != len(found) {
			return fmt.Errorf("watcher %s ends with %d objects, the store has %d", id, len(w.state), len(found))
		}
	}
	h.unknown = 0 // it is asked for each member
	err := h.buried(at, found)
	h.late = 0
	for _, c := range h.known {
		if op := h.byValue[c.value]; op != nil && h.open[op.id] == op {
			h.late++
		}
	}
	return err
}

func foundIn(s *Store) map[string]kept {
	found := map[string]kept{}
	for it := range s.Snapshot(configMaps).All() {
		found[it.Key.Name] = kept{it.Version, it.Object.(*corev1.ConfigMap).Data["v"]}
	}
	return found
}

// TestMembersHistory lets writers, readers and watchers loose on three members,
// while leaders and followers are cut off, slowed down and left so far behind
// that they get snapshots, and holds all that they have said against the one
// history that there may be.
func TestMembersHistory(t *testing.T) {
	seed := killtest.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 1))
	c := newCluster(t, 3, func(cfg *Config) {
		cfg.EventLog = 1 << 16
		cfg.Members.keepLog = 10 // who is cut off gets a snapshot
	})
	c.leader()
	h := newLives()
	h.begin()
	var mu sync.Mutex
	broken := false
	say := func(format string, args ...any) {
		mu.Lock()
		defer mu.Unlock()
		if line := fmt.Sprintf(format, args...); !broken {
			if err := h.hear(line); err != nil {
				broken = true
				t.Errorf("%q: %v", line, err)
			}
		}
	}
	var all []*voices
	for i, r := range c.runs {
		v := newVoices(r.Store, fmt.Sprintf("m%d", i), say)
		v.fail = func(err error) { t.Error(err) }
		v.start(rand.New(rand.NewPCG(rnd.Uint64(), 1)))
		all = append(all, v)
	}
	for range 10 {
		c.disturb(rnd)
	}
	c.net.heal()
	for _, v := range all {
		v.finish()
	}
	for _, v := range all {
		eventually(t, time.Minute, func() error { return v.s.Current(t.Context()) })
		v.drain()
	}
	if t.Failed() {
		return
	}
	c.agree()
	for _, v := range all {
		if err := h.finalCheck(v.s.Version(), foundIn(v.s), v.last); err != nil {
			t.Fatalf("%s: %v", v.name, err)
		}
	}
	if h.acked < 100 || h.reads < 100 || h.events < 1000 {
		t.Errorf("%d writes, %d reads, %d events: too few", h.acked, h.reads, h.events)
	}
	reloads := 0.0
	for _, v := range all {
		reloads += testutil.ToFloat64(v.s.met.reloads)
	}
	t.Logf("%d writes stored, %d reads, %d events, %d writes of which nobody knows, %d keys of them stored; %v copies loaded again",
		h.acked, h.reads, h.events, h.unknown, h.late, reloads)
}

// disturb does one bad thing to the members for a while.
func (c *cluster) disturb(rnd *rand.Rand) {
	election := c.cfg[0].rules().election
	one := rnd.IntN(3)
	if rnd.IntN(2) == 0 {
		one = c.leader()
	}
	long := time.Duration(rnd.Int64N(int64(6 * election)))
	switch rnd.IntN(4) {
	case 0:
		c.net.slow(one, time.Duration(rnd.IntN(20))*time.Millisecond)
	case 1:
		c.net.hangUp()
	case 2:
		c.net.isolate(one)
		if rest := c.runs[c.leader(c.others(one)...)].Store; rnd.IntN(2) == 0 {
			time.Sleep(long)
			_ = rest.compact(c.t.Context(), rest.Version().Main()) // put off, when the leader has changed
		}
	case 3:
		c.net.isolate(0)
		c.net.isolate(1) // all are alone
	}
	time.Sleep(long)
	c.net.heal()
	time.Sleep(election)
	c.leader()
}
