package sandbox

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"sync"
	"time"
)

const (
	slots    = 2               // children that run at once, and that wait
	inPool   = 4               // the same of a pool with a name: more than one user has exchanges
	keepIdle = time.Minute     // how long a child waits for work before it ends
	keepPool = 15 * keepIdle   // the same of a pool with a name, whose callers do not wait for a child to start
	maxBusy  = 2 * time.Minute // of one child: the next has nothing of the last
)

// Config is everything a sandbox needs from outside.
type Config struct {
	// Log is told once what the kernel does not offer; nil: nobody.
	Log *slog.Logger
	// Idle is how long a child waits for work before it ends. Default a minute, and
	// fifteen in a pool with a name.
	Idle time.Duration

	binary string   // instead of this one, in tests
	skip   []string // layers that are left out, in tests
}

// Sandbox runs functions in children. Its methods may be called from several
// goroutines.
type Sandbox struct {
	cfg Config

	mu     sync.Mutex
	slots  map[string]chan struct{} // by pool
	warm   map[string]chan struct{} // by pool; closed when the child is ready that Warm starts
	idle   []*child
	closed bool
	told   bool
	layers *Layers // of the last child
	counts counts
}

// New returns a sandbox; it starts nothing. The main of the process must call
// Serve.
func New(cfg Config) *Sandbox {
	return &Sandbox{cfg: cfg, slots: map[string]chan struct{}{}, warm: map[string]chan struct{}{}, counts: counts{deaths: map[Cause]int{}}}
}

// Cause is why a child has died, or why its answer is none.
type Cause string

// Causes.
const (
	Memory  Cause = "memory"  // it needed more than it may have
	Late    Cause = "time"    // it did not answer in time
	Crashed Cause = "crash"   // it ended by itself, or was killed
	Failed  Cause = "failure" // the function broke down, and the child lives
	Garbage Cause = "garbage" // what it sent is no answer
)

// Death is the error of a call that has cost a child, or its answer.
type Death struct {
	Cause Cause
	Why   string        // in the words of the runtime or the kernel
	Limit time.Duration // of the call
	At    int           // how far the function had come; -1: it did not say
}

// Error implements error.
func (d *Death) Error() string {
	switch d.Cause {
	case Memory:
		return fmt.Sprintf("needs more than %d MiB of memory", maxMemory>>20)
	case Late:
		return fmt.Sprintf("is not done after %s", d.Limit)
	}
	return d.Why
}

// Call has a child answer a question within a limit of time, which does not
// count the wait for a child. The error is that of ctx, a *Death, or that no
// child can be started. A child that has served others and dies is started
// again once: what came before may be to blame. Where there is no sandbox the
// function runs in this process, and is left behind when its time is up.
func Call[Q, A any](ctx context.Context, s *Sandbox, f Func[Q, A], q Q, limit time.Duration) (A, error) {
	return CallWith(ctx, s, f, q, Help{}, limit)
}

// Help is what a function has besides its question.
type Help struct {
	// File is read by the function; whoever opened it for reading only has given
	// no more than that.
	File *os.File
	// Answer answers what the function asks, while CallWith runs and one question
	// after the other. It is asked by an enemy, perhaps, and for the second time
	// when a child is started again.
	Answer func(question []byte) ([]byte, error)
}

// call is a question in bytes.
type call struct {
	name, pool string
	body       []byte
	help       Help
	most       int64
	limit      time.Duration
}

// CallWith is Call of a function that has help. The time in which Answer answers
// counts.
func CallWith[Q, A any](ctx context.Context, s *Sandbox, f Func[Q, A], q Q, h Help, limit time.Duration) (A, error) {
	var a A
	if s == nil {
		return here(ctx, f, q, h, limit)
	}
	body, err := encoding.Marshal(q)
	if err != nil {
		return a, fmt.Errorf("ask %s: %w", f.Name, err)
	}
	most := f.Max
	if most == 0 {
		most = MaxAnswer
	}
	got, err := s.call(ctx, call{name: f.Name, pool: f.Pool, body: body, help: h, most: most, limit: limit})
	if err != nil {
		return a, err
	}
	if err := answers.Unmarshal(got, &a); err != nil {
		var none A
		s.count(Garbage)
		return none, &Death{Cause: Garbage, Why: fmt.Sprintf("%v: %v", errFrame, err), At: -1}
	}
	return a, nil
}

// slotsOf are the places of a pool.
func (s *Sandbox) slotsOf(pool string) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.slots[pool] == nil {
		n := slots
		if pool != "" {
			n = inPool
		}
		s.slots[pool] = make(chan struct{}, n)
	}
	return s.slots[pool]
}

func (s *Sandbox) call(ctx context.Context, q call) ([]byte, error) {
	places := s.slotsOf(q.pool)
	select {
	case places <- struct{}{}:
		defer func() { <-places }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	out, used, err := s.ask(ctx, q)
	var death *Death
	if used && errors.As(err, &death) && death.Cause != Failed && death.Cause != Late {
		out, _, err = s.ask(ctx, q)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if errors.As(err, &death) {
		s.count(death.Cause)
	}
	return out, err
}

// ask asks a child, and keeps it for the next if it lives.
func (s *Sandbox) ask(ctx context.Context, q call) (out []byte, used bool, err error) {
	c := s.take(q.pool)
	if c == nil && s.warmed(ctx, q.pool) {
		c = s.take(q.pool)
	}
	used = c != nil
	if c == nil {
		if c, err = s.start(ctx, q.pool); err != nil {
			return nil, false, err
		}
	}
	begin := time.Now()
	out, err = c.exchange(ctx, q)
	c.busy += time.Since(begin)
	var death *Death
	if alive := err == nil || errors.As(err, &death) && death.Cause == Failed; alive && c.busy < maxBusy {
		s.keep(c)
	} else {
		c.stop()
	}
	return out, used, err
}
