// Package progress shows a person what a long start is waiting for, and for
// how long. On a terminal the current step spins; elsewhere each step is one
// line when it is done.
//
// It owns the writer while it runs.
package progress

import (
	"fmt"
	"io"
	"sync"
	"time"
)

// Steps shows steps one after another.
type Steps struct {
	w        io.Writer
	terminal bool
	now      func() time.Time

	mu      sync.Mutex
	name    string
	detail  string
	since   time.Time
	stop    chan struct{}
	stopped chan struct{}
}

// New returns Steps that write to w. terminal says that w understands \r and
// colour.
func New(w io.Writer, terminal bool) *Steps {
	return &Steps{w: w, terminal: terminal, now: time.Now}
}

const (
	dim, green, red, reset = "\x1b[2m", "\x1b[32m", "\x1b[31m", "\x1b[0m"
	width                  = 22 // of the name column
)

// Start begins a step; the one before it is done.
func (s *Steps) Start(name, detail string) {
	s.Done("")
	s.mu.Lock()
	defer s.mu.Unlock()
	s.name, s.detail, s.since = name, detail, s.now()
	if s.terminal {
		s.stop, s.stopped = make(chan struct{}), make(chan struct{})
		go s.spin(s.stop, s.stopped)
	}
}

// Detail changes what the current step says it waits for.
func (s *Steps) Detail(detail string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.detail = detail
}

// Done ends the current step; a detail other than "" replaces its text.
func (s *Steps) Done(detail string) { s.end(detail, "✓", green) }

// Fail ends the current step as the one that failed.
func (s *Steps) Fail(detail string) { s.end(detail, "✗", red) }

func (s *Steps) end(detail, mark, colour string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.name == "" {
		return
	}
	if s.stop != nil {
		close(s.stop)
		s.mu.Unlock()
		<-s.stopped
		s.mu.Lock()
		s.stop = nil
	}
	if detail != "" {
		s.detail = detail
	}
	took := s.now().Sub(s.since)
	if s.terminal {
		fmt.Fprintf(s.w, "\r\x1b[K%s%s%s %-*s %s %s%s%s\n", colour, mark, reset, width, s.name, s.detail, dim, round(took), reset)
	} else {
		fmt.Fprintf(s.w, "%s %-*s %s (%s)\n", mark, width, s.name, s.detail, round(took))
	}
	s.name = ""
}

func (s *Steps) spin(stop, stopped chan struct{}) {
	defer close(stopped)
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	frames := []rune("⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏")
	for i := 0; ; i++ {
		s.mu.Lock()
		fmt.Fprintf(s.w, "\r\x1b[K%c %-*s %s %s%s%s", frames[i%len(frames)], width, s.name, s.detail, dim, round(s.now().Sub(s.since)), reset)
		s.mu.Unlock()
		select {
		case <-stop:
			return
		case <-tick.C:
		}
	}
}

func round(d time.Duration) string {
	if d < time.Second {
		return d.Round(time.Millisecond).String()
	}
	return d.Round(100 * time.Millisecond).String()
}
