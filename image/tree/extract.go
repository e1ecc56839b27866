package tree

import (
	"bytes"
	"fmt"
	"io"
	"io/fs"
	"os"
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

// Extracted says whether dir holds what Extract writes, byte by byte.
func (t *Tree) Extracted(dir string) bool {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return false
	}
	defer root.Close()
	for at, e := range t.All() {
		switch e.Mode.Type() {
		case fs.ModeDir:
			if s, err := root.Lstat(at); err != nil || !s.IsDir() {
				return false
			}
		case fs.ModeSymlink:
			if to, err := root.Readlink(at); err != nil || to != e.Link {
				return false
			}
		default:
			want, err := e.Data.bytes()
			if err != nil {
				return false
			}
			if got, err := root.ReadFile(at); err != nil || !bytes.Equal(got, want) {
				return false
			}
		}
	}
	return true
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
