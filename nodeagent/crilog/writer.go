package crilog

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Limits say when a log file is set aside and how many are kept.
type Limits struct {
	MaxSize  int64 // bytes; default 10 MiB
	MaxFiles int   // with the current one; default 5
}

func (l Limits) withDefaults() Limits {
	if l.MaxSize <= 0 {
		l.MaxSize = 10 << 20
	}
	if l.MaxFiles <= 0 {
		l.MaxFiles = 5
	}
	return l
}

// Writer appends lines to a log file and rotates it. It is not safe for
// concurrent use.
type Writer struct {
	path   string
	limits Limits
	file   *os.File
	size   int64
	buf    []byte
}

// NewWriter opens a log file, appending to what is there.
func NewWriter(path string, l Limits) (*Writer, error) {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil, fmt.Errorf("make log directory: %w", err)
	}
	w := &Writer{path: path, limits: l.withDefaults()}
	if err := w.open(); err != nil {
		return nil, err
	}
	return w, nil
}

func (w *Writer) open() error {
	f, err := os.OpenFile(w.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o640)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	fi, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return fmt.Errorf("open log: %w", err)
	}
	w.file, w.size = f, fi.Size()
	return nil
}

// Add puts a line into the buffer; Flush writes it.
func (w *Writer) Add(l Line) { w.buf = appendLine(w.buf, l) }

// Flush writes the added lines by one write, then rotates a file that has
// grown too large. Lines that it could not write stay added.
func (w *Writer) Flush(now time.Time) error {
	if len(w.buf) == 0 {
		return nil
	}
	n, err := w.file.Write(w.buf)
	w.size += int64(n)
	w.buf = append(w.buf[:0], w.buf[n:]...)
	if err != nil {
		return fmt.Errorf("write log: %w", err)
	}
	if w.size < w.limits.MaxSize {
		return nil
	}
	return w.rotate(now)
}

// Close closes the file. Lines that were not flushed are lost.
func (w *Writer) Close() error { return w.file.Close() }

func (w *Writer) rotate(now time.Time) error {
	aside := w.path + "." + now.UTC().Format("20060102-150405.000000000")
	// Gone: it was set aside, and then no new one could be made.
	if err := os.Rename(w.path, aside); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("rotate log: %w", err)
	}
	full := w.file
	if err := w.open(); err != nil {
		return err // the full one takes what comes, until there is another
	}
	_ = full.Close()
	old, err := rotated(w.path)
	if err != nil {
		return err
	}
	for len(old) > w.limits.MaxFiles-1 {
		if err := os.Remove(old[0]); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove old log: %w", err)
		}
		old = old[1:]
	}
	return nil
}

// rotated returns the files that were set aside for a log, oldest first.
func rotated(path string) ([]string, error) {
	entries, err := os.ReadDir(filepath.Dir(path))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list old logs: %w", err)
	}
	var out []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), filepath.Base(path)+".") {
			out = append(out, filepath.Join(filepath.Dir(path), e.Name()))
		}
	}
	slices.Sort(out)
	return out, nil
}

// Remove deletes a log with the files that were set aside for it.
func Remove(path string) error {
	old, err := rotated(path)
	if err != nil {
		return err
	}
	for _, p := range append(old, path) {
		if err := os.Remove(p); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove log: %w", err)
		}
	}
	return nil
}
