package tree

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
)

// Extract writes t into an empty directory of this machine, as the user who
// runs it: owners, setuid and times are left out. Nothing is written outside
// of dir whatever the links of t say.
func (t *Tree) Extract(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for at, e := range t.All() {
		if err := extract(root, at, e); err != nil {
			return fmt.Errorf("extract %s: %w", at, err)
		}
	}
	return nil
}

// ExtractModes is Extract with the modes of t, whatever the umask is. Owners are
// left out.
func (t *Tree) ExtractModes(dir string) error {
	if err := t.Extract(dir); err != nil {
		return err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	var all []string
	for at, e := range t.All() {
		if e.Link == "" {
			all = append(all, at)
		}
	}
	// What is in a directory comes before it: its mode may forbid to look into it.
	for _, at := range slices.Backward(all) {
		if err := root.Chmod(at, t.entries[at].Mode&(fs.ModePerm|fs.ModeSetuid|fs.ModeSetgid|fs.ModeSticky)); err != nil {
			return fmt.Errorf("extract %s: %w", at, err)
		}
	}
	return root.Chmod(".", 0o755)
}

// Extracted says whether dir holds what Extract writes, byte by byte.
func (t *Tree) Extracted(dir string) bool { return t.Compare(dir) == nil }

// Compare is an error that names the first file of t that dir does not hold as
// it is, byte by byte.
func (t *Tree) Compare(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	for at, e := range t.All() {
		same, err := e.same(root, at)
		if err != nil {
			return fmt.Errorf("compare %s: %w", at, err)
		}
		if !same {
			return fmt.Errorf("compare %s: %w", at, errOther)
		}
	}
	return nil
}

var errOther = errors.New("it is not what was written")

func (e Entry) same(root *os.Root, at string) (bool, error) {
	switch e.Mode.Type() {
	case fs.ModeDir:
		s, err := root.Lstat(at)
		return err == nil && s.IsDir(), err
	case fs.ModeSymlink:
		to, err := root.Readlink(at)
		return to == e.Link, err
	}
	want, err := e.Data.bytes()
	if err != nil {
		return false, err
	}
	got, err := root.ReadFile(at)
	return bytes.Equal(got, want), err
}

func extract(root *os.Root, at string, e Entry) error {
	switch e.Mode.Type() {
	case fs.ModeDir:
		return root.Mkdir(at, 0o755)
	case fs.ModeSymlink:
		return root.Symlink(e.Link, at)
	}
	perm := fs.FileMode(0o644)
	if e.Mode&0o111 != 0 {
		perm = 0o755
	}
	f, err := root.OpenFile(at, os.O_WRONLY|os.O_CREATE|os.O_EXCL, perm)
	if err != nil {
		return err
	}
	defer f.Close()
	r, err := e.Data.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	if _, err := io.Copy(f, r); err != nil {
		return err
	}
	return f.Close()
}
