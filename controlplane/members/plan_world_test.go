package members

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"

	"github.com/writ-os/writ/controlplane/store"
)

// world is servers with one branch, whose commits are numbers, beside a store of
// which is known what controlplane/store promises: it is there for who reaches
// the majority, it lets one lead at a time, and who leads is one of those.
type world struct {
	t       *testing.T
	rnd     *rand.Rand
	all     []*server
	parent  []int // of each commit; commit 0 is none
	version int
	tip     int // that the store has; -1: it has no refs yet
	leader  int // -1: nobody
	acked   []int
	trace   []string
}

type server struct {
	up      bool
	group   int // of those who reach each other
	objects map[int]bool
	tip     int
	seen    int // the tip of the store as its copy has it
	brought bool
	serving bool
	said    map[string]Said
	push    *push
}

type push struct {
	version int // of the store when it began
	ask     []string
	need    int
}

func (w *world) name(i int) string { return "s" + strconv.Itoa(i) }

func refsOf(tip int) map[string]string {
	switch tip {
	case -1:
		return nil
	case 0:
		return map[string]string{}
	}
	return map[string]string{"main": strconv.Itoa(tip)}
}

func (w *world) reaches(i, j int) bool {
	return w.all[i].up && w.all[j].up && w.all[i].group == w.all[j].group
}

func (w *world) reachesStore(i int) bool {
	n := 0
	for j := range w.all {
		if w.reaches(i, j) {
			n++
		}
	}
	return 2*n > len(w.all)
}

// history are a commit and those before it.
func (w *world) history(tip int) (out []int) {
	for ; tip > 0; tip = w.parent[tip] {
		out = append(out, tip)
	}
	return out
}

func (w *world) members(self int) (out []store.Member) {
	for i := range w.all {
		out = append(out, store.Member{ID: store.MemberID(i + 1), Name: w.name(i), Self: i == self, Leader: i == w.leader && w.reaches(self, i)})
	}
	return out
}

func (w *world) known(i int, stored int, leads bool) Known {
	s := w.all[i]
	k := Known{Leads: leads, Serving: s.serving, Stored: refsOf(stored), Here: refsOf(s.tip), Brought: s.brought, Said: s.said}
	if stored > 0 && !s.objects[stored] {
		k.Missing = []string{strconv.Itoa(stored)}
	}
	k.Others = slices.DeleteFunc(w.members(i), func(m store.Member) bool { return m.Self })
	return k
}

// take copies a commit with its history from one server to another.
func (w *world) take(to, from, tip int) bool {
	if !w.reaches(to, from) || !w.all[from].objects[tip] {
		return false
	}
	for _, c := range w.history(tip) {
		w.all[to].objects[c] = true
	}
	return true
}

func index(name string) int { i, _ := strconv.Atoi(name[1:]); return i }

// lead does the next thing of a server that leads.
func (w *world) lead(i int) {
	s := w.all[i]
	if s.push != nil {
		w.spread(i)
		return
	}
	if s.serving {
		w.begin(i)
		return
	}
	switch step := Next(w.known(i, w.tip, true)); step.Do {
	case Begin:
		w.begin(i)
	case Adopt:
		s.tip, s.serving, s.said = w.tip, true, map[string]Said{}
	case Fetch:
		s.said[step.From] = Lacks
		if !w.reaches(i, index(step.From)) {
			s.said[step.From] = Silent
		} else {
			w.take(i, index(step.From), w.tip)
		}
	case Wait:
		s.said = map[string]Said{}
	case GiveUp:
		w.fail("%s gives up %d", w.name(i), w.tip)
	case Rest:
		w.fail("%s rests before it serves", w.name(i))
	}
}

// begin takes a push.
func (w *world) begin(i int) {
	s := w.all[i]
	w.parent = append(w.parent, s.tip)
	s.tip = len(w.parent) - 1
	s.objects[s.tip] = true
	there := map[string]Presence{}
	for j := range w.all {
		there[w.name(j)] = Presence{}
	}
	s.push = &push{version: w.version}
	s.push.ask, s.push.need = Keepers(w.members(i), there)
}

// spread has the next server keep a push, or stores it.
func (w *world) spread(i int) {
	s := w.all[i]
	p := s.push
	switch {
	case p.need == 0:
		s.push = nil
		if p.version != w.version {
			w.fail("%s: two have written", w.name(i))
		}
		w.version, w.tip, s.serving = w.version+1, s.tip, true
		if w.rnd.IntN(4) > 0 { // else the answer is lost, or the server ends before it
			w.acked = append(w.acked, s.tip)
		} else {
			w.dethrone()
		}
	case len(p.ask) == 0:
		s.push = nil // and the branch is what the store says
		s.tip = max(w.tip, 0)
	default:
		j := index(p.ask[0])
		p.ask = p.ask[1:]
		if w.take(j, i, s.tip) {
			w.all[j].tip, w.all[j].brought = s.tip, true
			p.need--
		}
	}
}

func (w *world) follow(i int) {
	s := w.all[i]
	if s.said = nil; !w.reachesStore(i) {
		return
	}
	s.seen = w.tip // see Replica.catchUp
	switch step := Next(w.known(i, s.seen, false)); step.Do {
	case Fetch:
		if s.seen == 0 || s.objects[s.seen] || w.take(i, index(step.From), s.seen) {
			s.tip = max(s.seen, 0)
		}
	case Rest, Wait:
	default:
		w.fail("%s follows, and is to do %v", w.name(i), step.Do)
	}
}

// dethrone ends the lead. What was pushed and not stored stays where it lies.
func (w *world) dethrone() {
	if w.leader >= 0 {
		s := w.all[w.leader]
		s.serving, s.push, s.said = false, nil, nil
	}
	w.leader = -1
}

func (w *world) elect(i int) {
	w.leader = i
	w.all[i].said, w.all[i].seen = map[string]Said{}, w.tip
}

// collect drops what no branch of a server leads to.
func (w *world) collect(i int) {
	keep := w.history(w.all[i].tip)
	for c := range w.all[i].objects {
		if !slices.Contains(keep, c) {
			delete(w.all[i].objects, c)
		}
	}
}

func (w *world) act() {
	i := w.rnd.IntN(len(w.all))
	s := w.all[i]
	what := w.rnd.IntN(40)
	w.trace = append(w.trace, fmt.Sprintf("%d:%s", what, w.name(i)))
	switch {
	case what == 0:
		s.up = !s.up
	case what == 1:
		s.group = w.rnd.IntN(2)
	case what == 2:
		for _, s := range w.all {
			s.group, s.up = 0, true
		}
	case what == 3:
		w.dethrone()
	case what < 8 && w.leader < 0 && w.reachesStore(i):
		w.elect(i)
	case what < 10:
		if w.leader != i {
			w.collect(i)
		}
	case what < 12: // a push lasts no longer than what it brought is left alone
		if w.leader < 0 || w.all[w.leader].push == nil {
			s.brought = false
		}
	case what < 18:
		if w.reachesStore(i) {
			s.seen = w.tip
		}
	case what < 28 && w.leader >= 0:
		w.lead(w.leader)
	case s.up && w.leader != i:
		w.follow(i)
	}
	if w.leader >= 0 && !w.reachesStore(w.leader) {
		w.dethrone()
	}
}

func (w *world) check() {
	have := w.history(w.tip)
	for _, c := range w.acked {
		if !slices.Contains(have, c) {
			w.fail("commit %d was acknowledged, and is not in the history of %d", c, w.tip)
		}
	}
	for i, s := range w.all {
		if s.serving && (i != w.leader || s.push == nil && s.tip != w.tip) {
			w.fail("%s serves %d, the store has %d, and %d leads", w.name(i), s.tip, w.tip, w.leader)
		}
		if !s.objects[s.tip] && s.tip > 0 {
			w.fail("the branch of %s is at %d, which it does not have", w.name(i), s.tip)
		}
	}
}

func (w *world) fail(format string, args ...any) {
	w.t.Helper()
	w.t.Fatalf(format+"\nafter %v", append(args, w.trace)...)
}

// TestNextProperty: whatever servers die, are cut off or come back, and in
// whatever order they act: what was acknowledged stays, who serves a branch serves
// what the store says, nothing is given up while its files are somewhere, and all
// come to agree when they reach each other.
func TestNextProperty(t *testing.T) {
	seed, acked := rand.Uint64(), 0
	for run := range 2000 {
		t.Logf("seed %d, run %d", seed, run)
		w := &world{t: t, rnd: rand.New(rand.NewPCG(seed, uint64(run))), parent: []int{0}, tip: -1, leader: -1}
		for range 3 + 2*(run%2) {
			w.all = append(w.all, &server{up: true, objects: map[int]bool{}, seen: -1})
		}
		for range 400 {
			w.act()
			w.check()
		}
		w.agree()
		acked += len(w.acked)
	}
	if acked < 2000 {
		t.Errorf("only %d pushes were acknowledged", acked)
	}
}

// agree lets all reach each other and ends the pushes.
func (w *world) agree() {
	w.dethrone()
	for _, s := range w.all {
		s.up, s.group, s.brought, s.seen = true, 0, false, w.tip
	}
	w.elect(w.rnd.IntN(len(w.all)))
	for n := 0; !w.all[w.leader].serving; n++ {
		w.lead(w.leader)
		if w.leader < 0 { // its first push was not answered
			w.elect(0)
		}
		w.check()
		if n > 100 {
			w.fail("nobody comes to serve")
		}
	}
	for i, s := range w.all {
		s.seen = w.tip
		if i != w.leader {
			w.follow(i)
		}
		if s.tip != w.tip {
			w.fail("%s is at %d, and the store at %d", w.name(i), s.tip, w.tip)
		}
	}
}
