package crilog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// note says how far the raw files are copied, before lines are written to the log:
// whatever ends the process then, the next one knows whether they are there. It is
// written as a whole.
type note struct {
	from, to [2]int64 // bytes of stdout and stderr that are copied before, and after
	inode    uint64   // of the log
	base     int64    // bytes that the log has before
	size     int64    // bytes that are added to it
}

const (
	noteBytes = 7 * 8
	plainNote = 2 * 8 // of a version before: to alone
)

// save puts to in front, where versions before have it.
func (n note) save(f *os.File) error {
	b := make([]byte, 0, noteBytes)
	for _, v := range []int64{n.to[0], n.to[1], n.from[0], n.from[1], int64(n.inode), n.base, n.size} {
		b = binary.LittleEndian.AppendUint64(b, uint64(v))
	}
	if _, err := f.WriteAt(b, 0); err != nil {
		return fmt.Errorf("write position: %w", err)
	}
	return nil
}

// readNote reads the note of an earlier process. A log of no inode is another one.
func readNote(f *os.File) (n note, err error) {
	var b [noteBytes]byte
	have, err := f.ReadAt(b[:], 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return n, fmt.Errorf("read position: %w", err)
	}
	v := func(i int) int64 { return int64(binary.LittleEndian.Uint64(b[8*i:])) }
	if have >= plainNote {
		n.to = [2]int64{v(0), v(1)}
	}
	if have == noteBytes {
		n.from, n.inode, n.base, n.size = [2]int64{v(2), v(3)}, uint64(v(4)), v(5), v(6)
	}
	return n, nil
}

// settle says how far the raw files are copied, by what the log has. Lines of
// which it has a part are taken out of it: they come again, whole.
func (n note) settle(w *Writer) ([2]int64, error) {
	inode, err := w.inode()
	if err != nil {
		return n.to, err
	}
	// A log is set aside after it was written.
	if inode != n.inode || w.size >= n.base+n.size {
		return n.to, nil
	}
	if w.size > n.base {
		if err := w.file.Truncate(n.base); err != nil {
			return n.to, fmt.Errorf("take back half a write of the log: %w", err)
		}
		w.size = n.base
	}
	return n.from, nil
}

// noteOf is a note of what is in the buffer, with positions from before it.
func (w *Writer) noteOf(at [2]int64) (note, error) {
	inode, err := w.inode()
	return note{from: at, to: at, inode: inode, base: w.size, size: int64(len(w.buf))}, err
}

func (w *Writer) inode() (uint64, error) {
	fi, err := w.file.Stat()
	if err != nil {
		return 0, fmt.Errorf("look at log: %w", err)
	}
	st, ok := fi.Sys().(*syscall.Stat_t)
	if !ok {
		return 0, errors.New("look at log: it has no inode")
	}
	return st.Ino, nil
}

// drop forgets what was added and not flushed.
func (w *Writer) drop() { w.buf = w.buf[:0] }

// empty says that all that was added is written.
func (w *Writer) empty() bool { return len(w.buf) == 0 }
