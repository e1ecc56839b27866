package cluster

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// lock holds a file of the data directory for this process. The kernel lets it
// go with the process, however that ends.
func lock(dir, name string) (release func(), err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // what is secret in it has a mode of its own
		if errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("make data directory: %w: run as root, or choose another --data-dir", err)
		}
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	path := filepath.Join(dir, name)
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		if errors.Is(err, os.ErrPermission) {
			return nil, fmt.Errorf("open lock: %w: run as root, or choose another --data-dir", err)
		}
		return nil, fmt.Errorf("open lock: %w", err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		b, _ := os.ReadFile(path) //nolint:errcheck // the number is a courtesy
		_ = f.Close()
		return nil, fmt.Errorf("another writ (pid %s) runs on %s: stop it with 'writ down --data-dir %s', or choose another --data-dir", strings.TrimSpace(string(b)), dir, dir)
	}
	if err := f.Truncate(0); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("write lock: %w", err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("write lock: %w: is the disk full?", err)
	}
	return func() { _ = f.Close() }, nil
}

// Holder returns the process that holds a lock of a data directory; 0 when
// nobody does.
func Holder(dir, name string) (pid int, err error) {
	f, err := os.Open(filepath.Join(dir, name))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("open lock: %w", err)
	}
	defer f.Close()
	if err := unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB); err == nil {
		return 0, nil
	}
	var b [16]byte
	n, _ := f.ReadAt(b[:], 0) //nolint:errcheck // io.EOF after a short file
	return strconv.Atoi(strings.TrimSpace(string(b[:n])))
}

// The locks of a data directory.
const (
	ServerLock = "server.lock"
	AgentLock  = "agent.lock"
)

// listen opens a port, and says what to do when that is not possible.
func listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return nil, fmt.Errorf("listen on %s: the port is taken, by another cluster or API server: stop that, or choose another --listen", address)
	case errors.Is(err, os.ErrPermission):
		return nil, fmt.Errorf("listen on %s: %w: ports below 1024 need root", address, err)
	case err != nil:
		return nil, fmt.Errorf("listen on %s: %w: --listen is HOST:PORT, and the host an address of this machine", address, err)
	}
	return l, nil
}

// Hold keeps servers from running on a data directory until release is called,
// and refuses where one runs.
func Hold(dir string) (release func(), err error) { return lock(dir, ServerLock) }

// AskMember says whether another server, at the URL of its member, is in step
// with most of them, in the name of the one whose data directory this is. An
// error says that it does not answer.
func AskMember(dir string) func(ctx context.Context, url string) (inStep bool, err error) {
	return peerTLS(dir).Ask
}
