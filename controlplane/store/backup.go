package store

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/etcdutl/v3/snapshot"
	"go.etcd.io/etcd/server/v3/storage/backend"

	"github.com/writ-os/writ/controlplane/durable"
	"github.com/writ-os/writ/schema"
)

// Backup writes all that the store holds, as etcd's own tools write and read it:
// its database, and the SHA-256 of that. Values are as they lie on disk. It
// returns a version up to which the backup holds every change.
//
// Any member may make it, beside all that it does otherwise.
func (s *Store) Backup(ctx context.Context, w io.Writer) (schema.ResourceVersion, error) {
	if err := s.awaitReady(ctx); err != nil {
		return 0, err
	}
	if err := s.Current(ctx); err != nil {
		return 0, err
	}
	version := s.Version()
	if err := writeBackup(ctx, s.etcd.Backend(), w); err != nil {
		return 0, err
	}
	return version, nil
}

func writeBackup(ctx context.Context, be backend.Backend, w io.Writer) error {
	snap := be.Snapshot()
	sum := sha256.New()
	_, err := snap.WriteTo(io.MultiWriter(endingWriter{ctx, w}, sum))
	if err = errors.Join(err, snap.Close(), ctx.Err()); err != nil { // bbolt hides what it wraps
		return fmt.Errorf("write backup: %w", err)
	}
	if _, err := w.Write(sum.Sum(nil)); err != nil {
		return fmt.Errorf("write sum of backup: %w", err)
	}
	return nil
}

// endingWriter ends with a context.
type endingWriter struct {
	ctx context.Context //nolint:containedctx // a Writer has no other way
	w   io.Writer
}

// Write implements io.Writer.
func (w endingWriter) Write(b []byte) (int, error) {
	if err := w.ctx.Err(); err != nil {
		return 0, err
	}
	return w.w.Write(b)
}

// restoreBump is added to etcd's revision by Restore. Whoever had seen versions
// that were given after the backup must not take what comes for older, and must
// list again. It is what etcd's guide to disaster recovery advises.
const restoreBump = 1_000_000_000

// Restore makes a directory for a store that is alone out of a backup, of this
// store or of etcd's tools. The directory must be empty or missing; it is made
// whole or not at all. Other servers join it without their old data.
//
// Versions continue after those of the backup with a gap, and watches cannot be
// resumed from before it.
func Restore(r io.Reader, dir string, log *slog.Logger) (err error) {
	if entries, err := os.ReadDir(dir); err == nil && len(entries) > 0 {
		return fmt.Errorf("restore to %s: it is not empty", dir)
	} else if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("restore: %w", err)
	}
	parent := filepath.Dir(filepath.Clean(dir))
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	tmp, err := os.MkdirTemp(parent, "."+filepath.Base(dir)+"-restore-") // 0700: it holds every Secret
	if err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(tmp)) }()
	file := filepath.Join(tmp, "backup")
	if err := writeFile(file, r); err != nil {
		return fmt.Errorf("read backup: %w", err)
	}
	made := filepath.Join(tmp, "data")
	if err := restoreFile(file, made, log); err != nil {
		return fmt.Errorf("restore to %s: %w", dir, err)
	}
	if err := os.Remove(dir); err != nil && !errors.Is(err, os.ErrNotExist) { // the empty one
		return fmt.Errorf("restore: %w", err)
	}
	if err := durable.Rename(made, dir); err != nil {
		return fmt.Errorf("restore: %w", err)
	}
	return nil
}

// restoreFile lets etcd's own tool do it. It panics on files that are not its
// database.
func restoreFile(file, dir string, log *slog.Logger) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the backup cannot be read: %v", p)
		}
	}()
	return snapshot.NewV3(newEtcdLog(log).zap()).Restore(snapshot.RestoreConfig{
		SnapshotPath: file, OutputDataDir: dir,
		Name: aloneName, PeerURLs: []string{aloneURL}, InitialCluster: aloneName + "=" + aloneURL, InitialClusterToken: newToken(),
		RevisionBump: restoreBump, MarkCompacted: true,
	})
}

func writeFile(name string, r io.Reader) error {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	return errors.Join(err, f.Close())
}
