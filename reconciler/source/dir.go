package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/go-git/go-git/v5/plumbing"
)

// Dir is a plain directory read as a tree, for `writ check DIR`. Its files are
// judged like those of a commit; folders named .git are left out.
type Dir struct {
	Root   string
	Limits Limits
}

var _ Tree = Dir{}

// Walk implements Tree. A path that names a file yields that file.
func (d Dir) Walk(folder string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		w := &walk{root: cleanPath(folder), limits: d.Limits.withDefaults(), yield: yield}
		if err := d.start(w); err != nil && !errors.Is(err, errStop) {
			yield(File{}, err)
		}
	}
}

func (d Dir) start(w *walk) error {
	info, err := os.Lstat(d.join(w.root))
	if w.root == "." {
		info, err = os.Stat(d.Root) // the directory itself may be named by a link
	}
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR): // below a file there is none
		return noFolder(w.root, d.Root)
	case err != nil:
		return fmt.Errorf("read directory: %w", err)
	case info.IsDir():
		return d.walk(w, w.root)
	}
	f, err := d.file(".", w.root, info)
	if errors.Is(err, errSkip) {
		err = notFollowed(w.root)
	}
	return w.give(f, w.root, err)
}

func (d Dir) walk(w *walk, folder string) error {
	entries, err := os.ReadDir(d.join(folder))
	if err != nil {
		return fmt.Errorf("read directory: %w", err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(dirKey(a), dirKey(b)) })
	for _, e := range entries {
		if e.Name() == ".git" {
			continue
		}
		if err := d.entry(w, path.Join(folder, e.Name()), e); err != nil {
			return err
		}
	}
	return nil
}

func (d Dir) entry(w *walk, name string, e fs.DirEntry) error {
	if e.IsDir() {
		if err := w.enter(name); err != nil {
			return err
		}
		defer w.leave()
		return d.walk(w, name)
	}
	info, err := e.Info()
	if errors.Is(err, fs.ErrNotExist) {
		return nil // removed meanwhile
	}
	if err != nil {
		return fmt.Errorf("read %s: %w", name, err)
	}
	f, err := d.file(w.root, name, info)
	return w.give(f, name, err)
}

// dirKey orders entries as Git does.
func dirKey(e fs.DirEntry) string {
	if e.IsDir() {
		return e.Name() + "/"
	}
	return e.Name()
}

func (d Dir) join(name string) string { return filepath.Join(d.Root, filepath.FromSlash(name)) }

// File implements Tree.
func (d Dir) File(name string) (File, error) {
	name = cleanPath(name)
	info, err := os.Lstat(d.join(name))
	if err == nil && info.IsDir() {
		err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	if err != nil {
		return File{}, err
	}
	f, err := d.file(".", name, info)
	if errors.Is(err, errSkip) {
		err = notFollowed(name)
	}
	return f, err
}

// file judges one entry that is no folder.
func (d Dir) file(root, name string, info fs.FileInfo) (File, error) {
	at := d.join(name)
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		target, err := os.Readlink(at)
		if err != nil {
			return File{}, fmt.Errorf("read %s: %w", name, err)
		}
		return File{}, symlink(root, name, filepath.ToSlash(target))
	case !info.Mode().IsRegular():
		return File{}, errSkip // Git does not hold pipes, sockets and devices either
	}
	limits := d.Limits.withDefaults()
	if err := limits.check(name, facts{size: info.Size()}); err != nil {
		return File{}, err
	}
	data, err := readUpTo(at, limits.FileSize)
	if err != nil {
		return File{}, fmt.Errorf("read %s: %w", name, err)
	}
	st := facts{size: int64(len(data)), lfs: len(data) <= maxPointer && isPointer(data)}
	if err := limits.check(name, st); err != nil {
		return File{}, err
	}
	mode := fs.FileMode(0o644)
	if info.Mode()&0o100 != 0 {
		mode = 0o755
	}
	blob := plumbing.ComputeHash(plumbing.BlobObject, data).String()
	return File{Path: name, Blob: blob, Mode: mode, Size: st.size, open: func() (io.ReadCloser, error) {
		data, err := readUpTo(at, limits.FileSize)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		return io.NopCloser(bytes.NewReader(data)), nil
	}}, nil
}

// readUpTo reads a file that may grow meanwhile; one byte over the limit shows
// that it did.
func readUpTo(name string, limit int64) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit+1))
}
