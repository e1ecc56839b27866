package sandbox

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"
)

const long = time.Minute

func TestCall(t *testing.T) {
	s := sandbox(t, Config{})
	for _, n := range []int{0, 1, 100, 1 << 16, 20 << 20} {
		q := bytes.Repeat([]byte{'x'}, n)
		if got, err := Call(t.Context(), s, echo, q, long); err != nil || !bytes.Equal(got, q) {
			t.Fatalf("%d bytes: %v, %d bytes", n, err, len(got))
		}
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			if n, err := Call(t.Context(), s, count, strings.Repeat("x", i), long); n != i || err != nil {
				t.Error(n, err)
			}
		})
	}
	all.Wait()
	if s.counts.starts > slots {
		t.Errorf("%d children were started", s.counts.starts)
	}
}

// TestDeath: whatever becomes of a child, one call fails, with the reason, and
// the next is answered.
func TestDeath(t *testing.T) {
	s := sandbox(t, Config{})
	for how, want := range map[string]Death{
		"panic":    {Cause: Failed, Why: "it broke down: at the disco"},
		"overflow": {Cause: Crashed, Why: "stack overflow"},
		"routine":  {Cause: Crashed, Why: "it ended without an answer"},
		"exit":     {Cause: Crashed, Why: "it ended without an answer"},
		"spin":     {Cause: Late},
		"memory":   {Cause: Memory},
		"hoard":    {Cause: Memory},
		"stray":    {Cause: Garbage},
		"silence":  {Cause: Garbage},
	} {
		t.Run(how, func(t *testing.T) {
			if raceEnabled && (want.Cause == Memory || how == "overflow") {
				t.Skip("a child with the race detector has memory that it cannot say anything about: make test runs it without, too")
			}
			limit := long
			if how == "spin" {
				limit = time.Second
			}
			_, err := Call(t.Context(), s, fail, how, limit)
			var got *Death
			if !errors.As(err, &got) || got.At != 7 || got.Cause != want.Cause || want.Why != "" && got.Why != want.Why {
				t.Errorf("%#v", err)
			}
			if _, err := Call(t.Context(), s, fail, "nothing", long); err != nil {
				t.Error("the next call:", err)
			}
			t.Log(err)
		})
	}
	if s.counts.peak > maxMemory+maxMemory/4 {
		t.Errorf("a child had %d MiB", s.counts.peak>>20)
	}
}

// TestAnswer: an answer of another type, or larger than it may be, is none.
func TestAnswer(t *testing.T) {
	s := sandbox(t, Config{})
	var death *Death
	if _, err := Call(t.Context(), s, wrong, "x", long); !errors.As(err, &death) || death.Cause != Garbage {
		t.Error(err)
	}
	if _, err := Call(t.Context(), s, small, 1000, long); err != nil {
		t.Error(err)
	}
	if _, err := Call(t.Context(), s, small, 2000, long); !errors.As(err, &death) || death.Cause != Garbage {
		t.Error(err)
	}
	if _, err := Call(t.Context(), s, Func[int, int]{Name: "unknown"}, 1, long); !errors.As(err, &death) || death.Cause != Failed {
		t.Error(err)
	}
}

// TestCancel: who does not wait any longer is let go at once, and the child
// ends.
func TestCancel(t *testing.T) {
	s := sandbox(t, Config{})
	s.Warm(t.Context(), "")
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	begin := time.Now()
	if _, err := Call(ctx, s, fail, "spin", long); !errors.Is(err, context.DeadlineExceeded) {
		t.Error(err)
	}
	if took := time.Since(begin); took > long/2 {
		t.Error(took)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.idle) > 0 {
		t.Error("it waits for more")
	}
}

// TestIdle: a child that has nothing to do ends.
func TestIdle(t *testing.T) {
	s := sandbox(t, Config{Idle: time.Second})
	c, err := s.start(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	s.keep(c)
	select {
	case <-c.ended:
	case <-time.After(long):
		t.Error("it waits")
	}
}

// TestNoChild: that there is no child is no fault of what is asked.
func TestNoChild(t *testing.T) {
	s := sandbox(t, Config{binary: "/nonexistent"})
	var death *Death
	if _, err := Call(t.Context(), s, count, "x", long); err == nil || errors.As(err, &death) {
		t.Error(err)
	}
}

// TestToldOnce: what the kernel does not offer is said, once.
func TestToldOnce(t *testing.T) {
	var log bytes.Buffer
	s := sandbox(t, Config{Log: slog.New(slog.NewTextHandler(&log, nil)), skip: []string{layerSeccomp}})
	for range 2 {
		if _, err := Call(t.Context(), s, count, "x", long); err != nil {
			t.Fatal(err)
		}
		s.mu.Lock()
		c := s.idle[0]
		s.idle = nil
		s.mu.Unlock()
		c.expiry.Stop()
		c.stop()
	}
	if got := log.String(); strings.Count(got, "\n") != 1 || !strings.Contains(got, "seccomp: left out") {
		t.Error(got)
	}
}

func BenchmarkStart(b *testing.B) {
	for b.Loop() {
		s := sandbox(b, Config{})
		if _, err := Call(b.Context(), s, count, "x", long); err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}

func BenchmarkCall(b *testing.B) {
	for name, n := range map[string]int{"1B": 1, "100kB": 100_000, "10MB": 10_000_000} {
		b.Run(name, func(b *testing.B) {
			s, q := sandbox(b, Config{}), make([]byte, n)
			for b.Loop() {
				if _, err := Call(b.Context(), s, echo, q, long); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestLastWords: a child that reaches the limit of its memory says so in several
// ways.
func TestLastWords(t *testing.T) {
	for said, want := range map[string]string{
		"runtime: out of memory: cannot allocate 4194304-byte block (1 in use)\nfatal error: out of memory\n":         "out of memory: cannot allocate 4194304-byte block (1 in use)",
		"runtime/cgo: pthread_create failed: Resource temporarily unavailable\nSIGABRT: abort\n":                      noThread,
		"runtime: failed to create new OS thread (have 8 already; errno=12)\nfatal error: newosproc\n":                noThread,
		"runtime: goroutine stack exceeds 1000000000-byte limit\nfatal error: stack overflow\n\nruntime stack: ...\n": "stack overflow",
		"": "",
	} {
		l := &lastWords{}
		_, _ = l.Write([]byte(said))
		if got := l.reason(); got != want {
			t.Errorf("%q: %q, want %q", said, got, want)
		}
	}
}
