package crilog

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// A tap gives what is printed after it was opened, all of it and at once,
// though its reader is slow and the collector long done.
func TestTap(t *testing.T) {
	dir := t.TempDir()
	c, err := NewCollector(CollectorConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.closeAll()
	if err := PrepareRaw(dir); err != nil {
		t.Fatal(err)
	}
	stdout, _ := RawPaths(dir)
	say := func(b []byte) {
		t.Helper()
		f, err := os.OpenFile(stdout, os.O_APPEND|os.O_WRONLY, 0)
		if err == nil {
			_, err = f.Write(b)
		}
		if err := errors.Join(err, f.Close(), c.Drain("id")); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Follow("id", dir, filepath.Join(dir, "0.log")); err != nil {
		t.Fatal(err)
	}
	say([]byte("before\n"))
	ended := make(chan struct{})
	tap, err := c.Tap("id", dir, ended)
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	r, w := io.Pipe()
	done := make(chan error, 1)
	go func() {
		done <- tap.Copy(t.Context(), w, nil)
		_ = w.Close()
	}()
	say([]byte("$ ")) // without the end of a line
	prompt := make([]byte, 2)
	if _, err := io.ReadFull(r, prompt); err != nil || string(prompt) != "$ " {
		t.Fatalf("%q, %v", prompt, err)
	}
	want := bytes.Repeat([]byte("0123456789abcdef\n"), 1<<16)
	say(want) // the collector gives space back that was read, and no other
	close(ended)
	got, err := io.ReadAll(r)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes of %d, %v; zeros among them: %v", len(got), len(want), err, bytes.IndexByte(got, 0) >= 0)
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Who has gone holds up nothing; a container whose output is discarded can be
// joined as well.
func TestTapEnds(t *testing.T) {
	c, err := NewCollector(CollectorConfig{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.closeAll()
	tap, err := c.Tap("nobody", t.TempDir(), make(chan struct{}))
	if err != nil {
		t.Fatal(err)
	}
	defer tap.Close()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := tap.Copy(ctx, io.Discard, io.Discard); err != nil {
		t.Error(err)
	}
}
