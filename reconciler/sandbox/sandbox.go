package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

const (
	slots    = 2               // children that run at once
	keepIdle = time.Minute     // how long a child waits for work before it ends
	maxBusy  = 2 * time.Minute // of one child: the next has nothing of the last
)

// Config is everything a sandbox needs from outside.
type Config struct {
	// Log is told once what the kernel does not offer; nil: nobody.
	Log *slog.Logger
	// Idle is how long a child waits for work before it ends. Default a minute.
	Idle time.Duration

	binary string   // instead of this one, in tests
	skip   []string // layers that are left out, in tests
}

// Sandbox runs functions in children. Its methods may be called from several
// goroutines.
type Sandbox struct {
	cfg   Config
	slots chan struct{}

	mu     sync.Mutex
	idle   []*child
	closed bool
	told   bool
	layers *Layers // of the last child
	counts counts
}

// New returns a sandbox; it starts nothing. The main of the process must call
// Serve.
func New(cfg Config) *Sandbox {
	if cfg.Idle == 0 {
		cfg.Idle = keepIdle
	}
	return &Sandbox{cfg: cfg, slots: make(chan struct{}, slots), counts: counts{deaths: map[Cause]int{}}}
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
	var a A
	if s == nil {
		return here(ctx, f, q, limit)
	}
	body, err := encoding.Marshal(q)
	if err != nil {
		return a, fmt.Errorf("ask %s: %w", f.Name, err)
	}
	most := f.Max
	if most == 0 {
		most = MaxAnswer
	}
	got, err := s.call(ctx, f.Name, body, most, limit)
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

func (s *Sandbox) call(ctx context.Context, name string, body []byte, most int64, limit time.Duration) ([]byte, error) {
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	out, used, err := s.ask(ctx, name, body, most, limit)
	var death *Death
	if used && errors.As(err, &death) && death.Cause != Failed && death.Cause != Late {
		out, _, err = s.ask(ctx, name, body, most, limit)
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if errors.As(err, &death) {
		s.count(death.Cause)
	}
	return out, err
}

// here runs a function without a child.
func here[Q, A any](ctx context.Context, f Func[Q, A], q Q, limit time.Duration) (A, error) {
	type result struct {
		a   A
		err error
	}
	var at atomic.Int64
	at.Store(-1)
	done := make(chan result, 1)
	go func() {
		var r result
		defer func() {
			if p := recover(); p != nil {
				r.err = &Death{Cause: Failed, Why: fmt.Sprintf("it broke down: %v", p), At: int(at.Load())}
			}
			done <- r
		}()
		r.a = f.Do(q, func(n int) { at.Store(int64(n)) })
	}()
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case r := <-done:
		return r.a, cmp.Or(ctx.Err(), r.err)
	case <-ctx.Done():
		var none A
		return none, ctx.Err()
	case <-late.C:
		var none A
		return none, &Death{Cause: Late, Limit: limit, At: int(at.Load())}
	}
}

// ask asks a child, and keeps it for the next if it lives.
func (s *Sandbox) ask(ctx context.Context, name string, body []byte, most int64, limit time.Duration) (out []byte, used bool, err error) {
	c := s.take()
	used = c != nil
	if c == nil {
		if c, err = s.start(ctx); err != nil {
			return nil, false, err
		}
	}
	begin := time.Now()
	out, err = c.exchange(ctx, name, body, most, limit)
	c.busy += time.Since(begin)
	var death *Death
	if alive := err == nil || errors.As(err, &death) && death.Cause == Failed; alive && c.busy < maxBusy {
		s.keep(c)
	} else {
		c.stop()
	}
	return out, used, err
}

// Warm starts a child where none waits, so that the next call has one. It
// returns when that is ready; what is wrong the next call says.
func (s *Sandbox) Warm(ctx context.Context) {
	if s == nil {
		return
	}
	s.mu.Lock()
	waiting := len(s.idle)
	s.mu.Unlock()
	if waiting > 0 {
		return
	}
	if c, err := s.start(ctx); err == nil {
		s.keep(c)
	}
}

// take takes the child that was used last: its memory is warm, and others may
// end.
func (s *Sandbox) take() *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) == 0 {
		return nil
	}
	c := s.idle[len(s.idle)-1]
	s.idle = s.idle[:len(s.idle)-1]
	c.expiry.Stop()
	return c
}

func (s *Sandbox) keep(c *child) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || len(s.idle) == slots {
		go c.stop()
		return
	}
	s.idle = append(s.idle, c)
	c.expiry = time.AfterFunc(s.cfg.Idle, func() { s.expire(c) })
}

func (s *Sandbox) expire(c *child) {
	s.mu.Lock()
	i := slices.Index(s.idle, c)
	if i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
	}
	s.mu.Unlock()
	if i >= 0 {
		c.stop()
	}
}

// Close ends the children that wait; those that work end with their calls.
func (s *Sandbox) Close() {
	s.mu.Lock()
	s.closed = true
	idle := s.idle
	s.idle = nil
	s.mu.Unlock()
	for _, c := range idle {
		c.expiry.Stop()
		c.stop()
	}
}
