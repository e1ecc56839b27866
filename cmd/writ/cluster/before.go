package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/controlplane/durable"
	"github.com/writ-os/writ/controlplane/store"
)

// Before another version of writ opens a store, what the version before has left
// is saved: whoever wants that one back has what it can read.
const (
	backupsDir = "backups"
	// backupsKept are as many updates as can be taken back.
	backupsKept = 3
	// spareRoom stays free beside a backup: the store has the first claim.
	spareRoom = 1 << 30
)

// backupBefore saves the store as another version has left it, and keeps no more
// than backupsKept. It is done when there is no store yet.
func (c Config) backupBefore(from string) error {
	db, err := os.Stat(filepath.Join(c.file("store"), "member", "snap", "db"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for the store: %w", err)
	}
	began := time.Now()
	dir := c.file(backupsDir)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make the folder of backups: %w", err)
	}
	if err := makeRoom(dir, db.Size()+spareRoom); err != nil {
		return err
	}
	// One name for two versions: a start that is tried again and again does not
	// push out what was saved earlier.
	file := filepath.Join(dir, fileName(from)+"-to-"+fileName(c.Version)+".db")
	c.step("store", "saving what the version before has left")
	if err := c.saveStopped(file); err != nil {
		return err
	}
	c.Log.Info("the store was saved as the version before has left it", "part", "backup", "file", file, "before", from, "took", time.Since(began).Round(time.Millisecond))
	return dropBackups(dir, backupsKept)
}

// saveStopped writes a backup that is there whole or not at all.
func (c Config) saveStopped(file string) error {
	err := durable.Write(file, 0o600, func(f *os.File) error { // it holds every Secret
		_, err := store.BackupStopped(c.file("store"), f)
		return err
	})
	if err != nil {
		return fmt.Errorf("save the store: %w", err)
	}
	return nil
}

// makeRoom removes what was left half done, and the oldest backups while a disk
// has less than need free; the newest stays.
func makeRoom(dir string, need int64) error {
	half, err := filepath.Glob(filepath.Join(dir, ".*-to-*.db.*"))
	if err != nil {
		return fmt.Errorf("list %s: %w", dir, err)
	}
	for _, f := range half {
		if err := os.Remove(f); err != nil {
			return fmt.Errorf("remove half a backup: %w", err)
		}
	}
	for keep := backupsKept; ; keep-- {
		var st unix.Statfs_t
		if err := unix.Statfs(dir, &st); err != nil {
			return fmt.Errorf("measure the disk of %s: %w", dir, err)
		}
		have := int64(st.Bavail) * st.Bsize
		switch {
		case have >= need:
			return nil
		case keep < 1:
			return fmt.Errorf("save the store: %s has %d MiB free, and %d are needed: make room there", dir, have>>20, need>>20)
		}
		if err := dropBackups(dir, keep); err != nil {
			return err
		}
	}
}

// dropBackups removes all but the newest.
func dropBackups(dir string, keep int) error {
	all, err := backups(dir)
	if err != nil {
		return err
	}
	for _, f := range all[:max(0, len(all)-keep)] {
		if err := os.Remove(f); err != nil {
			return fmt.Errorf("remove an old backup: %w", err)
		}
	}
	return nil
}

// backups are those in a folder, the oldest first.
func backups(dir string) ([]string, error) {
	all, err := filepath.Glob(filepath.Join(dir, "*-to-*.db"))
	if err != nil {
		return nil, fmt.Errorf("list backups: %w", err)
	}
	made := map[string]time.Time{}
	for _, f := range all {
		info, err := os.Stat(f)
		if err != nil {
			return nil, fmt.Errorf("list backups: %w", err)
		}
		made[f] = info.ModTime()
	}
	slices.SortFunc(all, func(a, b string) int { return made[a].Compare(made[b]) })
	return all, nil
}

// fileName makes a part of a file's name of a version.
func fileName(version string) string {
	if version == "" {
		return "unknown"
	}
	return strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("._-", r) {
			return r
		}
		return '_'
	}, version)
}
