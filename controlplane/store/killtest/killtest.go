// Package killtest kills processes at points that a seed determines, so that a
// round that failed can be played again.
//
// It watches nothing and owns the flags -kills and -killseed of the tests that
// import it. A test re-executes its own binary: the child counts what it has
// done and kills itself with SIGKILL, a number of steps and a moment later that
// come from the seed. Nothing of the child runs after that: no deferred call,
// no flush. It promises that the same seed kills at the same steps on every
// machine; the moment within a step is as exact as the machine's clock.
package killtest

import (
	"bufio"
	"cmp"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

var (
	killsFlag = flag.Int("kills", 0, "how many times each kill test kills its child; 0 is what each does by itself")
	seedFlag  = flag.Uint64("killseed", 0, "`seed` of all kill points, to play a run again that failed; 0 takes a new one")
)

// childEnv tells a child what it is, where its data is, and when it dies.
const childEnv = "WRIT_KILL_TEST_CHILD"

// Config is how a test kills.
type Config struct {
	// Rounds is how often, unless -kills says otherwise. Under the race detector
	// it is a fifth of that: `make test` runs all of them without it besides.
	Rounds int
	// Steps is after how many steps at most.
	Steps int
	// Delay is how long after the last step at most. Short ones are as likely as
	// long ones: every power of ten has the same share.
	Delay time.Duration
}

// Point is where one child dies: Delay after its step number Steps, counted
// from one. Before its first step, when Steps is 0: while it starts.
type Point struct {
	Seed  uint64
	Round int
	Steps int
	Delay time.Duration
}

// point is that of a round: a function of the seed.
func (c Config) point(seed uint64, round int) Point {
	p := Point{Seed: seed, Round: round}
	rnd := p.Rand()
	p.Steps = rnd.IntN(c.Steps + 1)
	p.Delay = time.Duration(math.Pow(float64(c.Delay), rnd.Float64()))
	if p.Steps == 0 {
		p.Delay = time.Duration(rnd.Int64N(int64(c.Delay) + 1)) // a start takes its time at all of its moments
	}
	return p
}

// Rand is a source of random numbers of this round, the same in every replay.
func (p Point) Rand() *rand.Rand { return rand.New(rand.NewPCG(p.Seed, uint64(p.Round))) }

func (p Point) String() string {
	return fmt.Sprintf("round %d, killed %v after step %d", p.Round, p.Delay, p.Steps)
}

// Rounds calls f for every round, until one fails, and says then how it is
// played again: what a round finds in its directory is what the rounds before
// have left there, so that all of them are.
func Rounds(t *testing.T, c Config, f func(Point)) {
	t.Helper()
	seed := cmp.Or(*seedFlag, rand.Uint64N(1<<32))
	var p Point
	defer func() {
		if t.Failed() {
			t.Logf("%v; to play it again: go test . -run '^%s$' -killseed %d -kills %d", p, t.Name(), seed, p.Round+1)
		}
	}()
	for round := range cmp.Or(*killsFlag, (c.Rounds+Slow-1)/Slow) {
		p = c.point(seed, round)
		if f(p); t.Failed() {
			return
		}
	}
}

// Seed is that of -killseed, or a new one, for a test whose choices are random
// but that kills nobody. A failure says it.
func Seed(t *testing.T) uint64 {
	t.Helper()
	seed := cmp.Or(*seedFlag, rand.Uint64N(1<<32))
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("to play it again: go test . -run '^%s$' -killseed %d", t.Name(), seed)
		}
	})
	return seed
}

// Live runs the test binary again as the child of a name, with a directory, and
// gives every line that it prints to line, until it is dead. A line that was cut
// off does not count. The test's TestMain must call Child.
func (p Point) Live(t *testing.T, name, dir string, line func(string)) {
	t.Helper()
	cmd := p.command(name, dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewReader(out); ; {
		text, err := lines.ReadString('\n')
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		line(text[:len(text)-1])
	}
	err = cmd.Wait()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !exit.Sys().(syscall.WaitStatus).Signaled() {
		t.Fatalf("the child %q was not killed: %v", name, err)
	}
}

func (p Point) command(name, dir string) *exec.Cmd {
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), childEnv+"="+fmt.Sprintf("%s %d %d %d %d %s", name, p.Seed, p.Round, p.Steps, p.Delay, strconv.Quote(dir)))
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

// Never is the Steps of a child that does not die by itself.
const Never = math.MaxInt

// Living is a child among others.
type Living struct {
	In    io.WriteCloser // its standard input
	cmd   *exec.Cmd
	ended chan struct{}
	err   error // after ended
}

// Start runs the test binary again as the child of a name, beside others: all of
// them print to out. What each prints at once, up to the 4 KiB that a pipe takes
// whole, stands in the order in which it happened. It is dead when the test ends.
func (p Point) Start(t *testing.T, name, dir string, out *os.File) *Living {
	t.Helper()
	l := &Living{cmd: p.command(name, dir), ended: make(chan struct{})}
	l.cmd.Stdout = out
	var err error
	if l.In, err = l.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := l.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		l.err = l.cmd.Wait()
		close(l.ended)
	}()
	t.Cleanup(l.Kill)
	return l
}

// Kill kills the child, unless it has died by itself, and waits until it is dead.
func (l *Living) Kill() {
	_ = l.cmd.Process.Kill() // it may have died
	<-l.ended
}

// Dead says whether the child has died.
func (l *Living) Dead() bool {
	select {
	case <-l.ended:
		return true
	default:
		return false
	}
}

// Finish closes the child's standard input and waits until it has ended by itself.
func (l *Living) Finish() error {
	err := l.In.Close()
	<-l.ended
	return errors.Join(err, l.err)
}

// Mortal is a child that is going to die.
type Mortal struct {
	Name, Dir string
	Point     Point
	steps     atomic.Int64
}

// Child is what this process is, when it is a child; nil when it is none.
func Child() *Mortal {
	text := os.Getenv(childEnv)
	if text == "" {
		return nil
	}
	m := &Mortal{}
	var delay int64
	if _, err := fmt.Sscanf(text, "%s %d %d %d %d %q", &m.Name, &m.Point.Seed, &m.Point.Round, &m.Point.Steps, &delay, &m.Dir); err != nil {
		Fail(fmt.Errorf("read %s=%q: %w", childEnv, text, err))
	}
	if m.Point.Delay = time.Duration(delay); m.Point.Steps == 0 {
		go m.die()
	}
	return m
}

// Step counts a step. It may be called by many at once.
func (m *Mortal) Step() {
	if m.steps.Add(1) == int64(m.Point.Steps) {
		go m.die()
	}
}

// die spins: a timer would be late by more than a step takes.
func (m *Mortal) die() {
	for end := time.Now().Add(m.Point.Delay); time.Now().Before(end); {
		runtime.Gosched()
	}
	_ = syscall.Kill(os.Getpid(), syscall.SIGKILL)
}

// Fail ends a child that cannot go on.
func Fail(err error) {
	fmt.Fprintln(os.Stderr, "child:", err)
	os.Exit(1)
}
