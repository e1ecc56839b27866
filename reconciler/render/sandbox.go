package render

import (
	"bufio"
	"cmp"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// childIdle is how long a child waits for work before it ends.
const childIdle = 20 * time.Second

// Sandbox renders the units that run what others wrote in a child process: this
// binary again, which renders one after the other, ends when it has had nothing
// to do, and is killed when one takes too long or too much. Its methods may be
// called from several goroutines; one unit is rendered at a time.
type Sandbox struct {
	path string
	turn chan struct{} // held by whom the fields below belong to
	now  *process
	idle *time.Timer
	peak int64 // most memory that a child had, in bytes
}

// NewSandbox returns a sandbox that runs a binary whose main calls ServeChild
// first. It starts nothing.
func NewSandbox(binary string) *Sandbox {
	return &Sandbox{path: binary, turn: make(chan struct{}, 1)}
}

// process is a running child.
type process struct {
	cmd  *exec.Cmd
	pipe io.Closer
	in   *gob.Encoder
	out  *gob.Decoder
	left *io.LimitedReader // what an answer may still have
	last *lastWords
}

// render renders a unit in the child. The error is that of a file that cannot
// be read, of a child that cannot be started, or of ctx.
func (s *Sandbox) render(ctx context.Context, out *Rendered, data []byte) (*Rendered, error) {
	j, opened, err := newJob(out.unit, data)
	if err != nil {
		return nil, err
	}
	a, err := s.answer(ctx, out.unit, j)
	if err == nil {
		var done *Rendered
		if done, err = a.replay(out, opened); err == nil || a.Error != "" {
			return done, err
		}
	}
	var broken *brokenError
	switch {
	case errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil:
		return tooSlow(out.unit), nil
	case errors.As(err, &broken) || errors.Is(err, errWire):
		return tooMuch(out, err), nil
	}
	return nil, err
}

// answer has a job done, within its time. A child that dies is started again
// once: the unit before this one may be to blame.
func (s *Sandbox) answer(ctx context.Context, u *Unit, j *job) (*answer, error) {
	select {
	case s.turn <- struct{}{}:
		defer func() { <-s.turn }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	ctx, cancel := context.WithTimeout(ctx, u.limit())
	defer cancel()
	used := s.now != nil
	a, err := s.ask(ctx, j)
	var broken *brokenError
	if used && errors.As(err, &broken) {
		a, err = s.ask(ctx, j)
	}
	return a, err
}

// brokenError is why a child has died.
type brokenError struct{ why string }

// Error implements error.
func (e *brokenError) Error() string { return e.why }

// tooMuch is the finding of a unit that no child has survived.
func tooMuch(out *Rendered, err error) *Rendered {
	out = out.again()
	message := fmt.Sprintf("the %s broke its evaluator down: %v", out.unit.what(), err)
	if strings.Contains(err.Error(), "memory") {
		message = fmt.Sprintf("the %s needs more than %s of memory", out.unit.what(), megabytes(childMemory))
	}
	out.find(v1alpha1.Finding{File: out.unit.Path, Rule: "TooLarge", Message: message, Hint: "make it smaller, or split it"})
	return out
}

// ask sends a job to the child and waits for the answer. An error ends the
// child.
func (s *Sandbox) ask(ctx context.Context, j *job) (*answer, error) {
	if s.now == nil {
		if err := s.start(); err != nil {
			return nil, err
		}
	}
	c := s.now
	s.idle.Stop()
	type reply struct {
		a   *answer
		err error
	}
	done := make(chan reply, 1)
	go func() {
		c.left.N = maxAnswer
		a := &answer{}
		err := c.in.Encode(j)
		if err == nil {
			err = c.out.Decode(a)
		}
		done <- reply{a, err}
	}()
	r := reply{err: context.DeadlineExceeded}
	select {
	case r = <-done:
	case <-ctx.Done():
	}
	if r.err == nil {
		s.idle.Reset(childIdle)
		return r.a, nil
	}
	s.stop()
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return nil, &brokenError{cmp.Or(c.last.reason(), r.err.Error())}
}

func (s *Sandbox) start() error {
	c := &process{cmd: exec.Command(s.path), last: &lastWords{}}
	c.cmd.Env = []string{childVariable + "=1"}
	c.cmd.Stderr = c.last
	in, err := c.cmd.StdinPipe()
	if err != nil {
		return fmt.Errorf("start evaluator: %w", err)
	}
	out, err := c.cmd.StdoutPipe()
	if err != nil {
		return fmt.Errorf("start evaluator: %w", err)
	}
	if err := c.cmd.Start(); err != nil {
		return fmt.Errorf("start evaluator: %w", err)
	}
	c.left = &io.LimitedReader{R: out}
	c.pipe, c.in, c.out, s.now = in, gob.NewEncoder(in), gob.NewDecoder(bufio.NewReader(c.left)), c
	s.idle = time.AfterFunc(childIdle, func() {
		s.turn <- struct{}{}
		defer func() { <-s.turn }()
		if s.now == c {
			s.stop()
		}
	})
	return nil
}

// stop ends the child and waits for it.
func (s *Sandbox) stop() {
	if s.now == nil {
		return
	}
	s.idle.Stop()
	_ = s.now.pipe.Close()
	_ = s.now.cmd.Process.Kill() // it may have ended
	_ = s.now.cmd.Wait()
	if u, ok := s.now.cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		s.peak = max(s.peak, u.Maxrss<<10)
	}
	s.now = nil
}

// Close ends the child.
func (s *Sandbox) Close() {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	s.stop()
}

// lastWords is the beginning of what a child says as it dies.
type lastWords struct {
	mu   sync.Mutex
	text []byte
}

// Write implements io.Writer. It takes all and keeps little.
func (l *lastWords) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.text = append(l.text, p[:min(len(p), 4<<10-len(l.text))]...)
	return len(p), nil
}

// reason is why the runtime has ended the child, in its words; nothing that the
// unit made is in them.
func (l *lastWords) reason() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	for line := range strings.Lines(string(l.text)) {
		if why, ok := strings.CutPrefix(strings.TrimSpace(line), "fatal error: "); ok {
			return why
		}
	}
	return ""
}
