package store

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/store/killtest"
	"github.com/writ-os/writ/schema"
)

// modelState is what the store should hold, in the plainest form.
type modelState struct {
	objects map[schema.Key]modelObject
}

type modelObject struct {
	value   string
	version schema.ResourceVersion
}

// txn says what a transaction should do: the index of the first write that is
// refused, or -1 and the number of revisions used.
func (m *modelState) txn(writes []Write) (conflict int) {
	for i, w := range writes {
		have := m.objects[w.Key].version
		if !w.Unconditional && have != w.Expect {
			return i
		}
	}
	return -1
}

// apply makes the writes of a transaction at a main revision.
func (m *modelState) apply(writes []Write, main int64) {
	sub := int64(0)
	for _, w := range writes {
		_, exists := m.objects[w.Key]
		switch {
		case w.Object != nil:
			m.objects[w.Key] = modelObject{w.Object.(*corev1.ConfigMap).Data["v"], schema.NewResourceVersion(main, sub)}
		case exists:
			delete(m.objects, w.Key)
		default:
			continue // nothing happened: it takes no sub revision
		}
		sub++
	}
}

// TestModel runs random transactions against the store and a map, with
// restarts and compactions between them.
func TestModel(t *testing.T) {
	seed := killtest.Seed(t)
	rnd := rand.New(rand.NewPCG(seed, 1))
	dir := t.TempDir()
	s, stop := open(t, Config{Dir: dir})
	m := &modelState{objects: map[schema.Key]modelObject{}}
	for step := range 400 {
		switch n := rnd.IntN(100); {
		case n < 3:
			version := s.Version()
			stop()
			s, stop = open(t, Config{Dir: dir})
			if s.Version() != version {
				t.Fatalf("step %d: version is %v after a restart, was %v", step, s.Version(), version)
			}
		case n < 6:
			if err := s.compact(t.Context(), s.Version().Main()); err != nil {
				t.Fatal(err)
			}
		default:
			m.step(t, s, rnd, step)
		}
		m.compare(t, s, step)
	}
}

func (m *modelState) step(t *testing.T, s *Store, rnd *rand.Rand, step int) {
	t.Helper()
	writes := m.randomWrites(rnd, step)
	want := m.txn(writes)
	before := s.Version()
	items, err := s.Txn(t.Context(), writes)
	if want >= 0 {
		var c *ConflictError
		if !errors.As(err, &c) || c.Index != want || s.Version() != before {
			t.Fatalf("step %d: got %v at %v, want a conflict at %d and no change", step, err, s.Version(), want)
		}
		return
	}
	if err != nil {
		t.Fatalf("step %d: %v", step, err)
	}
	old := maps.Clone(m.objects)
	m.apply(writes, s.Version().Main())
	for i, w := range writes {
		switch _, existed := old[w.Key]; {
		case w.Object != nil && items[i].Version != m.objects[w.Key].version:
			t.Fatalf("step %d: write %d has version %v, want %v", step, i, items[i].Version, m.objects[w.Key].version)
		case w.Object == nil && existed != (items[i] != nil):
			t.Fatalf("step %d: delete %d returned %v, existed: %v", step, i, items[i], existed)
		}
	}
}

// randomWrites are writes of a few keys, most with the right precondition.
func (m *modelState) randomWrites(rnd *rand.Rand, step int) []Write {
	var writes []Write
	for _, i := range rnd.Perm(12)[:1+rnd.IntN(6)] {
		k := key(fmt.Sprintf("ns%d", i%3), fmt.Sprintf("c%d", i))
		w := Write{Resource: configMaps, Key: k, Expect: m.objects[k].version}
		if rnd.IntN(3) > 0 || w.Expect == 0 {
			w.Object = configMap(k.Namespace, k.Name, fmt.Sprint(step))
		}
		switch rnd.IntN(20) {
		case 0:
			w.Expect += 1 << 20
		case 1, 2:
			w.Expect, w.Unconditional = 0, true
			if rnd.IntN(2) == 0 {
				w.Object = nil
			}
		}
		writes = append(writes, w)
	}
	return writes
}

func (m *modelState) compare(t *testing.T, s *Store, step int) {
	t.Helper()
	n := 0
	var last schema.Key
	for it := range s.Snapshot(configMaps).All() {
		n++
		want, ok := m.objects[it.Key]
		if !ok || want.version != it.Version || want.value != it.Object.(*corev1.ConfigMap).Data["v"] {
			t.Fatalf("step %d: %v is %v, want %v", step, it.Key, it.Version, want)
		}
		if lessKey(it.Key, last) {
			t.Fatalf("step %d: %v comes after %v", step, it.Key, last)
		}
		last = it.Key
	}
	if n != len(m.objects) {
		t.Fatalf("step %d: %d objects, want %d", step, n, len(m.objects))
	}
}

// TestLargeTxn: a commit of 12,000 objects and one of 48 MiB are one
// transaction each, and survive a restart.
func TestLargeTxn(t *testing.T) {
	dir := t.TempDir()
	s, stop := open(t, Config{Dir: dir})
	objects, large := 12_000, 1024
	if raceEnabled { // etcd gives a transaction 5 s, which the detector makes short
		objects, large = 3_000, 128
	}
	items := commit(t, s, manyConfigMaps(objects)...)
	if first, last := items[0].Version, items[len(items)-1].Version; first.Main() != last.Main() || last.Sub() != int64(objects-1) {
		t.Errorf("versions go from %v to %v, want one revision", first, last)
	}
	value := make([]byte, 48<<10)
	for i := range value {
		value[i] = byte('a' + i%26)
	}
	var writes []Write
	for i := range large {
		writes = append(writes, create(configMap("large", fmt.Sprintf("c%d", i), string(value))))
	}
	commit(t, s, writes...)
	version := s.Version()
	stop()
	s, _ = open(t, Config{Dir: dir})
	if n := s.Snapshot(configMaps).Len(); n != objects+large || s.Version() != version {
		t.Errorf("%d objects at %v after a restart, want %d at %v", n, s.Version(), objects+large, version)
	}
}
