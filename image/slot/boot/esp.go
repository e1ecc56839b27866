package boot

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// MountOptions are those that an ESP must be mounted with: names change on the
// disk in the order in which they are changed, so that a rename which the power
// interrupts leaves two names and not none; and a file system that finds such a
// leftover goes on.
const MountOptions = "umask=0077,errors=continue"

// MountFlags go with MountOptions.
const MountFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_DIRSYNC

// maxFiles bounds the listing of an ESP.
const maxFiles = 1000

// Dir is the directory EFI/Linux of an ESP that is mounted.
type Dir struct {
	root *os.Root
}

var _ ESP = (*Dir)(nil)

// OpenDir opens EFI/Linux of the ESP that is mounted at a path. Nothing outside
// it can be reached through it.
func OpenDir(mount string) (*Dir, error) {
	root, err := os.OpenRoot(path.Join(mount, "EFI", "Linux"))
	if err != nil {
		return nil, fmt.Errorf("open boot entries: %w", err)
	}
	return &Dir{root}, nil
}

// Close ends it.
func (d *Dir) Close() error { return d.root.Close() }

// List implements ESP.
func (d *Dir) List() ([]string, error) {
	var names []string
	err := fs.WalkDir(d.root.FS(), ".", func(name string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir():
			return nil
		case len(names) == maxFiles:
			return fmt.Errorf("more than %d files", maxFiles)
		}
		names = append(names, name)
		return nil
	})
	return names, err
}

// Open implements ESP.
func (d *Dir) Open(name string) (File, error) {
	f, err := d.root.Open(name)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return sizedFile{f, info.Size()}, nil
}

type sizedFile struct {
	*os.File
	size int64
}

func (f sizedFile) Size() int64 { return f.size }

// Create implements ESP.
func (d *Dir) Create(name string, r io.Reader) error {
	if dir := DirOf(name); dir != "" {
		if err := d.root.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	}
	f, err := d.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, r)
	if err == nil {
		err = f.Sync()
	}
	if err == nil {
		// So that reading it back proves something.
		err = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	if errors.Is(err, unix.ENOSPC) {
		_ = d.root.Remove(name) //nolint:errcheck // half a file counts for nothing; the next one takes its place
		return fmt.Errorf("the EFI partition is full: remove from it what is not of Writ (%w)", err)
	}
	return err
}

// Rename implements ESP.
func (d *Dir) Rename(from, to string) error { return d.root.Rename(from, to) }

// Remove implements ESP.
func (d *Dir) Remove(name string) error {
	if err := d.root.Remove(name); err != nil {
		return err
	}
	if dir := DirOf(name); dir != "" {
		if err := d.root.Remove(dir); err != nil && !errors.Is(err, unix.ENOTEMPTY) {
			return err
		}
	}
	return nil
}

// Sync implements ESP: the whole file system, which has the names too.
func (d *Dir) Sync() error {
	f, err := d.root.Open(".")
	if err != nil {
		return err
	}
	defer f.Close()
	if err := unix.Syncfs(int(f.Fd())); err != nil {
		return fmt.Errorf("sync EFI partition: %w", err)
	}
	return nil
}

// DirOf is the directory of a file, "" of one that is in none.
func DirOf(name string) string {
	dir, _, ok := strings.Cut(name, "/")
	if !ok {
		return ""
	}
	return dir
}
