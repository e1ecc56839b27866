package store

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/writ-os/writ/controlplane/store/killtest"
)

// memberFile is what a child reads of its directory.
type memberFile struct {
	Members  Members
	DialFrom string
}

// memberChild is one member in a process of its own, with its voices, until it
// is killed or its standard input ends. Two lines of that input come before: at
// the first it writes no more, at the second it says what it ends with.
func memberChild(m *killtest.Mortal) {
	text, err := os.ReadFile(filepath.Join(m.Dir, "member.json"))
	if err != nil {
		killtest.Fail(err)
	}
	var file memberFile
	if err := json.Unmarshal(text, &file); err != nil {
		killtest.Fail(err)
	}
	file.Members.dialFrom, file.Members.keepLog = file.DialFrom, 20
	s := New(Config{
		Dir: filepath.Join(m.Dir, "etcd"), Tick: clusterTick, EventLog: 1 << 16,
		Members: &file.Members, Log: quiet(file.Members.Name), CompactEvery: time.Second,
	})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	select {
	case <-s.Ready():
	case err := <-ended:
		killtest.Fail(err)
	}
	var out sync.Mutex
	say := func(format string, args ...any) {
		out.Lock()
		defer out.Unlock()
		fmt.Printf(format+"\n", args...)
	}
	say("ready %s", file.Members.Name)
	go func() {
		_ = s.WhileLeading(ctx, func(ctx context.Context) error {
			say("leads %s", file.Members.Name)
			<-ctx.Done()
			return nil
		})
	}()
	v := newVoices(s, fmt.Sprintf("%s-%d", file.Members.Name, m.Point.Round), say)
	v.fail, v.step = killtest.Fail, m.Step
	v.start(m.Point.Rand())
	in := bufio.NewReader(os.Stdin)
	_, _ = in.ReadString('\n') // nobody is to write any more
	v.finish()
	say("finished %s", file.Members.Name)
	_, _ = in.ReadString('\n')  // nobody does
	for s.Current(ctx) != nil { //nolint:revive // until it is
	}
	v.drain()
	var words []string
	for k, have := range foundIn(s) {
		words = append(words, fmt.Sprintf("%s %d %s", k, uint64(have.version), have.value))
	}
	say("final %s %d %s %s", file.Members.Name, uint64(s.Version()), strings.Join(v.last, ","), strings.Join(words, " "))
	_, _ = in.ReadString('\n') // the others need this one until they have said the same
	cancel()
	if err := <-ended; err != nil {
		killtest.Fail(err)
	}
}

// killers are three members in processes of their own, and what they say.
type killers struct {
	t     *testing.T
	net   *network
	dirs  []string
	alive []*killtest.Living
	out   *os.File
	seed  uint64
	lives int

	mu     sync.Mutex
	h      *lives
	leads  string
	said   map[string]int // "ready", "finished", "final"
	finals []string
	broken error
}

func (k *killers) listen(r io.Reader) {
	lines := bufio.NewReader(r)
	for {
		line, err := lines.ReadString('\n')
		if err != nil {
			return
		}
		k.hear(strings.TrimSpace(line))
	}
}

func (k *killers) hear(line string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	verb, rest, _ := strings.Cut(line, " ")
	switch verb {
	case "ready", "finished":
		k.said[verb]++
	case "leads":
		k.leads = rest
	case "final":
		k.said[verb]++
		k.finals = append(k.finals, rest)
	default:
		if err := k.h.hear(line); err != nil && k.broken == nil {
			k.broken = fmt.Errorf("%q: %w", line, err)
		}
	}
}

// start begins another life of a member. It dies by itself after some writes,
// half of the time, when there is something random.
func (k *killers) start(i int, rnd *rand.Rand) {
	k.lives++
	p := killtest.Point{Seed: k.seed, Round: k.lives, Steps: killtest.Never}
	if rnd != nil && rnd.IntN(2) == 0 {
		p.Steps, p.Delay = rnd.IntN(200), time.Duration(rnd.Int64N(int64(5*time.Millisecond)))
	}
	k.alive[i] = p.Start(k.t, "member", k.dirs[i], k.out)
}

// TestKillMembers kills members of three, the leader above all, one or more at a
// time, while they start, write and follow, and cuts them off from each other
// besides, and holds what all of them have said against the one history that
// there may be.
func TestKillMembers(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	k := &killers{t: t, net: newNetwork(t, 3), alive: make([]*killtest.Living, 3), out: w, h: newLives(), said: map[string]int{}}
	k.h.begin()
	initial := map[string]string{}
	for i := range 3 {
		m := k.net.member(i)
		initial[m.Name] = m.URL
	}
	for i := range 3 {
		file := memberFile{Members: *k.net.member(i), DialFrom: k.net.member(i).dialFrom}
		file.Members.Initial = initial
		text, err := json.Marshal(file)
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "member.json"), text, 0o600); err != nil {
			t.Fatal(err)
		}
		k.dirs = append(k.dirs, dir)
	}
	var ears sync.WaitGroup
	ears.Go(func() { k.listen(r) })
	killtest.Rounds(t, killtest.Config{Rounds: 20, Steps: 200, Delay: 5 * time.Millisecond}, func(p killtest.Point) {
		if k.seed = p.Seed; p.Round == 0 {
			k.startAll()
		}
		k.round(p.Rand())
		if err := k.failed(); err != nil {
			t.Error(err)
		}
	})
	if t.Failed() {
		return
	}
	k.net.heal()
	for _, l := range k.alive {
		l.Kill()
	}
	k.startAll()
	k.tellAll("finished")
	k.tellAll("final")
	var ends sync.WaitGroup
	for _, l := range k.alive {
		ends.Go(func() {
			if err := l.Finish(); err != nil {
				t.Errorf("a child at the end: %v", err)
			}
		})
	}
	ends.Wait()
	w.Close()
	ears.Wait()
	r.Close()
	k.check()
}

// round does one bad thing, and lets those who died begin again.
func (k *killers) round(rnd *rand.Rand) {
	victims := []int{rnd.IntN(3)}
	switch rnd.IntN(6) {
	case 0, 1, 2:
		k.mu.Lock()
		if n, err := strconv.Atoi(strings.TrimPrefix(k.leads, "m")); err == nil {
			victims = []int{n}
		}
		k.mu.Unlock()
	case 3:
		victims = rnd.Perm(3)[:2]
	case 4:
		victims = []int{0, 1, 2}
	}
	if rnd.IntN(3) == 0 {
		k.net.isolate(rnd.IntN(3))
	}
	time.Sleep(time.Duration(rnd.IntN(700)) * time.Millisecond)
	for _, i := range victims {
		k.alive[i].Kill()
	}
	time.Sleep(time.Duration(rnd.IntN(500)) * time.Millisecond)
	for _, i := range victims {
		k.start(i, rnd)
	}
	k.net.heal()
	time.Sleep(time.Duration(rnd.IntN(1500)) * time.Millisecond)
	for i := range 3 { // who has died by itself
		if k.alive[i].Dead() {
			k.start(i, rnd)
		}
	}
}

func (k *killers) failed() error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.broken
}

// startAll starts all members, which do not die by themselves: the first time
// they make a cluster, the last time they come to the end.
func (k *killers) startAll() {
	k.t.Helper()
	k.mu.Lock()
	clear(k.said)
	k.mu.Unlock()
	for i := range k.alive {
		k.start(i, nil)
	}
	k.awaitAll("ready")
}

// tellAll gives every member its next line and waits until all have answered.
func (k *killers) tellAll(answer string) {
	k.t.Helper()
	for _, l := range k.alive {
		if _, err := l.In.Write([]byte("\n")); err != nil {
			k.t.Error(err)
		}
	}
	k.awaitAll(answer)
}

func (k *killers) awaitAll(verb string) {
	k.t.Helper()
	eventually(k.t, time.Minute, func() error {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.said[verb] < len(k.alive) {
			return fmt.Errorf("%d of %d are %s", k.said[verb], len(k.alive), verb)
		}
		return nil
	})
}

func (k *killers) check() {
	k.t.Helper()
	if k.broken != nil {
		k.t.Fatal(k.broken)
	}
	if len(k.finals) != 3 {
		k.t.Fatalf("%d members have come to the end", len(k.finals))
	}
	for _, final := range k.finals {
		f := strings.Fields(final)
		found := map[string]kept{}
		for words := f[3:]; len(words) >= 3; words = words[3:] {
			found[words[0]] = kept{versionOf(words[1]), words[2]}
		}
		if err := k.h.finalCheck(versionOf(f[1]), found, strings.Split(f[2], ",")); err != nil {
			k.t.Fatalf("%s: %v", f[0], err)
		}
	}
	k.t.Logf("%d lives, %d writes stored, %d reads, %d events, %d writes of which nobody knows, %d keys of them stored",
		k.lives, k.h.acked, k.h.reads, k.h.events, k.h.unknown, k.h.late)
	if least := 100 / killtest.Slow; k.h.acked < least || k.h.events < 10*least {
		k.t.Error("that is too few")
	}
}
