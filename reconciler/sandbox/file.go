package sandbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// filesFD is the socket over which a child is given files, in the child. It
// may receive from no other one.
const filesFD = 3

// giveFile opens a file for a child: the descriptor is all that it gets of it. The
// child can read what ours can.
func giveFile(socket, file *os.File) error {
	raw, err := file.SyscallConn()
	if err != nil {
		return err
	}
	to, err := socket.SyscallConn()
	if err != nil {
		return err
	}
	var sent, got error
	got = raw.Control(func(fd uintptr) {
		got = to.Control(func(socket uintptr) {
			sent = unix.Sendmsg(int(socket), []byte{0}, unix.UnixRights(int(fd)), nil, unix.MSG_NOSIGNAL)
		})
	})
	if err := errors.Join(got, sent); err != nil {
		return fmt.Errorf("give the child its file: %w", err)
	}
	return nil
}

// given is a file that a child was given. It reads at positions alone: that needs
// no other system call.
type given int

// takeFile takes the file that came with a question.
func takeFile() (given, error) {
	oob := make([]byte, unix.CmsgSpace(4))
	for {
		_, n, _, _, err := unix.Recvmsg(filesFD, make([]byte, 1), oob, unix.MSG_CMSG_CLOEXEC)
		if errors.Is(err, unix.EINTR) {
			continue
		}
		if err != nil {
			return -1, fmt.Errorf("take file: %w", err)
		}
		messages, err := syscall.ParseSocketControlMessage(oob[:n])
		if err != nil || len(messages) != 1 {
			return -1, errors.New("take file: none has come")
		}
		fds, err := syscall.ParseUnixRights(&messages[0])
		if err != nil || len(fds) != 1 {
			return -1, errors.New("take file: none has come")
		}
		return given(fds[0]), nil
	}
}

// ReadAt implements io.ReaderAt.
func (f given) ReadAt(p []byte, off int64) (n int, err error) {
	for n < len(p) {
		got, err := unix.Pread(int(f), p[n:], off+int64(n))
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return n, err
		case got == 0:
			return n, io.EOF
		default:
			n += got
		}
	}
	return n, nil
}

func (f given) close() { _ = unix.Close(int(f)) }

var _ io.ReaderAt = given(0)
