package crilog

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

// punchAfter is how much of a raw file is copied before its space is given
// back to the file system.
const punchAfter = 256 << 10

// source is the output of one container: two raw files that grow, the log that
// they are copied to, and the note how far they were copied.
type source struct {
	mu      sync.Mutex
	streams [2]stream
	log     *Writer
	pos     *os.File // two little-endian uint64: bytes copied of stdout, stderr
	closed  bool
	chunk   []byte
	taps    map[*Tap]bool
}

type stream struct {
	name    Stream
	file    *os.File
	wd      int
	copied  int64 // all before it is in the log
	punched int64 // all before it was given back
}

func openSource(dir, logPath string, l Limits) (*source, error) {
	s := &source{}
	ok := false
	defer func() {
		if !ok {
			s.close()
		}
	}()
	stdout, stderr := RawPaths(dir)
	for i, p := range []string{stdout, stderr} {
		// Writable, because giving space back is a write.
		f, err := os.OpenFile(p, os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		s.streams[i] = stream{name: []Stream{Stdout, Stderr}[i], file: f}
	}
	var err error
	if s.pos, err = os.OpenFile(filepath.Join(dir, "copied"), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
		return nil, err
	}
	if err := s.restore(); err != nil {
		return nil, err
	}
	if s.log, err = NewWriter(logPath, l); err != nil {
		return nil, err
	}
	ok = true
	return s, nil
}

func (s *source) restore() error {
	var b [16]byte
	if _, err := s.pos.ReadAt(b[:], 0); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("read position: %w", err)
	}
	for i := range s.streams {
		st := &s.streams[i]
		st.copied = int64(binary.LittleEndian.Uint64(b[8*i:]))
		fi, err := st.file.Stat()
		if err != nil {
			return err
		}
		if st.copied > fi.Size() || st.copied < 0 {
			st.copied = 0
		}
		st.punched = st.copied / punchAfter * punchAfter
	}
	return nil
}

// copy moves what the container has printed to its log. With end also the
// last line that has no newline.
func (s *source) copy(now func() time.Time, end bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	for t := range s.taps {
		t.poke()
	}
	for i := range s.streams {
		if err := s.copyStream(&s.streams[i], now, end); err != nil {
			return err
		}
	}
	return nil
}

func (s *source) copyStream(st *stream, now func() time.Time, end bool) error {
	if s.chunk == nil {
		s.chunk = make([]byte, 64<<10)
	}
	for {
		n, err := st.file.ReadAt(s.chunk, st.copied)
		if err != nil && !errors.Is(err, io.EOF) {
			return fmt.Errorf("read output: %w", err)
		}
		last := end && n < len(s.chunk)
		used := s.add(st, s.chunk[:n], now(), last)
		if used == 0 {
			return nil
		}
		if err := s.log.Flush(now()); err != nil {
			return err
		}
		st.copied += int64(used)
		if err := s.note(); err != nil {
			return err
		}
		s.punch(st)
		if n < len(s.chunk) {
			return nil
		}
	}
}

// add puts the whole lines of b into the log's buffer and says how many bytes
// they were. An unfinished line stays for the next round, unless it is too long
// or the last.
func (s *source) add(st *stream, b []byte, now time.Time, last bool) int {
	used := 0
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\n')
		text, size, partial := b, len(b), true
		switch {
		case i >= 0 && i <= maxLine:
			text, size, partial = b[:i], i+1, false
		case len(b) >= maxLine:
			text, size = b[:maxLine], maxLine
		case !last:
			return used
		}
		s.log.Add(Line{Time: now, Stream: st.name, Partial: partial, Text: text})
		used += size
		b = b[size:]
	}
	return used
}

func (s *source) note() error {
	var b [16]byte
	for i := range s.streams {
		binary.LittleEndian.PutUint64(b[8*i:], uint64(s.streams[i].copied))
	}
	if _, err := s.pos.WriteAt(b[:], 0); err != nil {
		return fmt.Errorf("write position: %w", err)
	}
	return nil
}

// punch gives the space of copied output back. File systems that cannot do so
// keep it until the container is removed.
func (s *source) punch(st *stream) {
	to := st.copied
	for t := range s.taps {
		to = min(to, t.read(st.name)) // what somebody is still reading stays
	}
	to = to / punchAfter * punchAfter
	if to <= st.punched {
		return
	}
	err := unix.Fallocate(int(st.file.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, st.punched, to-st.punched)
	if err == nil || errors.Is(err, unix.EOPNOTSUPP) {
		st.punched = to
	}
}

func (s *source) close() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for i := range s.streams {
		if s.streams[i].file != nil {
			_ = s.streams[i].file.Close()
		}
	}
	if s.pos != nil {
		_ = s.pos.Close()
	}
	if s.log != nil {
		_ = s.log.Close()
	}
}
