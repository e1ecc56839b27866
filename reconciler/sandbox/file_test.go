package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// halves returns the first half of its file, with what its caller says of the
// second, and tries to write.
var halves = Func[int, string]{Name: "halves", Pool: "files", With: func(size int, c *Caller) string {
	b := make([]byte, size/2)
	if _, err := c.File.ReadAt(b, 0); err != nil {
		return err.Error()
	}
	if n, err := c.File.ReadAt(make([]byte, size+1), 0); n != size || !errors.Is(err, io.EOF) {
		return "the end is not where it should be"
	}
	if f, ok := c.File.(given); ok {
		if _, err := unix.Write(int(f), []byte("x")); err == nil {
			return "it was written"
		}
	}
	rest, err := c.Ask([]byte("and then"))
	if err != nil {
		return "asked: " + err.Error()
	}
	c.At(1)
	more, err := c.Ask(rest)
	if err != nil {
		return "asked: " + err.Error()
	}
	return string(b) + string(more)
}}

func openFile(t *testing.T, content string) *os.File {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	return f
}

// A function reads a file that its user could not open, and is answered; so it is
// where there is no sandbox.
func TestFileAndQuestions(t *testing.T) {
	for name, s := range map[string]*Sandbox{"child": sandbox(t, Config{}), "here": nil} {
		for i := range 3 {
			var asked []string
			h := Help{File: openFile(t, "ab"+strings.Repeat("x", i*2)), Answer: func(q []byte) ([]byte, error) {
				asked = append(asked, string(q))
				return append([]byte("!"), q...), nil
			}}
			got, err := CallWith(t.Context(), s, halves, 2+i*2, h, long)
			want := ("ab" + strings.Repeat("x", i*2))[:1+i] + "!!and then"
			if err != nil || got != want || strings.Join(asked, ",") != "and then,!and then" {
				t.Errorf("%s: %q %v %q", name, got, err, asked)
			}
		}
		h := Help{File: openFile(t, "abcd"), Answer: func([]byte) ([]byte, error) { return nil, errors.New("nobody knows") }}
		if got, err := CallWith(t.Context(), s, halves, 4, h, long); err != nil || got != "asked: nobody knows" {
			t.Errorf("%s: %q %v", name, got, err)
		}
	}
}

// Functions of different pools have different children.
func TestPools(t *testing.T) {
	s := sandbox(t, Config{})
	if _, err := Call(t.Context(), s, echo, []byte("x"), long); err != nil {
		t.Fatal(err)
	}
	h := Help{File: openFile(t, "abcd"), Answer: func(q []byte) ([]byte, error) { return q, nil }}
	for range 2 {
		if _, err := CallWith(t.Context(), s, halves, 4, h, long); err != nil {
			t.Fatal(err)
		}
	}
	if s.counts.starts != 2 {
		t.Errorf("%d children were started, want 2", s.counts.starts)
	}
}

// A child that is killed while its caller answers costs the call.
func TestKilledWhileItAsks(t *testing.T) {
	s := sandbox(t, Config{})
	h := Help{File: openFile(t, "abcd")}
	h.Answer = func(q []byte) ([]byte, error) {
		c, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return nil, err
		}
		for _, task := range c {
			b, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
			for _, pid := range bytes.Fields(b) {
				if n := number(pid); n > 0 {
					_ = unix.Kill(n, unix.SIGKILL)
				}
			}
		}
		return q, nil
	}
	_, err := CallWith(t.Context(), s, halves, 4, h, long)
	var death *Death
	if !errors.As(err, &death) || death.Cause != Crashed {
		t.Errorf("%v", err)
	}
}

func number(b []byte) (n int) {
	for _, c := range b {
		n = n*10 + int(c-'0')
	}
	return n
}

// A call waits for the child that Warm is starting, and starts no other.
func TestCallWaitsForWarm(t *testing.T) {
	s := sandbox(t, Config{})
	ready := make(chan struct{})
	s.warm["files"] = ready
	c, err := s.start(t.Context(), "files")
	if err != nil {
		t.Fatal(err)
	}
	time.AfterFunc(10*time.Millisecond, func() {
		s.keep(c)
		s.mu.Lock()
		delete(s.warm, "files")
		s.mu.Unlock()
		close(ready)
	})
	h := Help{File: openFile(t, "abcd"), Answer: func(q []byte) ([]byte, error) { return q, nil }}
	if _, err := CallWith(t.Context(), s, halves, 4, h, long); err != nil || s.counts.starts != 1 {
		t.Errorf("%v, %d children", err, s.counts.starts)
	}
	s.Warm(context.Background(), "files")
	if s.counts.starts != 1 {
		t.Errorf("%d children: one waits already", s.counts.starts)
	}
}
