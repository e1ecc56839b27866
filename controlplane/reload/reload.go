// Package reload follows files that an operator may replace under a running
// server: configuration, CAs, certificates.
//
// It watches the files' content, by reading them at an interval: that sees
// through symbolic links that are swapped and file systems without
// notifications. It owns nothing. It promises that what cannot be used leaves
// everything as it was, is said once in the log and counted, and is taken up
// as soon as it is mended.
package reload

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"time"
)

const (
	// Every is how often files are read: upstream sees a change at once where
	// the file system tells it, and within a minute elsewhere.
	Every = 10 * time.Second
	// maxFile bounds a file.
	maxFile = 4 << 20
)

// Config says what to follow.
type Config struct {
	// Name is what the files are, in the log and in metrics: as upstream,
	// "authorization_config".
	Name string
	// Files belong together, as a certificate and its key: they are taken over
	// together.
	Files []string
	// Take takes over what the files hold, in the order of Files. On an error
	// all must be as it was; it is not called again before the files change,
	// unless the error is one of Later.
	Take func(ctx context.Context, data [][]byte) error
	// Every is how often the files are read. Default: Every.
	Every   time.Duration
	Metrics *Metrics // nil: nothing is counted
	Log     *slog.Logger
}

// Watcher follows files. Load, Check and Run must not run at once.
type Watcher struct {
	cfg  Config
	seen [][]byte
	said string // the last failure, which is not said again
}

// New returns a watcher; it reads nothing.
func New(cfg Config) *Watcher {
	if cfg.Every == 0 {
		cfg.Every = Every
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Watcher{cfg: cfg}
}

// Load reads the files for the first time. Its errors are for the start of the
// server to fail with.
func (w *Watcher) Load(ctx context.Context) error {
	data, err := w.read()
	if err != nil {
		return err
	}
	w.seen = data
	if err := w.cfg.Take(ctx, data); err != nil {
		return err
	}
	w.cfg.Metrics.current(w.cfg.Name, data)
	return nil
}

// Run follows the files until ctx ends. It always returns nil: a server goes on
// with what it has.
func (w *Watcher) Run(ctx context.Context) error {
	tick := time.NewTicker(w.cfg.Every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			w.Check(ctx)
		}
	}
}

// Check reads the files once, and takes them over if they have changed.
func (w *Watcher) Check(ctx context.Context) {
	data, err := w.read()
	if err == nil {
		if equal(data, w.seen) {
			w.said = ""
			return
		}
		err = w.cfg.Take(ctx, data)
		if ctx.Err() != nil {
			return
		}
		if later := (*laterError)(nil); !errors.As(err, &later) {
			w.seen = data
		}
	}
	w.cfg.Metrics.reloaded(w.cfg.Name, data, err)
	switch {
	case err == nil:
		w.said = ""
		w.cfg.Log.Info("file reloaded", "what", w.cfg.Name, "files", w.cfg.Files)
	case err.Error() != w.said:
		w.said = err.Error()
		w.cfg.Log.Error("file not reloaded, what it was stays in force", "what", w.cfg.Name, "files", w.cfg.Files, "err", err)
	}
}

func (w *Watcher) read() ([][]byte, error) {
	all := make([][]byte, len(w.cfg.Files))
	for i, path := range w.cfg.Files {
		b, err := ReadFile(path)
		if err != nil {
			return nil, err
		}
		all[i] = b
	}
	return all, nil
}

// ReadFile reads a file of at most 4 MiB.
func ReadFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("read file: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read file: %w", err)
	case len(b) > maxFile:
		return nil, fmt.Errorf("read file: %s is larger than %d bytes", path, maxFile)
	}
	return b, nil
}

func equal(a, b [][]byte) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			return false
		}
	}
	return true
}

// Later marks an error that may pass without a change of the files, such as a
// server that does not answer: the same content is tried again. nil stays nil.
func Later(err error) error {
	if err == nil {
		return nil
	}
	return &laterError{err}
}

type laterError struct{ error }

func (e *laterError) Unwrap() error { return e.error }
