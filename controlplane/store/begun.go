package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/config"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.etcd.io/etcd/server/v3/storage/wal/walpb"
	"go.uber.org/zap"
)

// beginning is more than a log has at its beginning, before the first entry, in
// bytes.
const beginning = 4096

// discardUnbegun removes a log that nothing was committed to. etcd makes the
// file, and then writes into it that the cluster has one member; a server that is
// killed between the two would start as a member of nothing, and wait for ever for
// somebody to lead it. There is nothing in such a log that could be lost.
func discardUnbegun(sc config.ServerConfig) error {
	unbegun, err := unbegunLog(sc.WALDir(), sc.SnapDir())
	if err != nil || !unbegun {
		return err
	}
	if err := os.RemoveAll(sc.WALDir()); err != nil {
		return fmt.Errorf("remove a log that has not begun: %w", err)
	}
	return nil
}

// unbegunLog says whether a folder has a log that nothing was committed to. What cannot be
// read is etcd's to judge.
func unbegunLog(dir, snapshots string) (bool, error) {
	logs, err := filepath.Glob(filepath.Join(dir, "*.wal"))
	if err != nil || len(logs) != 1 {
		return false, err
	}
	if taken, err := filepath.Glob(filepath.Join(snapshots, "*.snap")); err != nil || len(taken) > 0 {
		return false, err
	}
	// A log of any length is not read twice.
	if long, err := written(logs[0]); err != nil || long {
		return false, err
	}
	w, err := wal.OpenForRead(zap.NewNop(), dir, &walpb.Snapshot{})
	if err != nil {
		return false, nil //nolint:nilerr // see above
	}
	defer w.Close() //nolint:errcheck // it was only read
	_, state, _, err := w.ReadAll()
	return err == nil && state.GetTerm() == 0 && state.GetCommit() == 0, nil
}

// written says whether a log has anything behind its beginning. Files of logs
// are made of zeros.
func written(path string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("look into the log: %w", err)
	}
	defer f.Close()
	b := make([]byte, beginning)
	n, err := f.ReadAt(b, beginning)
	if err != nil && !errors.Is(err, io.EOF) {
		return false, fmt.Errorf("look into the log: %w", err)
	}
	return len(bytes.Trim(b[:n], "\x00")) > 0, nil
}
