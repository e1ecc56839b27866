package crilog

import (
	"encoding/binary"
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// inotify is a kernel queue of file changes. Its reads go through the Go
// poller, so that closing it wakes the reader.
type inotify struct {
	fd   int
	file *os.File
}

func newInotify() (*inotify, error) {
	fd, err := unix.InotifyInit1(unix.IN_CLOEXEC | unix.IN_NONBLOCK)
	if err != nil {
		return nil, fmt.Errorf("open inotify: %w", err)
	}
	return &inotify{fd: fd, file: os.NewFile(uintptr(fd), "inotify")}, nil
}

func (n *inotify) add(path string, mask uint32) (int, error) {
	wd, err := unix.InotifyAddWatch(n.fd, path, mask)
	if err != nil {
		return 0, fmt.Errorf("watch %s: %w", path, err)
	}
	return wd, nil
}

// remove ends a watch. The kernel has ended it already when the file is gone.
func (n *inotify) remove(wd int) { _, _ = unix.InotifyRmWatch(n.fd, uint32(wd)) }

func (n *inotify) close() { _ = n.file.Close() }

// read waits for changes and returns the watches that have any. overflow says
// that the kernel dropped some.
func (n *inotify) read(buf []byte) (wds []int, overflow bool, err error) {
	c, err := n.file.Read(buf)
	if err != nil {
		return nil, false, err
	}
	for b := buf[:c]; len(b) >= unix.SizeofInotifyEvent; {
		wd := int32(binary.NativeEndian.Uint32(b))
		mask := binary.NativeEndian.Uint32(b[4:])
		name := binary.NativeEndian.Uint32(b[12:])
		b = b[unix.SizeofInotifyEvent+int(name):]
		if mask&unix.IN_Q_OVERFLOW != 0 {
			overflow = true
			continue
		}
		wds = append(wds, int(wd))
	}
	return wds, overflow, nil
}
