package crilog

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// CollectorConfig configures a Collector.
type CollectorConfig struct {
	Limits Limits
	Log    *slog.Logger
	Now    func() time.Time // default time.Now
}

// Collector follows the raw output of containers and writes their logs.
type Collector struct {
	cfg     CollectorConfig
	ino     *inotify
	mu      sync.Mutex
	sources map[string]*source // by container ID
	byWatch map[int]*source
}

// NewCollector returns a collector. Run must be called for it to follow
// anything; Drain works without.
func NewCollector(cfg CollectorConfig) (*Collector, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	ino, err := newInotify()
	if err != nil {
		return nil, err
	}
	return &Collector{cfg: cfg, ino: ino, sources: map[string]*source{}, byWatch: map[int]*source{}}, nil
}

// RawPaths returns the files in dir that a container's output is appended to.
func RawPaths(dir string) (stdout, stderr string) {
	return filepath.Join(dir, "stdout"), filepath.Join(dir, "stderr")
}

// PrepareRaw makes the raw files of a container.
func PrepareRaw(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make output directory: %w", err)
	}
	stdout, stderr := RawPaths(dir)
	for _, p := range []string{stdout, stderr} {
		f, err := os.OpenFile(p, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			return fmt.Errorf("make output file: %w", err)
		}
		_ = f.Close()
	}
	return nil
}

// Follow begins to copy the raw files in dir to the log of a container, from
// where an earlier collector has come to. Following twice is no error.
func (c *Collector) Follow(id, dir, logPath string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sources[id] != nil {
		return nil
	}
	s, err := openSource(dir, logPath, c.cfg.Limits)
	if err != nil {
		return fmt.Errorf("follow output of %s: %w", id, err)
	}
	for i := range s.streams {
		wd, err := c.ino.add(s.streams[i].file.Name(), unix.IN_MODIFY)
		if err != nil {
			s.close()
			return fmt.Errorf("follow output of %s: %w", id, err)
		}
		s.streams[i].wd = wd
	}
	c.sources[id] = s
	for i := range s.streams {
		c.byWatch[s.streams[i].wd] = s
	}
	return s.copy(c.cfg.Now, false)
}

// Drain writes all that a container has printed so far to its log, the last
// line also if it has no end.
func (c *Collector) Drain(id string) error {
	if s := c.source(id); s != nil {
		return s.copy(c.cfg.Now, true)
	}
	return nil
}

// Forget stops following a container. Its raw files may be deleted then.
func (c *Collector) Forget(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.sources[id]
	if s == nil {
		return
	}
	delete(c.sources, id)
	for i := range s.streams {
		delete(c.byWatch, s.streams[i].wd)
		c.ino.remove(s.streams[i].wd)
	}
	s.close()
}

func (c *Collector) source(id string) *source {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.sources[id]
}

// Run follows the raw files until ctx ends, then closes the collector.
func (c *Collector) Run(ctx context.Context) error {
	defer context.AfterFunc(ctx, c.ino.close)()
	var copying sync.WaitGroup
	defer copying.Wait()
	defer c.closeAll()
	buf := make([]byte, 16<<10)
	for {
		wds, overflow, err := c.ino.read(buf)
		switch {
		case ctx.Err() != nil || errors.Is(err, os.ErrClosed):
			return nil
		case err != nil:
			return fmt.Errorf("read inotify: %w", err)
		}
		for _, s := range c.changed(wds, overflow) {
			if s.begin() {
				copying.Go(func() { c.copyAll(s) })
			}
		}
	}
}

// copyAll copies until nothing is new. Each container has a copier of its own
// while it prints: one whose log is on a disk that hangs, or that prints without
// end, keeps nobody else's output back.
func (c *Collector) copyAll(s *source) {
	for {
		if err := s.copy(c.cfg.Now, false); err != nil {
			// A full disk must not end the agent: the output stays in the raw
			// file and is copied when the next line comes.
			c.cfg.Log.Warn("copy container output", "log", s.log.path, "err", err)
		}
		if s.done() {
			return
		}
	}
}

// begin says whether the caller is to copy: somebody who does already looks once
// more.
func (s *source) begin() bool {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.turn.again = s.turn.running
	if s.turn.running {
		return false
	}
	s.turn.running = true
	return true
}

// done says whether the copier may leave.
func (s *source) done() bool {
	s.turn.Lock()
	defer s.turn.Unlock()
	s.turn.running, s.turn.again = s.turn.again, false
	return !s.turn.running
}

func (c *Collector) changed(wds []int, all bool) []*source {
	c.mu.Lock()
	defer c.mu.Unlock()
	seen := map[*source]bool{}
	var out []*source
	add := func(s *source) {
		if s != nil && !seen[s] {
			seen[s] = true
			out = append(out, s)
		}
	}
	if all {
		for _, s := range c.sources {
			add(s)
		}
		return out
	}
	for _, wd := range wds {
		add(c.byWatch[wd])
	}
	return out
}

func (c *Collector) closeAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, s := range c.sources {
		s.close()
		delete(c.sources, id)
	}
	clear(c.byWatch)
	c.ino.close()
}

func isNotExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
