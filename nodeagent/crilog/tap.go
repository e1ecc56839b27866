package crilog

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
)

// Tap reads what a container prints from now on, as it is printed, unfinished
// lines too. It has no buffer: it reads the raw files at its own pace, and what
// it has not read yet keeps its space on the disk. A slow reader thus costs
// neither memory nor the container's time.
type Tap struct {
	source *source
	wake   chan struct{}
	ended  <-chan struct{}
	files  [2]*os.File // stdout, stderr
	at     [2]atomic.Int64
}

// Tap joins the output of a container that is followed. dir has its raw files,
// ended is closed when it prints no more. The caller closes the tap.
func (c *Collector) Tap(id, dir string, ended <-chan struct{}) (*Tap, error) {
	t := &Tap{source: c.source(id), wake: make(chan struct{}, 1), ended: ended}
	if t.source == nil {
		return t, nil // its output is discarded: nothing will come
	}
	t.source.mu.Lock()
	defer t.source.mu.Unlock()
	stdout, stderr := RawPaths(dir)
	for i, path := range []string{stdout, stderr} {
		f, err := os.Open(path)
		if err != nil {
			t.closeFiles()
			return nil, fmt.Errorf("join output: %w", err)
		}
		t.files[i] = f
		end, err := f.Seek(0, io.SeekEnd)
		if err != nil {
			t.closeFiles()
			return nil, fmt.Errorf("join output: %w", err)
		}
		t.at[i].Store(end)
	}
	if t.source.taps == nil {
		t.source.taps = map[*Tap]bool{}
	}
	t.source.taps[t] = true
	return t, nil
}

// Copy writes to stdout and stderr (nil leaves one out) until the container has
// ended and all was written, a write fails, or ctx ends.
func (t *Tap) Copy(ctx context.Context, stdout, stderr io.Writer) error {
	buf := make([]byte, 32<<10)
	for {
		last := false
		select {
		case <-t.ended:
			last = true
		default:
		}
		for i, w := range []io.Writer{stdout, stderr} {
			if err := t.copy(i, w, buf); err != nil {
				return err
			}
		}
		if last {
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-t.ended:
		case <-t.wake:
		}
	}
}

// copy writes what there is of one stream.
func (t *Tap) copy(i int, w io.Writer, buf []byte) error {
	if t.files[i] == nil {
		return nil
	}
	for {
		n, err := t.files[i].ReadAt(buf, t.at[i].Load())
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read output: %w", err)
		}
		if n == 0 {
			return nil
		}
		if w != nil {
			if _, err := w.Write(buf[:n]); err != nil {
				return fmt.Errorf("write output to client: %w", err)
			}
		}
		t.at[i].Add(int64(n))
	}
}

// read is how far a stream was read.
func (t *Tap) read(s Stream) int64 {
	if s == Stdout {
		return t.at[0].Load()
	}
	return t.at[1].Load()
}

func (t *Tap) poke() {
	select {
	case t.wake <- struct{}{}:
	default:
	}
}

// Close leaves the output.
func (t *Tap) Close() {
	if t.source != nil {
		t.source.mu.Lock()
		delete(t.source.taps, t)
		t.source.mu.Unlock()
	}
	t.closeFiles()
}

func (t *Tap) closeFiles() {
	for _, f := range t.files {
		if f != nil {
			_ = f.Close()
		}
	}
}
