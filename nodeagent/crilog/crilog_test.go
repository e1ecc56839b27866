package crilog

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var t0 = time.Date(2026, 1, 2, 3, 4, 5, 600, time.UTC)

func TestLineFormat(t *testing.T) {
	l := Line{Time: t0, Stream: Stderr, Partial: true, Text: []byte("a b")}
	b := appendLine(nil, l)
	if want := "2026-01-02T03:04:05.000000600Z stderr P a b\n"; string(b) != want {
		t.Errorf("%q, want %q", b, want)
	}
	got, err := ParseLine(b)
	if err != nil || !got.Time.Equal(l.Time) || got.Stream != l.Stream || !got.Partial || string(got.Text) != "a b" {
		t.Errorf("%+v, %v", got, err)
	}
}

func FuzzParseLine(f *testing.F) {
	f.Add([]byte("2026-01-02T03:04:05.000000600Z stdout F x\n"))
	f.Add([]byte("2026-01-02T03:04:05Z stderr P:x \n"))
	f.Add([]byte(""))
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := ParseLine(b)
		if err != nil || bytes.Contains(l.Text, []byte("\n")) || l.Time.Year() > 9999 || l.Time.Year() < 0 {
			return
		}
		again, err := ParseLine(appendLine(nil, l))
		if err != nil || !again.Time.Equal(l.Time) || again.Stream != l.Stream || again.Partial != l.Partial || !bytes.Equal(again.Text, l.Text) {
			t.Errorf("%q: %+v became %+v, %v", b, l, again, err)
		}
	})
}

// writeLog writes n lines, a second apart, odd ones to stderr.
func writeLog(t *testing.T, path string, limits Limits, from, n int) {
	t.Helper()
	w, err := NewWriter(path, limits)
	if err != nil {
		t.Error(err)
		return
	}
	defer w.Close()
	for i := from; i < from+n; i++ {
		at := t0.Add(time.Duration(i) * time.Second)
		w.Add(Line{Time: at, Stream: []Stream{Stdout, Stderr}[i%2], Text: fmt.Appendf(nil, "%d", i)})
		if err := w.Flush(at); err != nil {
			t.Error(err)
		}
	}
}

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "c", "0.log")
	writeLog(t, path, Limits{MaxSize: 120, MaxFiles: 3}, 0, 10) // three lines a file
	tests := []struct {
		name string
		o    Options
		want string
	}{
		{"all that is kept", Options{Tail: -1}, "3 4 5 6 7 8 9"},
		{"tail in the last file", Options{Tail: 1}, "9"},
		{"tail over files", Options{Tail: 5}, "5 6 7 8 9"},
		{"tail beyond", Options{Tail: 100}, "3 4 5 6 7 8 9"},
		{"no line", Options{Tail: 0}, ""},
		{"since", Options{Tail: -1, Since: t0.Add(7 * time.Second)}, "7 8 9"},
		{"one stream", Options{Tail: -1, Stream: Stderr}, "3 5 7 9"},
		{"bytes", Options{Tail: -1, LimitBytes: 3}, "3 4"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			if err := Read(t.Context(), path, tt.o, &out); err != nil {
				t.Fatal(err)
			}
			if got := strings.Join(strings.Fields(out.String()), " "); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	var out bytes.Buffer
	if err := Read(t.Context(), path, Options{Tail: 1, Timestamps: true}, &out); err != nil || out.String() != "2026-01-02T03:04:14.000000600Z 9\n" {
		t.Errorf("with times: %q, %v", out.String(), err)
	}
	if err := Remove(path); err != nil {
		t.Fatal(err)
	}
	if left, _ := os.ReadDir(filepath.Dir(path)); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// signalWriter tells of every write.
type signalWriter struct{ ch chan string }

func (w signalWriter) Write(b []byte) (int, error) {
	w.ch <- string(b)
	return len(b), nil
}

func TestFollow(t *testing.T) {
	path := filepath.Join(t.TempDir(), "0.log")
	limits := Limits{MaxSize: 120, MaxFiles: 5}
	writeLog(t, path, limits, 0, 2)
	done := make(chan struct{})
	w := signalWriter{make(chan string, 100)}
	ended := make(chan error, 1)
	go func() { ended <- Read(t.Context(), path, Options{Tail: -1, Follow: true, Done: done}, w) }()
	for i := range 8 {
		if i == 2 {
			go writeLog(t, path, limits, 2, 6) // rotates twice
		}
		select {
		case got := <-w.ch:
			if want := fmt.Sprintf("%d\n", i); got != want {
				t.Fatalf("line %q, want %q", got, want)
			}
		case <-time.After(10 * time.Second):
			t.Fatalf("line %d did not come", i)
		}
		if i == 4 {
			time.Sleep(10 * time.Millisecond) // let the writer go ahead
		}
	}
	close(done)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func appendTo(t *testing.T, path, text string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := io.WriteString(f, text); err != nil {
		t.Fatal(err)
	}
}

func readAll(t *testing.T, path string) string {
	t.Helper()
	var out bytes.Buffer
	if err := Read(t.Context(), path, Options{Tail: -1}, &out); err != nil {
		t.Fatal(err)
	}
	return out.String()
}

func await(t *testing.T, path, want string) {
	t.Helper()
	for range 2000 {
		if readAll(t, path) == want {
			return
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatalf("log %q, want %q", readAll(t, path), want)
}

func TestCollector(t *testing.T) {
	dir, log := t.TempDir(), filepath.Join(t.TempDir(), "0.log")
	if err := PrepareRaw(dir); err != nil {
		t.Fatal(err)
	}
	stdout, stderr := RawPaths(dir)
	run := func() (*Collector, func()) {
		c, err := NewCollector(CollectorConfig{})
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- c.Run(ctx) }()
		return c, func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	c, stop := run()
	appendTo(t, stdout, "before\n")
	if err := c.Follow("id", dir, log); err != nil {
		t.Fatal(err)
	}
	await(t, log, "before\n")
	appendTo(t, stdout, "half a ")
	appendTo(t, stderr, "other\n")
	await(t, log, "before\nother\n")
	appendTo(t, stdout, "line\nrest")
	await(t, log, "before\nother\nhalf a line\n")
	stop()

	// What is printed while nobody collects is not lost, and nothing comes twice.
	appendTo(t, stdout, " of it\nlast words")
	c, stop = run()
	defer stop()
	if err := c.Follow("id", dir, log); err != nil {
		t.Fatal(err)
	}
	await(t, log, "before\nother\nhalf a line\nrest of it\n")
	if err := c.Drain("id"); err != nil {
		t.Fatal(err)
	}
	await(t, log, "before\nother\nhalf a line\nrest of it\nlast words")
	c.Forget("id")
}

// Long lines are cut, and space of what was copied is given back.
func TestCollectorLongAndMuch(t *testing.T) {
	dir, log := t.TempDir(), filepath.Join(t.TempDir(), "0.log")
	if err := PrepareRaw(dir); err != nil {
		t.Fatal(err)
	}
	c, err := NewCollector(CollectorConfig{Limits: Limits{MaxSize: 64 << 20}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.closeAll()
	stdout, _ := RawPaths(dir)
	long := strings.Repeat("x", 3*maxLine+5) + "\n"
	for range 64 {
		appendTo(t, stdout, long)
	}
	if err := c.Follow("id", dir, log); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, log); got != strings.Repeat(long, 64) {
		t.Errorf("%d bytes of log, want %d", len(got), 64*len(long))
	}
	b, err := os.ReadFile(log)
	if err != nil || bytes.Count(b, []byte(" P ")) != 3*64 {
		t.Errorf("%d partial lines, want %d", bytes.Count(b, []byte(" P ")), 3*64)
	}
}
