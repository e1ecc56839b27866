package store

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	bolt "go.etcd.io/bbolt"
)

// databaseFile is etcd's, below the directory of a store.
func databaseFile(dir string) string { return filepath.Join(dir, "member", "snap", "db") }

// BackupStopped writes what Backup writes, of a store that nobody has open, and
// says how many bytes that are. A store that was killed may have more in its log:
// what it was told in its last tenth of a second. fs.ErrNotExist: there is none.
func BackupStopped(dir string, w io.Writer) (int64, error) {
	db, err := bolt.Open(databaseFile(dir), 0o600, &bolt.Options{ReadOnly: true, Timeout: time.Second})
	if err != nil {
		return 0, fmt.Errorf("open the store's file: %w", err)
	}
	sum := sha256.New()
	var n int64
	err = db.View(func(tx *bolt.Tx) error {
		n, err = tx.WriteTo(io.MultiWriter(w, sum))
		return err
	})
	if err = errors.Join(err, db.Close()); err != nil {
		return n, fmt.Errorf("write backup: %w", err)
	}
	m, err := w.Write(sum.Sum(nil))
	if err != nil {
		return n, fmt.Errorf("write sum of backup: %w", err)
	}
	return n + int64(m), nil
}
