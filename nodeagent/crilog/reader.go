package crilog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// Options select what of a log is read.
type Options struct {
	Tail       int64     // last lines; negative means all
	Since      time.Time // lines from then on
	Timestamps bool      // begin every line with its time
	LimitBytes int64     // 0 means no limit
	Stream     Stream    // "" means both
	// Follow goes on until the log is complete: Done is closed when the
	// container has ended and all its output is in the log.
	Follow bool
	Done   <-chan struct{}
}

// errLimit ends a read at LimitBytes.
var errLimit = errors.New("limit reached")

// Read copies a log to w as options say. With Follow it ends with ctx.
func Read(ctx context.Context, path string, o Options, w io.Writer) error {
	r := &reader{o: o, w: w, left: o.LimitBytes, newLine: true}
	err := r.read(ctx, path)
	if errors.Is(err, errLimit) || ctx.Err() != nil {
		return nil
	}
	return err
}

type reader struct {
	o       Options
	w       io.Writer
	left    int64
	newLine bool // the next text begins a line
}

func (r *reader) read(ctx context.Context, path string) error {
	files, err := rotated(path)
	if err != nil {
		return err
	}
	files, offset, err := tailStart(append(files, path), r.o.Tail)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	if r.o.Follow {
		return r.follow(ctx, path, files, offset)
	}
	for _, p := range files {
		f, err := os.Open(p)
		if err != nil {
			if isNotExist(err) && p != path {
				continue // rotated away meanwhile
			}
			return fmt.Errorf("read log: %w", err)
		}
		_, err = r.copyFile(f, offset)
		_ = f.Close()
		if err != nil {
			return err
		}
		offset = 0
	}
	return nil
}

// follow copies the files, then what is appended to the last one, moving on to
// a new file when the log is rotated.
func (r *reader) follow(ctx context.Context, path string, files []string, offset int64) error {
	ino, err := newInotify()
	if err != nil {
		return err
	}
	defer ino.close()
	if _, err := ino.add(filepath.Dir(path), unix.IN_MODIFY|unix.IN_CREATE|unix.IN_MOVED_FROM); err != nil {
		return err
	}
	changed := make(chan struct{}, 1)
	go notify(ino, changed)
	defer func() {
		ino.close()
		for range changed { // until notify has ended
		}
	}()
	for len(files) > 1 {
		if f, err := os.Open(files[0]); err == nil {
			_, err = r.copyFile(f, offset)
			_ = f.Close()
			if err != nil {
				return err
			}
		}
		files, offset = files[1:], 0
	}
	f, err := os.Open(path)
	if err != nil {
		return fmt.Errorf("read log: %w", err)
	}
	defer func() { f.Close() }()
	for done := false; ; {
		if offset, err = r.copyFile(f, offset); err != nil {
			return err
		}
		if next := successor(f, path); next != nil {
			// The writer renames a file after its last line: nothing is lost by
			// one more look at the old one.
			if _, err = r.copyFile(f, offset); err != nil {
				_ = next.Close()
				return err
			}
			_ = f.Close()
			f, offset = next, 0
			continue
		}
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-r.o.Done:
			done = true
		case <-ctx.Done():
			return nil
		}
	}
}

// successor opens the file that follows f in a log that was rotated; nil while
// f is the current one. Where f was removed meanwhile, the oldest follows.
func successor(f *os.File, path string) *os.File {
	cur, err := os.Open(path)
	if err != nil {
		return nil // between two files
	}
	if same(f, cur) {
		_ = cur.Close()
		return nil
	}
	old, err := rotated(path)
	if err != nil {
		return cur
	}
	open := make([]*os.File, 0, len(old)+1)
	for _, p := range old {
		if o, err := os.Open(p); err == nil {
			open = append(open, o)
		}
	}
	open = append(open, cur)
	next := 0
	for i, o := range open {
		if same(f, o) {
			next = i + 1
		}
	}
	if next == len(open) { // rotated once more since
		next--
	}
	for i, o := range open {
		if i != next {
			_ = o.Close()
		}
	}
	return open[next]
}

func notify(ino *inotify, changed chan<- struct{}) {
	defer close(changed)
	buf := make([]byte, 4<<10)
	for {
		if _, _, err := ino.read(buf); err != nil {
			return
		}
		select {
		case changed <- struct{}{}:
		default:
		}
	}
}

func same(a, b *os.File) bool {
	x, err1 := a.Stat()
	y, err2 := b.Stat()
	return err1 == nil && err2 == nil && os.SameFile(x, y)
}

// copyFile writes the whole lines from offset on and returns where it stopped.
func (r *reader) copyFile(f *os.File, offset int64) (int64, error) {
	br := bufio.NewReaderSize(io.NewSectionReader(f, offset, 1<<62), 64<<10)
	for {
		b, err := br.ReadSlice('\n')
		if errors.Is(err, bufio.ErrBufferFull) {
			var rest []byte
			head := bytes.Clone(b)
			rest, err = br.ReadBytes('\n')
			b = append(head, rest...)
		}
		if errors.Is(err, io.EOF) {
			return offset, nil // an unfinished line is read again when it is whole
		}
		if err != nil {
			return offset, fmt.Errorf("read log: %w", err)
		}
		offset += int64(len(b))
		l, err := ParseLine(b)
		if err != nil {
			continue // a line torn by a crash; the next one is whole again
		}
		if err := r.emit(l); err != nil {
			return offset, err
		}
	}
}

func (r *reader) emit(l Line) error {
	if (r.o.Stream != "" && l.Stream != r.o.Stream) || l.Time.Before(r.o.Since) {
		return nil
	}
	var b []byte
	if r.o.Timestamps && r.newLine {
		b = append(l.Time.UTC().AppendFormat(b, timeFormat), ' ')
	}
	b = append(b, l.Text...)
	if !l.Partial {
		b = append(b, '\n')
	}
	r.newLine = !l.Partial
	limited := r.o.LimitBytes > 0 && int64(len(b)) >= r.left
	if limited {
		b = b[:r.left]
	}
	r.left -= int64(len(b))
	if _, err := r.w.Write(b); err != nil {
		return fmt.Errorf("write log to client: %w", err)
	}
	if limited {
		return errLimit
	}
	return nil
}

// tailStart drops the files and bytes before the last n lines.
func tailStart(files []string, n int64) ([]string, int64, error) {
	if n < 0 {
		return files, 0, nil
	}
	for i := len(files) - 1; i >= 0; i-- {
		offset, lines, err := lastLines(files[i], n)
		if err != nil && !isNotExist(err) {
			return nil, 0, err
		}
		if n -= lines; n <= 0 || i == 0 {
			return files[i:], offset, nil
		}
	}
	return files, 0, nil
}

// lastLines returns where the last n lines of a file begin, and how many there
// are.
func lastLines(path string, n int64) (offset, lines int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, 0, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return 0, 0, err
	}
	if n == 0 {
		return fi.Size(), 0, nil
	}
	buf := make([]byte, 64<<10)
	for end := fi.Size(); end > 0; {
		begin := max(0, end-int64(len(buf)))
		b := buf[:end-begin]
		if _, err := f.ReadAt(b, begin); err != nil {
			return 0, 0, err
		}
		for i := len(b) - 1; i >= 0; i-- {
			if b[i] != '\n' || begin+int64(i) == fi.Size()-1 {
				continue
			}
			if lines++; lines == n {
				return begin + int64(i) + 1, n, nil
			}
		}
		end = begin
	}
	if fi.Size() > 0 {
		lines++
	}
	return 0, lines, nil
}
