package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/schema"
)

// voices are writers, readers and watchers of one member, which say what they
// do; see lives.
type voices struct {
	s    *Store
	name string // of this life of the member
	say  func(string, ...any)
	fail func(error)
	step func() // after a write is stored

	stop     chan struct{} // closed when no more is written
	end      schema.ResourceVersion
	ended    chan struct{} // closed when end is known
	writers  sync.WaitGroup
	watchers sync.WaitGroup

	mu   sync.Mutex
	last []string // the names of the watches at the end
}

func newVoices(s *Store, name string, say func(string, ...any)) *voices {
	return &voices{s: s, name: name, say: say, step: func() {}, stop: make(chan struct{}), ended: make(chan struct{})}
}

func (v *voices) start(rnd *rand.Rand) {
	for w := range 3 {
		own := rand.New(rand.NewPCG(rnd.Uint64(), 1))
		v.writers.Go(func() { v.write(w, own) })
	}
	own := rand.New(rand.NewPCG(rnd.Uint64(), 3))
	v.writers.Go(func() { v.read(own) })
	for w := range 2 {
		own := rand.New(rand.NewPCG(rnd.Uint64(), 2))
		v.watchers.Go(func() { v.watch(w, own) })
	}
}

// finish ends the writers, of this member; drain the watchers, when those of all
// have ended.
func (v *voices) finish() { close(v.stop); v.writers.Wait() }

func (v *voices) drain() {
	v.end = v.s.Version()
	close(v.ended)
	v.watchers.Wait()
}

func (v *voices) stopped() bool {
	select {
	case <-v.stop:
		return true
	default:
		return false
	}
}

// write writes one to four keys at a time, over what it has read.
func (v *voices) write(writer int, rnd *rand.Rand) {
	for n := 0; !v.stopped(); n++ {
		id := fmt.Sprintf("%s.%d.%d", v.name, writer, n)
		writes, words := randomWrites(v.s.View(), id, rnd)
		v.say("begin %s %s", id, words)
		items, err := v.s.Txn(context.Background(), writes)
		var conflict *ConflictError
		switch {
		case errors.As(err, &conflict), errors.Is(err, ErrUnavailable):
			v.say("refused %s", id)
			continue
		case errors.Is(err, ErrUnknownOutcome), errors.Is(err, ErrClosed):
			continue // it is on its way, for all that is known
		case err != nil:
			v.fail(err)
			return
		}
		var versions []string
		for _, it := range items {
			versions = append(versions, fmt.Sprint(uint64(it.Version)))
		}
		v.say("stored %s %s", id, strings.Join(versions, " "))
		v.step()
		time.Sleep(time.Duration(rnd.IntN(4)) * time.Millisecond)
	}
}

// randomWrites are writes of some keys over what a view has of them, and the
// words for them.
func randomWrites(v View, id string, rnd *rand.Rand) (writes []Write, words string) {
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
		words += fmt.Sprintf(" %s %d %s", w.Key.Name, uint64(w.Expect), value)
	}
	return writes, words[1:]
}

// read reads the newest state of a key.
func (v *voices) read(rnd *rand.Rand) {
	for !v.stopped() {
		name := fmt.Sprintf("h%d", rnd.IntN(10))
		v.say("ask %s %s", v.name, name)
		err := v.s.Current(context.Background())
		switch {
		case err == nil:
			have := kept{value: "-"}
			if it := v.s.Get(configMaps, key("default", name)); it != nil {
				have = kept{it.Version, it.Object.(*corev1.ConfigMap).Data["v"]}
			}
			v.say("read %s %d %s", v.name, uint64(have.version), have.value)
		case !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrClosed):
			v.fail(err)
			return
		}
		time.Sleep(time.Millisecond)
	}
}

// watch says what it begins with and every event, goes on with another watch
// now and then, and lists again when it is told to.
func (v *voices) watch(watcher int, rnd *rand.Rand) {
	for list := 0; ; list++ {
		id := fmt.Sprintf("%s.%d.%d", v.name, watcher, list)
		snap := v.s.Snapshot(configMaps)
		var words []string
		for it := range snap.All() {
			words = append(words, fmt.Sprintf("%s %d %s", it.Key.Name, uint64(it.Version), it.Object.(*corev1.ConfigMap).Data["v"]))
		}
		v.say("list %s %d %s", id, uint64(snap.Version()), strings.Join(words, " "))
		if v.watchFrom(id, snap.Version(), rnd) {
			v.mu.Lock()
			v.last = append(v.last, id)
			v.mu.Unlock()
			return
		}
	}
}

// watchFrom returns true at the end, and false when the history is gone.
func (v *voices) watchFrom(id string, at schema.ResourceVersion, rnd *rand.Rand) bool {
	ended := v.ended
	over := false
	for !over {
		w, err := v.s.Watch(configMaps, at)
		if errors.Is(err, ErrExpired) {
			return false
		} else if err != nil {
			v.fail(err)
			return true
		}
		for left := 1 + rnd.IntN(200); left > 0 && !over; {
			select {
			case b, ok := <-w.Events():
				if !ok && errors.Is(w.Err(), ErrExpired) {
					w.Stop()
					return false
				} else if !ok {
					v.fail(w.Err())
					return true
				}
				for _, e := range b {
					v.sayEvent(id, e)
					if at, left = e.Version(), left-1; left == 0 {
						break // in the middle of a transaction, perhaps
					}
				}
			case <-ended:
				ended = nil
			case <-time.After(time.Millisecond):
				over = ended == nil && (at >= v.end || w.Progress() >= v.end)
			}
		}
		w.Stop()
		for range w.Events() { //nolint:revive // until it has ended
		}
	}
	return true
}

func (v *voices) sayEvent(id string, e *Event) {
	var prev schema.ResourceVersion
	if e.Prev != nil {
		prev = e.Prev.Version
	}
	value := "-"
	if e.Type != Deleted {
		value = e.Item.Object.(*corev1.ConfigMap).Data["v"]
	}
	v.say("event %s %s %d %d %s", id, e.Item.Key.Name, uint64(prev), uint64(e.Version()), value)
}
