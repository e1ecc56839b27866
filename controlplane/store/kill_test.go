package store

import (
	"context"
	"fmt"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/store/killtest"
	"github.com/writ-os/writ/schema"
)

// perTxn is how many objects one transaction of the child rewrites.
const perTxn = 60

// children are what this test binary is when a kill test runs it.
var children = map[string]func(*killtest.Mortal){"rounds": writerChild, "history": historyChild, "member": memberChild, "failover": failoverChild, "reset": resetChild}

// childStore is the store of a child. Some compact all the time, so that some
// die of that.
func childStore(m *killtest.Mortal) *Store {
	cfg := Config{Dir: m.Dir, Tick: 10 * time.Millisecond, EventLog: 1 << 16}
	if m.Point.Round%3 == 0 {
		cfg.CompactEvery = 5 * time.Millisecond
	}
	s := New(cfg)
	go func() {
		if err := s.Run(context.Background()); err != nil {
			killtest.Fail(err)
		}
	}()
	<-s.Ready()
	return s
}

// writerChild rewrites all its objects with a new round in every transaction:
// half of them as updates, and the others deleted in even rounds and created in
// odd ones.
func writerChild(m *killtest.Mortal) {
	s := childStore(m)
	for round := roundOf(s) + 1; ; round++ {
		if _, err := s.Txn(context.Background(), roundWrites(s, round)); err != nil {
			killtest.Fail(err)
		}
		fmt.Printf("%d %d\n", round, s.Version())
		m.Step()
	}
}

func roundWrites(s *Store, round int) []Write {
	var writes []Write
	for i := range perTxn {
		k := key("default", fmt.Sprintf("c%02d", i))
		w := Write{Resource: configMaps, Key: k, Unconditional: true}
		if i%2 == 0 || round%2 == 1 {
			w.Object = configMap("default", k.Name, strconv.Itoa(round))
		} else if s.Get(configMaps, k) == nil {
			continue
		}
		writes = append(writes, w)
	}
	return writes
}

// roundOf is the round that the store holds, read from its first object; 0 when
// it is empty.
func roundOf(s *Store) int {
	it := s.Get(configMaps, key("default", "c00"))
	if it == nil {
		return 0
	}
	n, _ := strconv.Atoi(it.Object.(*corev1.ConfigMap).Data["v"])
	return n
}

// TestKill kills a writing process again and again, while it starts, writes and
// compacts, and looks at what it leaves: always a whole round, never older than
// the last one that the process had seen stored, with versions that only grow.
func TestKill(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "etcd")
	rounds, wrote := 0, 0
	var newest schema.ResourceVersion
	killtest.Rounds(t, killtest.Config{Rounds: 110, Steps: 12, Delay: 30 * time.Millisecond}, func(p killtest.Point) {
		stored, version := liveRounds(t, p, dir)
		s, stop := open(t, Config{Dir: dir})
		round := checkRound(t, s)
		if round < stored || round < rounds {
			t.Fatalf("round %d was stored and the store has %d", max(stored, rounds), round)
		}
		if s.Version() < version || s.Version() < newest {
			t.Fatalf("version is %v, was %v and %v", s.Version(), version, newest)
		}
		if newest = s.Version(); round < rounds+p.Steps {
			t.Fatalf("the store has %d rounds more, the child was to write %d", round-rounds, p.Steps)
		}
		rounds, wrote = round, wrote+p.Steps
		stop()
	})
	if rounds < wrote || rounds == 0 {
		t.Errorf("the children stored %d rounds, and had to store %d", rounds, wrote)
	}
}

// checkRound fails unless the store holds exactly one round.
func checkRound(t *testing.T, s *Store) int {
	t.Helper()
	round, seen := roundOf(s), 0
	for it := range s.Snapshot(configMaps).All() {
		seen++
		if v := it.Object.(*corev1.ConfigMap).Data["v"]; v != strconv.Itoa(round) {
			t.Fatalf("%v is of round %s, others of round %d: half a transaction", it.Key, v, round)
		}
	}
	want := perTxn
	if round%2 == 0 {
		want = perTxn / 2
	}
	if round == 0 {
		want = 0
	}
	if seen != want {
		t.Fatalf("round %d has %d objects, want %d", round, seen, want)
	}
	return round
}

// liveRounds runs a child until it is dead. It returns the last round that the
// child saw stored, and the version then; 0 when it died before.
func liveRounds(t *testing.T, p killtest.Point, dir string) (round int, version schema.ResourceVersion) {
	t.Helper()
	p.Live(t, "rounds", dir, func(line string) {
		if _, err := fmt.Sscan(line, &round, (*uint64)(&version)); err != nil {
			t.Fatalf("child said %q: %v", line, err)
		}
	})
	return round, version
}
