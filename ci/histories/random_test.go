package histories

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rogpeppe/go-internal/txtar"
)

var (
	howMany = flag.Int("histories", envInt("WRIT_HISTORIES", 24), "how many random histories are played")
	oneSeed = flag.Uint64("seed", 0, "the seed of the one history to play again")
	from    = flag.Uint64("from", uint64(envInt("WRIT_FROM", 1)), "the first seed")
)

func envInt(name string, otherwise int) int {
	n, _ := strconv.Atoi(os.Getenv(name))
	return cmp.Or(n, otherwise)
}

// TestRandom plays random histories. One that fails is made as short as it
// gets, and printed as a file for testdata.
func TestRandom(t *testing.T) {
	if *oneSeed != 0 {
		oneRandom(t, *oneSeed)
		return
	}
	var next atomic.Uint64
	var pushes, refused atomic.Int64
	next.Store(*from - 1)
	begun := time.Now()
	t.Run("lanes", func(t *testing.T) {
		for lane := range 2 {
			t.Run(strconv.Itoa(lane), func(t *testing.T) {
				t.Parallel()
				for seed := next.Add(1); seed < *from+uint64(*howMany) && !t.Failed(); seed = next.Add(1) {
					h := oneRandom(t, seed)
					pushes.Add(int64(h.pushes))
					refused.Add(int64(h.refused))
				}
			})
		}
	})
	t.Logf("%d histories, %d pushes, %d of them refused, in %v", *howMany, pushes.Load(), refused.Load(), time.Since(begun).Round(time.Millisecond))
}

// oneRandom plays the history of a seed.
func oneRandom(t *testing.T, seed uint64) *history {
	h := newHistory(seed)
	dir := scratch(t)
	defer os.RemoveAll(dir)
	var err error
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, dir)
		defer w.stop()
		err = h.live(w)
	})
	if err == nil {
		return h
	}
	if shrink(t, h, err) {
		t.Errorf("go test ./ci/histories -run TestRandom -seed %d\n%v\n\nas short as it gets:\n%s", seed, err, txtar.Format(h.archive()))
	} else {
		t.Errorf("go test ./ci/histories -run TestRandom -seed %d\n%v\n\nplayed again it does not fail so:\n%s", seed, err, txtar.Format(h.archive()))
	}
	return h
}

// history is a random life of a cluster.
type history struct {
	rnd    *rand.Rand
	script []string
	trees  map[string]map[string]string // tree, object, file and manifest ("f1.yaml manifest")
	files  map[string]string

	things          []*thing
	notes           []string
	state           map[string]*declared
	pushes, refused int
}

// declared is a thing of the present tree.
type declared struct {
	file, variant int
	note          string
}

func newHistory(seed uint64) *history {
	some := notes
	if seed%3 == 0 { // one in three has waves
		some = turns
	}
	return &history{notes: some, rnd: rand.New(rand.NewPCG(seed, 7)), trees: map[string]map[string]string{}, files: map[string]string{}, things: universe(), state: map[string]*declared{}}
}

// live plays the history while it makes it: what is refused is taken back.
func (h *history) live(w *world) error {
	p := &player{world: w, files: h.files, trees: map[string]memTree{}}
	for range 6 + h.rnd.IntN(8) {
		before := h.clone()
		line := h.step()
		h.script = append(h.script, line)
		args := strings.Fields(line)
		if args[0] == "push" {
			p.trees[args[1]] = h.tree(args[1])
			h.pushes++
		}
		if err := p.do(args); err != nil {
			return fmt.Errorf("%s: %w", line, err)
		}
		if err := w.failed(); err != nil {
			return err
		}
		if args[0] == "push" && p.refused != nil {
			h.refused++
			if h.rnd.IntN(8) > 0 {
				h.state = before
			}
		}
	}
	return nil
}

func (h *history) clone() map[string]*declared {
	out := make(map[string]*declared, len(h.state))
	for id, d := range h.state {
		one := *d
		out[id] = &one
	}
	return out
}

// step is the next thing that happens.
func (h *history) step() string {
	if len(h.state) > 0 && h.rnd.IntN(4) == 0 {
		return h.other()
	}
	n := 1 + h.rnd.IntN(4)
	if len(h.state) == 0 {
		n = 8
	}
	for range n {
		h.edit()
	}
	tree := "t" + strconv.Itoa(h.pushes+1)
	h.trees[tree] = map[string]string{}
	for _, t := range h.things {
		if d := h.state[t.id()]; d != nil {
			h.trees[tree][t.id()] = fmt.Sprintf("f%d.yaml %s", d.file, t.manifest(d.variant, d.note))
		}
	}
	if h.rnd.IntN(3) == 0 {
		return "push " + tree + ` work\n\nWrit-Allow-Deletes: true`
	}
	return "push " + tree + " work"
}

// edit changes one thing of the tree.
func (h *history) edit() {
	t := h.things[h.rnd.IntN(len(h.things))]
	d := h.state[t.id()]
	if d == nil {
		h.add(t)
		return
	}
	switch h.rnd.IntN(6) {
	case 0, 1:
		delete(h.state, t.id())
		if t.kind == "Namespace" && h.rnd.IntN(2) == 0 {
			maps.DeleteFunc(h.state, func(id string, _ *declared) bool { return strings.Contains(id, "/"+t.name+"/") })
		}
	case 2, 3:
		d.variant = h.rnd.IntN(4)
	case 4:
		d.file = h.rnd.IntN(4)
	case 5:
		d.note = h.notes[h.rnd.IntN(len(h.notes))]
	}
}

// add declares a thing, mostly with what it needs.
func (h *history) add(t *thing) {
	h.state[t.id()] = &declared{h.rnd.IntN(4), h.rnd.IntN(4), h.notes[h.rnd.IntN(len(h.notes))]}
	need := func(id string) {
		if h.state[id] == nil && h.rnd.IntN(12) > 0 {
			h.state[id] = &declared{h.rnd.IntN(4), 0, ""}
		}
	}
	if t.namespace != "" {
		need("Namespace/" + t.namespace)
	}
	if t.kind == "Foo" {
		need("CustomResourceDefinition/foos.t.dev")
	}
}

// other is what somebody else than Git does.
func (h *history) other() string {
	t := h.things[h.rnd.IntN(len(h.things))]
	ids := slices.Sorted(maps.Keys(h.state))
	mine := ids[h.rnd.IntN(len(ids))]
	i := slices.IndexFunc(h.things, func(t *thing) bool { return t.id() == mine })
	d := h.things[i]
	switch h.rnd.IntN(8) {
	case 0:
		return "restart"
	case 1, 2:
		return fmt.Sprintf("as glass delete %s %s", d.kind, d.key())
	case 3:
		return fmt.Sprintf(`as glass patch %s %s {"metadata":{"labels":{"hacked":"yes"}}}`, d.kind, d.key())
	case 4:
		return fmt.Sprintf("as jane delete %s %s", t.kind, t.key())
	case 5:
		if other := h.things[i].variants; len(other) > 1 {
			file := fmt.Sprintf("live%d.yaml", len(h.files))
			h.files[file] = d.manifest(h.rnd.IntN(4), "")
			return "as glass apply " + file
		}
	}
	file := fmt.Sprintf("live%d.yaml", len(h.files))
	h.files[file] = t.manifest(h.rnd.IntN(4), "")
	return "as jane create " + file
}

// tree is a tree as files.
func (h *history) tree(name string) memTree {
	out := memTree{}
	for _, id := range slices.Sorted(maps.Keys(h.trees[name])) {
		file, text, _ := strings.Cut(h.trees[name][id], " ")
		if out[file] != "" {
			text = "---\n" + text
		}
		out[file] += text
	}
	return out
}

// archive is the history as a file of testdata.
func (h *history) archive() *txtar.Archive {
	ar := &txtar.Archive{Comment: []byte(strings.Join(h.script, "\n") + "\n")}
	add := func(name, text string) { ar.Files = append(ar.Files, txtar.File{Name: name, Data: []byte(text)}) }
	used := func(name string) bool {
		return slices.ContainsFunc(h.script, func(line string) bool { return slices.Contains(strings.Fields(line), name) })
	}
	for _, name := range slices.Sorted(maps.Keys(h.files)) {
		if used(name) {
			add(name, h.files[name])
		}
	}
	for _, tree := range slices.Sorted(maps.Keys(h.trees)) {
		files := h.tree(tree)
		for _, name := range slices.Sorted(maps.Keys(files)) {
			if used(tree) {
				add(tree+"/"+name, files[name])
			}
		}
	}
	return ar
}

// shrink leaves out of a history whatever it fails without; false: it does not
// fail again.
func shrink(t *testing.T, h *history, why error) bool {
	deadline := time.Now().Add(time.Minute)
	fails := func() bool {
		if time.Now().After(deadline) {
			return false
		}
		err := run(t, h.archive())
		return err != nil && kindOf(err) == kindOf(why)
	}
	if !fails() {
		return false
	}
	for i := len(h.script) - 1; i >= 0; i-- {
		was := h.script
		h.script = slices.Delete(slices.Clone(was), i, i+1)
		if !fails() {
			h.script = was
		}
	}
	for _, thing := range h.things {
		was, some := map[string]map[string]string{}, false
		for tree, objects := range h.trees {
			was[tree] = maps.Clone(objects)
			_, has := objects[thing.id()]
			some = some || has
			delete(objects, thing.id())
		}
		if some && !fails() {
			h.trees = was
		}
	}
	for tree := range h.trees {
		for id, text := range maps.Clone(h.trees[tree]) {
			file, _, _ := strings.Cut(text, " ")
			h.trees[tree][id] = "f.yaml" + strings.TrimPrefix(text, file)
		}
		if !fails() {
			break
		}
	}
	return true
}

// kindOf is what is wrong without the names in it.
func kindOf(err error) string {
	text := err.Error()
	for _, word := range []string{"at rest the commit", "at rest `writ plan`", "was accepted, and is", "writes at rest", "are gone, the plan says", "which is still there", "the store says", "the plan counts",
		"and `writ plan`", "and the push", "that follows", "panic", "has not been accepted"} {
		if strings.Contains(text, word) {
			return word
		}
	}
	if i := strings.LastIndex(text, "the store \""); i >= 0 {
		return "the plan says, the store"
	}
	return text
}
