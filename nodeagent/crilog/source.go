package crilog

import (
	"bytes"
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
	pos     *os.File // see note
	adding  note     // of what is in the log's buffer; to is what to go on from
	closed  bool
	chunk   []byte
	taps    map[*Tap]bool

	turn struct {
		sync.Mutex
		running, again bool // somebody copies; and is to look once more
	}
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
	if s.log, err = NewWriter(logPath, l); err != nil {
		return nil, err
	}
	if err := s.restore(); err != nil {
		return nil, err
	}
	ok = true
	return s, nil
}

// restore goes on from where an earlier process has come to.
func (s *source) restore() error {
	n, err := readNote(s.pos)
	if err != nil {
		return err
	}
	at, err := n.settle(s.log)
	if err != nil {
		return err
	}
	for i := range s.streams {
		st := &s.streams[i]
		st.copied = at[i]
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
// last line that has no newline. The streams take turns: a flood of one does not
// keep the other waiting.
func (s *source) copy(now func() time.Time, end bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil
	}
	for t := range s.taps {
		t.poke()
	}
	for more := true; more; {
		more = false
		for i := range s.streams {
			again, err := s.copyChunk(i, now, end)
			if err != nil {
				return err
			}
			more = more || again
		}
	}
	return nil
}

// copyChunk copies some of a stream, and says whether there is more.
func (s *source) copyChunk(i int, now func() time.Time, end bool) (more bool, err error) {
	if err := s.write(now()); err != nil { // what an earlier round could not
		return false, err
	}
	if s.chunk == nil {
		s.chunk = make([]byte, 64<<10)
	}
	st := &s.streams[i]
	n, err := st.file.ReadAt(s.chunk, st.copied)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("read output: %w", err)
	}
	used := s.add(st, s.chunk[:n], now(), end && n < len(s.chunk))
	if used == 0 {
		return false, nil
	}
	if s.adding, err = s.log.noteOf([2]int64{s.streams[0].copied, s.streams[1].copied}); err != nil {
		s.log.drop()
		return false, err
	}
	s.adding.to[i] += int64(used)
	if err := s.adding.save(s.pos); err != nil {
		s.log.drop()
		return false, err
	}
	return n == len(s.chunk), s.write(now())
}

// write writes what was added to the log. What it could not write stays in the
// log's buffer, and no more is added before that is written: nothing is there
// twice, and a disk that is full costs no memory.
func (s *source) write(now time.Time) error {
	if s.log.empty() {
		return nil
	}
	err := s.log.Flush(now)
	if !s.log.empty() {
		return err
	}
	for i := range s.streams {
		s.streams[i].copied = s.adding.to[i]
		s.punch(&s.streams[i])
	}
	return err // of setting the log aside
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
