package member

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/controlplane/durable"
	"github.com/writ-os/writ/controlplane/store"
)

const backupPath = Path + "/backup"

// backup sends all that the store holds. One that breaks off has no end that fits,
// which Client.Backup tells from a whole one.
func (h *Host) backup(w http.ResponseWriter, r *http.Request, user string) {
	w.Header().Set("Content-Type", "application/octet-stream")
	sent := &counter{w: w}
	err := h.Backup(r.Context(), sent)
	switch {
	case err == nil:
		h.Log.Info("a backup was given out", "user", user, "remote", r.RemoteAddr, "bytes", sent.n)
	case sent.n == 0:
		answer(w, nil, err)
	default:
		h.Log.Warn("a backup broke off", "user", user, "remote", r.RemoteAddr, "err", err)
		panic(http.ErrAbortHandler) // or the client would see an end
	}
}

type counter struct {
	w io.Writer
	n int64
}

// Write implements io.Writer.
func (c *counter) Write(b []byte) (int, error) {
	n, err := c.w.Write(b)
	c.n += int64(n)
	return n, err
}

// Backup writes what the cluster stores to w, and says how many bytes that are.
// It ends with an error when what came is not whole: w is then of no use.
func (c Client) Backup(ctx context.Context, w io.Writer) (int64, error) {
	resp, err := c.open(ctx, http.MethodGet, backupPath)
	if err != nil {
		return 0, fmt.Errorf("back up: %w", err)
	}
	defer resp.Body.Close() //nolint:errcheck // it was only read
	sum := &sumOfAllButEnd{hash: sha256.New()}
	n, err := io.Copy(io.MultiWriter(w, sum), resp.Body)
	if err != nil {
		return n, fmt.Errorf("back up: read what the server sends: %w", err)
	}
	if !sum.fits() {
		return n, errors.New("back up: what the server sent is not whole: try again")
	}
	return n, nil
}

// sumOfAllButEnd is the SHA-256 of all that was written but its last 32 bytes, which
// in a backup are that sum (etcd's form of a snapshot).
type sumOfAllButEnd struct {
	hash interface {
		io.Writer
		Sum([]byte) []byte
	}
	end []byte
}

// Write implements io.Writer.
func (s *sumOfAllButEnd) Write(b []byte) (int, error) {
	s.end = append(s.end, b...)
	if n := len(s.end) - sha256.Size; n > 0 {
		s.hash.Write(s.end[:n])
		s.end = append(s.end[:0], s.end[n:]...)
	}
	return len(b), nil
}

func (s *sumOfAllButEnd) fits() bool {
	return len(s.end) == sha256.Size && bytes.Equal(s.hash.Sum(nil), s.end)
}

// Save writes a backup to a file, which is there whole or not at all, for its
// owner alone: it holds every Secret.
func (c Client) Save(ctx context.Context, file string) (n int64, err error) {
	err = durable.Write(file, 0o600, func(f *os.File) error {
		n, err = c.Backup(ctx, f)
		return err
	})
	if err != nil {
		return n, fmt.Errorf("back up: %w", err)
	}
	return n, nil
}

// Restore makes the store of a data directory anew out of a backup; the server
// is then the only one of its cluster. Whoever calls it holds the lock of the
// data directory. The store that was there stays beside it, in the folder that
// is returned; "" when there was none. It is done whole or not at all.
func Restore(dataDir string, backup io.Reader, now time.Time, log *slog.Logger) (before string, err error) {
	dir := filepath.Join(dataDir, "store")
	made := dir + "-before-restore-" + now.UTC().Format("20060102T150405Z")
	if err := store.Restore(backup, made, log); err != nil {
		return "", err
	}
	_, err = os.Lstat(dir)
	if errors.Is(err, fs.ErrNotExist) {
		if err := durable.Rename(made, dir); err != nil {
			return "", fmt.Errorf("restore: %w", err)
		}
		return "", nil
	}
	if err == nil { // the one moment at which it happens: each becomes the other
		err = unix.Renameat2(unix.AT_FDCWD, made, unix.AT_FDCWD, dir, unix.RENAME_EXCHANGE)
	}
	if err != nil {
		return "", errors.Join(fmt.Errorf("restore: exchange %s with the new one: %w: nothing has changed", dir, err), os.RemoveAll(made))
	}
	return made, durable.Sync(dataDir)
}
