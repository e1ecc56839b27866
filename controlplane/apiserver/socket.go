package apiserver

import (
	"net"
	"os"
	"path/filepath"
)

// listenPrivate listens on a unix socket of mode 0600. The socket is made in a
// private directory and moved into place when its mode is right, so that
// nobody can connect before.
func listenPrivate(path string) (net.Listener, error) {
	dir, err := os.MkdirTemp(filepath.Dir(path), ".socket-") // mode 0700
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	made := filepath.Join(dir, "s")
	l, err := net.Listen("unix", made)
	if err != nil {
		return nil, err
	}
	l.(*net.UnixListener).SetUnlinkOnClose(false)
	if err = os.Chmod(made, 0o600); err == nil {
		err = os.Rename(made, path)
	}
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	return l, nil
}
