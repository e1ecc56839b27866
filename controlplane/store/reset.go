package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/types"
	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/controlplane/durable"
)

// resetRecord lies in the directory of a store that Reset has made.
type resetRecord struct {
	// Before is the name of the directory, beside this one, with what was there.
	Before string `json:"before"`
	// Clusters are the IDs of those that this one was part of: their members are
	// members no more.
	Clusters []string `json:"clusters"`
}

const (
	resetFile    = "reset.json"
	beforeInfix  = "-before-reset-"
	resetPattern = ".resetting-*"
)

// Reset makes the member whose data lies in a directory the only one, with what
// it has: when the majority of the members is lost for good. No store may run
// there. What was there stays beside it, untouched, in the directory that is
// returned. What only the others had is lost, and what this member had not heard
// to be committed.
//
// The others are members no more: one that is started again with its old data and
// reaches this one ends with ErrRemoved. They join again without their data.
// Versions continue with a gap, as after Restore: those that the others gave are
// not given again, and whoever watches lists anew.
//
// It is done whole or not at all, whenever the process ends, and may be begun
// again. It needs room on the disk for two copies of the data.
func Reset(ctx context.Context, dir, name string, now time.Time, log *slog.Logger) (before string, err error) {
	dir = filepath.Clean(dir)
	lock, err := lockDir(dir)
	if err != nil {
		return "", fmt.Errorf("reset %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	if err := clearResets(dir); err != nil {
		return "", fmt.Errorf("reset %s: %w", dir, err)
	}
	if err := mayReset(dir, name); err != nil {
		return "", fmt.Errorf("reset %s: %w", dir, err)
	}
	work, err := os.MkdirTemp(filepath.Dir(dir), filepath.Base(dir)+resetPattern) // 0700: it holds every Secret
	if err != nil {
		return "", fmt.Errorf("reset %s: %w", dir, err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(work)) }()
	before = dir + beforeInfix + now.UTC().Format("20060102T150405Z")
	if err := makeReset(ctx, dir, work, before, name, log); err != nil {
		return "", fmt.Errorf("reset %s: %w", dir, err)
	}
	// The one moment at which it happens: each of the two becomes the other.
	if err := unix.Renameat2(unix.AT_FDCWD, dir, unix.AT_FDCWD, before, unix.RENAME_EXCHANGE); err != nil {
		return "", errors.Join(fmt.Errorf("reset %s: exchange it with the new one: %w: nothing has changed", dir, err), os.RemoveAll(before))
	}
	return before, durable.Sync(filepath.Dir(dir))
}

// mayReset finds what speaks against it.
func mayReset(dir, name string) error {
	all, err := ReadMembers(dir)
	if err != nil {
		return err
	}
	self := slices.IndexFunc(all, func(m Member) bool { return m.Name == name })
	switch {
	case len(all) == 1:
		return errors.New("it is that of the only member already")
	case self < 0:
		return fmt.Errorf("its data does not know %s: it never became a member", name)
	case all[self].Learner:
		return fmt.Errorf("%s has no vote yet, and may lack most of the data: reset another member, or restore a backup", name)
	}
	return nil
}

// makeReset makes the new directory, where the old one is to be later. The old
// one is only read.
func makeReset(ctx context.Context, dir, work, before, name string, log *slog.Logger) error {
	if err := roomFor(dir, work); err != nil {
		return err
	}
	copied, backup := filepath.Join(work, "copy"), filepath.Join(work, "backup")
	if err := copyTree(ctx, filepath.Join(dir, "member"), filepath.Join(copied, "member")); err != nil {
		return fmt.Errorf("copy it: %w", err)
	}
	cluster, err := backupAlone(ctx, copied, backup, name, log)
	if err != nil {
		return err
	}
	if err := os.RemoveAll(copied); err != nil {
		return err
	}
	file, err := os.Open(backup)
	if err != nil {
		return err
	}
	defer file.Close()
	made := filepath.Join(work, "made")
	if err := Restore(file, made, log); err != nil {
		return err
	}
	rec, err := readReset(dir)
	if err != nil {
		return err
	}
	rec.Before, rec.Clusters = filepath.Base(before), append(rec.Clusters, cluster)
	text, err := json.Marshal(rec)
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(made, resetFile), strings.NewReader(string(text)+"\n")); err != nil {
		return err
	}
	if err := syncTree(made); err != nil {
		return err
	}
	return durable.Rename(made, before)
}

// backupAlone lets etcd take in all that its log holds, without the others, and
// writes a backup of that.
func backupAlone(ctx context.Context, dir, to, name string, log *slog.Logger) (cluster string, err error) {
	cfg := Config{Dir: dir, Log: log}.withDefaults()
	sc, err := serverConfig(cfg)
	if err != nil {
		return "", err
	}
	e := &etcdServer{log: newEtcdLog(cfg.Log)}
	defer e.close()
	// Without the certificates of a member it reaches none of the others, and
	// none of them hears of what is only a copy.
	sc.Name, sc.ForceNewCluster, sc.Logger = name, true, e.log.zap()
	if e.server, err = newServer(sc); err != nil {
		return "", err
	}
	e.server.Start()
	err = e.await(ctx, func(ctx context.Context) error {
		select {
		case <-e.server.ReadyNotify():
			return e.alone()
		case <-ctx.Done():
			return ctx.Err()
		}
	})
	if err != nil {
		return "", err
	}
	f, err := os.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return "", err
	}
	err = writeBackup(ctx, e.server.Backend(), f)
	return e.server.Cluster().ID().String(), errors.Join(err, f.Close())
}

// clearResets removes what resets that were killed have left beside a directory.
func clearResets(dir string) error {
	left, err := filepath.Glob(dir + resetPattern)
	if err != nil {
		return err
	}
	made, err := filepath.Glob(dir + beforeInfix + "*")
	if err != nil {
		return err
	}
	for _, m := range made {
		// One that says that it is to replace itself was not exchanged.
		if rec, err := readReset(m); err == nil && rec.Before == filepath.Base(m) {
			left = append(left, m)
		}
	}
	for _, l := range left {
		if err := os.RemoveAll(l); err != nil {
			return err
		}
	}
	return nil
}

// readReset reads what an earlier reset has left in a directory; nothing when
// there was none.
func readReset(dir string) (rec resetRecord, err error) {
	b, err := os.ReadFile(filepath.Join(dir, resetFile))
	if errors.Is(err, fs.ErrNotExist) {
		return rec, nil
	}
	if err == nil {
		err = json.Unmarshal(b, &rec)
	}
	if err != nil {
		return rec, fmt.Errorf("read %s: %w", filepath.Join(dir, resetFile), err)
	}
	for _, id := range rec.Clusters {
		if _, err := types.IDFromString(id); err != nil {
			return rec, fmt.Errorf("read %s: %q is not the ID of a cluster", filepath.Join(dir, resetFile), id)
		}
	}
	return rec, nil
}

// roomFor refuses what would fill the disk: the copy is gone before its
// database is restored, beside the backup of it.
func roomFor(dir, work string) error {
	var size int64
	err := filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		i, err := d.Info()
		if err == nil {
			size += i.Size()
		}
		return err
	})
	if err != nil {
		return err
	}
	const logs = 128 << 20 // which etcd makes before it writes to them
	var st unix.Statfs_t
	if err := unix.Statfs(work, &st); err != nil {
		return fmt.Errorf("ask for free space: %w", err)
	}
	if need, free := 2*size+logs, int64(st.Bavail)*st.Bsize; need > free {
		return fmt.Errorf("%w: it takes %d MiB for a while, and %d are free: make room there", ErrNoSpace, need>>20, free>>20)
	}
	return nil
}

// copyTree copies files and folders.
func copyTree(ctx context.Context, from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		if d.IsDir() {
			return os.MkdirAll(target, 0o700)
		}
		if !d.Type().IsRegular() {
			return fmt.Errorf("%s is no file", path)
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		return writeFile(target, f)
	})
}

// syncTree brings a folder to the disk with all that is in it.
func syncTree(dir string) error {
	return filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		return durable.Sync(path)
	})
}
