package store

import (
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/writ-os/writ/schema"
)

// lives are what a process has said in all its lives, and what was found after
// each death. Every write demands the version that its writer had read, and
// every value is written once; so one history explains all that was said, or
// something was lost, doubled or put out of order:
//
//   - each version belongs to one write of one key, and each write has one version
//   - a write that began after another had ended, or was seen, has the later version
//   - a write that ended with a version is there after the death, or what was
//     written over it is
//   - a write whose end nobody heard is there with all its keys, or not at all
//   - a write that was refused is never seen
//   - what is read as the newest state is what was known when it was asked for,
//     or what was written over it
//   - the events of a watcher are the writes of each key one over the other,
//     in the order of versions; none is missing between the first and the last
type lives struct {
	known  map[schema.ResourceVersion]saved // stored, as somebody has said
	last   map[string]saved                 // the newest of each key
	newest schema.ResourceVersion

	open     map[string]*historyOp // begun in this life and not ended
	byValue  map[string]*historyOp // of this life, ended or not
	watchers map[string]*historyWatch
	asked    map[string]saved // by reader: what was known of the key

	reads                        int
	acked, events, unknown, late int
}

// kept is a value with its version.
type kept struct {
	version schema.ResourceVersion
	value   string
}

// saved is a write that is stored. The value of a deletion is "-".
type saved struct {
	key string
	kept
}

type historyOp struct {
	id     string
	floor  schema.ResourceVersion // known to be stored when it began
	keys   []string
	expect []schema.ResourceVersion
	values []string
}

type historyWatch struct {
	from, at schema.ResourceVersion
	state    map[string]schema.ResourceVersion
	seen     map[schema.ResourceVersion]bool
}

func newLives() *lives {
	return &lives{known: map[schema.ResourceVersion]saved{}, last: map[string]saved{}}
}

func (h *lives) begin() {
	h.open, h.byValue, h.watchers = map[string]*historyOp{}, map[string]*historyOp{}, map[string]*historyWatch{}
	h.asked = map[string]saved{}
}

func versionOf(s string) schema.ResourceVersion {
	n, _ := strconv.ParseUint(s, 10, 64) //nolint:errcheck // 0 fits nowhere
	return schema.ResourceVersion(n)
}

// hear takes one line of a child.
func (h *lives) hear(line string) error {
	f := strings.Fields(line)
	if len(f) < 2 {
		return fmt.Errorf("no such line")
	}
	switch verb, id, rest := f[0], f[1], f[2:]; verb {
	case "begin":
		op := &historyOp{id: id, floor: h.newest}
		for ; len(rest) >= 3; rest = rest[3:] {
			op.keys, op.expect, op.values = append(op.keys, rest[0]), append(op.expect, versionOf(rest[1])), append(op.values, rest[2])
			if rest[2] != "-" {
				h.byValue[rest[2]] = op
			}
		}
		h.open[id] = op
		return nil
	case "refused":
		if op := h.open[id]; op != nil {
			for _, v := range op.values {
				delete(h.byValue, v)
			}
		}
		delete(h.open, id)
		return nil
	case "ask":
		h.asked[id] = saved{rest[0], h.last[rest[0]].kept}
		return nil
	case "read":
		return h.read(id, kept{versionOf(rest[0]), rest[1]})
	case "stored":
		return h.stored(id, rest)
	case "list":
		return h.list(id, versionOf(rest[0]), rest[1:])
	case "event":
		return h.event(id, rest[0], versionOf(rest[1]), saved{rest[0], kept{versionOf(rest[2]), rest[3]}})
	}
	return fmt.Errorf("no such line")
}

// stored ends a write with its versions.
func (h *lives) stored(id string, versions []string) error {
	op := h.open[id]
	if op == nil || len(versions) != len(op.keys) {
		return fmt.Errorf("no such write")
	}
	for i, k := range op.keys {
		c := saved{k, kept{versionOf(versions[i]), op.values[i]}}
		if c.version <= op.floor || c.version <= op.expect[i] {
			return fmt.Errorf("stored at %v: %v was stored before it began, over %v", c.version, op.floor, op.expect[i])
		}
		if c.version.Main() != versionOf(versions[0]).Main() {
			return fmt.Errorf("one transaction has the revisions of two")
		}
		if err := h.learn(c); err != nil {
			return err
		}
	}
	delete(h.open, id)
	h.acked++
	return nil
}

// read ends the reading of a key. The value of one that is not there is "-".
func (h *lives) read(id string, got kept) error {
	floor, ok := h.asked[id]
	if !ok {
		return fmt.Errorf("nobody has asked")
	}
	delete(h.asked, id)
	h.reads++
	switch {
	case got.value != "-" && got.version < floor.version:
		return fmt.Errorf("stale: %v was stored before the reading began", floor)
	case got.value == "-" && floor.version != 0 && floor.value != "-" && !h.deletedAfter(floor) && !h.underway(floor.key):
		return fmt.Errorf("%v was stored before the reading began, and nobody deletes it", floor)
	case got.value != "-":
		return h.learn(saved{floor.key, got})
	}
	return nil
}

// deletedAfter says whether a key was deleted at a later version; it may be there
// again.
func (h *lives) deletedAfter(c saved) bool {
	for v, k := range h.known {
		if v > c.version && k.key == c.key && k.value == "-" {
			return true
		}
	}
	return false
}

// learn takes over that a change is stored.
func (h *lives) learn(c saved) error {
	if have, ok := h.known[c.version]; ok && have != c {
		return fmt.Errorf("%v is %v, and was %v", c.version, c, have)
	}
	h.known[c.version] = c
	if c.version > h.last[c.key].version {
		h.last[c.key] = c
	}
	h.newest = max(h.newest, c.version)
	return nil
}

// list begins a watch.
func (h *lives) list(id string, at schema.ResourceVersion, words []string) error {
	w := &historyWatch{from: at, at: at, state: map[string]schema.ResourceVersion{}, seen: map[schema.ResourceVersion]bool{}}
	for ; len(words) >= 3; words = words[3:] {
		if err := h.learn(saved{words[0], kept{versionOf(words[1]), words[2]}}); err != nil {
			return err
		}
		w.state[words[0]] = versionOf(words[1])
	}
	h.watchers[id] = w
	return nil
}

func (h *lives) event(id, key string, prev schema.ResourceVersion, c saved) error {
	w := h.watchers[id]
	switch {
	case w == nil:
		return fmt.Errorf("no such watcher")
	case c.version <= w.at:
		return fmt.Errorf("doubled or out of order: the watcher is at %v", w.at)
	case w.state[key] != prev:
		return fmt.Errorf("lost: the watcher has %v", w.state[key])
	case c.value != "-" && h.byValue[c.value] == nil:
		return fmt.Errorf("nobody has written this")
	}
	w.at, w.seen[c.version], w.state[key] = c.version, true, c.version
	if c.value == "-" {
		delete(w.state, key)
	}
	h.events++
	return h.learn(c)
}

// end demands of every watcher all that is known to be stored between its first
// and its last event.
func (h *lives) end() error {
	for id, w := range h.watchers {
		for v, c := range h.known {
			if v > w.from && v <= w.at && !w.seen[v] {
				return fmt.Errorf("watcher %s was at %v and at %v, and never saw %v", id, w.from, w.at, c)
			}
		}
	}
	return nil
}

// TestLives: the checker refuses what must not happen.
func TestLives(t *testing.T) {
	const (
		one = 1 << 20
		two = 2 << 20
	)
	good := []string{"begin a h1 0 a.0", fmt.Sprintf("stored a %d", one)}
	for _, tt := range []struct {
		name  string
		lines []string
		at    schema.ResourceVersion
		found map[string]kept
		want  string // part of the error; "" none
	}{
		{name: "as it should be", lines: good, at: one, found: map[string]kept{"h1": {one, "a.0"}}},
		{name: "a write that was on its way", lines: append(good, fmt.Sprintf("begin b h1 %d b.0", one)), at: two, found: map[string]kept{"h1": {two, "b.0"}}},
		{name: "a lost write", lines: good, at: one, found: map[string]kept{}, want: "was stored, found"},
		{name: "an old version", lines: good, at: one - 1, found: map[string]kept{"h1": {one, "a.0"}}, want: "the store is at"},
		{name: "a value of nobody", lines: good, at: two, found: map[string]kept{"h1": {two, "x"}}, want: "nobody was writing"},
		{name: "half a write", lines: append(good, fmt.Sprintf("begin b h1 %d b.0 h2 0 b.1", one)), at: two,
			found: map[string]kept{"h1": {two, "b.0"}}, want: "half of write b"},
		{name: "a write of which another has deleted a half", lines: append(good, fmt.Sprintf("begin b h1 %d b.0 h2 0 b.1", one),
			fmt.Sprintf("begin c h2 %d -", two+1), fmt.Sprintf("stored c %d", two+one)), at: two + one, found: map[string]kept{"h1": {two, "b.0"}}},
		{name: "an earlier version for a later write", lines: append(good, "begin b h2 0 b.0", fmt.Sprintf("stored b %d", one-1)), want: "stored at"},
		{name: "one version twice", lines: append(good, fmt.Sprintf("begin b h1 %d b.0", one), "list 0 0", fmt.Sprintf("event 0 h1 0 %d b.0", one)), want: "and was"},
		{name: "an event twice", lines: append(good, "list 0 0", fmt.Sprintf("event 0 h1 0 %d a.0", one), fmt.Sprintf("event 0 h1 %d %d a.0", one, one)), want: "doubled"},
		{name: "an event lost between two", lines: append(good, "list 0 0", "begin b h1 1048576 b.0", fmt.Sprintf("event 0 h1 %d %d b.0", one, two)), want: "lost"},
		{name: "a refused write seen", lines: append(good, "list 0 0", "refused b", "begin b h2 0 b.0", "refused b", fmt.Sprintf("event 0 h2 0 %d b.0", two)), want: "nobody has written"},
		{name: "a read of the newest", lines: append(good, "ask r h1", fmt.Sprintf("read r %d a.0", one), "ask r h2", "read r 0 -")},
		{name: "a stale read", lines: append(good, "ask r h1", fmt.Sprintf("read r %d x.0", one-1)), want: "stale"},
		{name: "a read of nothing", lines: append(good, "ask r h1", "read r 0 -"), want: "nobody deletes it"},
		{name: "a read of nothing, while it is deleted", lines: append(good, fmt.Sprintf("begin b h1 %d -", one), "ask r h1", "read r 0 -")},
		{name: "an event of another key lost", lines: append(good, "begin b h2 0 b.0", fmt.Sprintf("stored b %d", two), "list 0 0", "begin c h1 0 c.0",
			fmt.Sprintf("event 0 h2 0 %d b.0", two)), want: "never saw"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := newLives()
			h.begin()
			var err error
			for _, l := range tt.lines {
				if err = h.hear(l); err != nil {
					break
				}
			}
			if err == nil {
				err = h.end()
			}
			if err == nil && tt.found != nil {
				err = h.buried(tt.at, tt.found)
			}
			if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
		})
	}
}
