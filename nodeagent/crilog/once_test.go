package crilog

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// rawOutput makes the raw files of a container, with something in stdout.
func rawOutput(t *testing.T, text string) (dir, log string) {
	t.Helper()
	dir = t.TempDir()
	if err := PrepareRaw(dir); err != nil {
		t.Fatal(err)
	}
	stdout, _ := RawPaths(dir)
	appendTo(t, stdout, text)
	return dir, filepath.Join(dir, "log", "0.log")
}

// copyOnce is a process that copies what there is and ends.
func copyOnce(t *testing.T, dir, log string, l Limits) {
	t.Helper()
	s, err := openSource(dir, log, l)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	if err := s.copy(time.Now, false); err != nil {
		t.Fatal(err)
	}
}

// Wherever a process is killed while it copies, every line is in the log once:
// before the write of the log, after it, and in its middle.
func TestEveryLineIsThereOnceAfterAKill(t *testing.T) {
	const had, then = "1\n2\n", "3\n4\n"
	for _, written := range []string{"nothing", "half", "all", "all, and set aside"} {
		t.Run(written, func(t *testing.T) {
			dir, log := rawOutput(t, had)
			copyOnce(t, dir, log, Limits{})
			before, err := os.Stat(log)
			if err != nil {
				t.Fatal(err)
			}
			stdout, _ := RawPaths(dir)
			appendTo(t, stdout, then)
			copyOnce(t, dir, log, Limits{}) // killed somewhere in it:
			switch written {
			case "nothing":
				err = os.Truncate(log, before.Size())
			case "half":
				err = os.Truncate(log, before.Size()+7)
			case "all, and set aside":
				err = os.Rename(log, log+".20260102-030405.000000001")
			}
			if err != nil {
				t.Fatal(err)
			}
			copyOnce(t, dir, log, Limits{})
			appendTo(t, stdout, "5\n")
			copyOnce(t, dir, log, Limits{})
			if got, want := readAll(t, log), had+then+"5\n"; got != want {
				t.Errorf("the log has %q, want %q", got, want)
			}
		})
	}
}

// The note of a version before this one is understood, and it understands ours.
func TestNoteOfTheVersionBefore(t *testing.T) {
	dir, log := rawOutput(t, "1\n2\n")
	copyOnce(t, dir, log, Limits{})
	copied := filepath.Join(dir, "copied")
	if err := os.Truncate(copied, plainNote); err != nil {
		t.Fatal(err)
	}
	stdout, _ := RawPaths(dir)
	appendTo(t, stdout, "3\n")
	copyOnce(t, dir, log, Limits{})
	if got := readAll(t, log); got != "1\n2\n3\n" {
		t.Errorf("the log has %q", got)
	}
}

// A disk that is full takes a part of a write: the rest follows when there is
// room, once, and until then the buffer does not grow.
func TestEveryLineIsThereOnceAfterAFullDisk(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("a small disk needs root")
	}
	var want strings.Builder
	for i := range 20_000 {
		fmt.Fprintf(&want, "line %d\n", i)
	}
	dir, _ := rawOutput(t, want.String())
	small := t.TempDir()
	if err := unix.Mount("tmpfs", small, "tmpfs", 0, "size=64k"); err != nil {
		t.Fatal(err)
	}
	defer unix.Unmount(small, unix.MNT_DETACH) //nolint:errcheck // the kernel takes it away with the test
	log := filepath.Join(small, "0.log")
	s, err := openSource(dir, log, Limits{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	held := 0
	for range 5 {
		if err := s.copy(time.Now, false); err == nil {
			t.Fatal("there was room for all")
		}
		if held == 0 {
			held = cap(s.log.buf)
		}
		if cap(s.log.buf) > held {
			t.Errorf("the buffer grew from %d to %d bytes", held, cap(s.log.buf))
		}
	}
	if err := unix.Mount("", small, "", unix.MS_REMOUNT, "size=16m"); err != nil {
		t.Fatal(err)
	}
	if err := s.copy(time.Now, false); err != nil {
		t.Fatal(err)
	}
	if got := readAll(t, log); got != want.String() {
		t.Errorf("the log has %d bytes, want %d", len(got), want.Len())
	}
}

// A log that cannot be set aside is written on: nothing of it is there twice.
func TestALogThatCannotBeSetAside(t *testing.T) {
	dir, log := rawOutput(t, "1\n2\n")
	s, err := openSource(dir, log, Limits{MaxSize: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	s.log.path = filepath.Join(dir, "missing", "0.log") // no new one can be made
	for range 3 {
		if err := s.copy(time.Now, false); err == nil && !s.log.empty() {
			t.Fatal("nothing was written, and nothing said")
		}
	}
	if got := readAll(t, log); got != "1\n2\n" {
		t.Errorf("the log has %q", got)
	}
}

// A container whose log cannot be written now keeps back no other's.
func TestNobodyWaitsForAnothersLog(t *testing.T) {
	c, err := NewCollector(CollectorConfig{})
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	stuckDir, stuckLog := rawOutput(t, "")
	dir, log := rawOutput(t, "")
	for id, at := range map[string][2]string{"stuck": {stuckDir, stuckLog}, "free": {dir, log}} {
		if err := c.Follow(id, at[0], at[1]); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	go func() { ended <- c.Run(ctx) }()
	stuck := c.source("stuck")
	stuck.mu.Lock() // as by a write that does not return
	out, _ := RawPaths(stuckDir)
	appendTo(t, out, "lost?\n")
	time.Sleep(50 * time.Millisecond) // its turn comes first
	out, _ = RawPaths(dir)
	appendTo(t, out, "here\n")
	came := func() bool {
		for range 1000 {
			if readAll(t, log) == "here\n" {
				return true
			}
			time.Sleep(time.Millisecond)
		}
		return false
	}()
	stuck.mu.Unlock()
	if !came {
		t.Error("its output waits for another's log")
	}
	await(t, stuckLog, "lost?\n")
	stop()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// A flood of one stream does not keep the other waiting.
func TestStreamsTakeTurns(t *testing.T) {
	dir, log := rawOutput(t, strings.Repeat(strings.Repeat("x", 99)+"\n", 10_000))
	_, stderr := RawPaths(dir)
	appendTo(t, stderr, "error\n")
	copyOnce(t, dir, log, Limits{})
	got := readAll(t, log)
	at := strings.Index(got, "error\n")
	if at < 0 || at > 128<<10 || len(got) != 10_000*100+6 {
		t.Errorf("the word of stderr comes at byte %d of %d", at, len(got))
	}
}
