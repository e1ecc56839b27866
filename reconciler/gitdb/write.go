package gitdb

import (
	"bytes"
	"compress/zlib"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // Git's hash
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

// Sum is the name of an object with this content.
func Sum(t plumbing.ObjectType, data []byte) Hash { return plumbing.ComputeHash(t, data) }

// Put writes an object as a file of its own.
func (db *DB) Put(t plumbing.ObjectType, data []byte) (Hash, error) {
	h := Sum(t, data)
	name := h.String()
	path := filepath.Join(db.Dir, "objects", name[:2], name[2:])
	if _, err := os.Stat(path); err == nil {
		return h, nil
	}
	var buf bytes.Buffer
	z := zlib.NewWriter(&buf)
	fmt.Fprintf(z, "%s %d\x00", t, len(data))
	if _, err := z.Write(data); err != nil {
		return h, err
	}
	if err := z.Close(); err != nil {
		return h, err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return h, err
	}
	if err := WriteFile(path, buf.Bytes(), 0o444); err != nil {
		return h, fmt.Errorf("write object %s: %w", h, err)
	}
	return h, nil
}

// PutTree writes a tree, its entries in any order.
func (db *DB) PutTree(entries []Entry) (Hash, error) {
	// Git sorts folders as if their names ended in a slash.
	key := func(e Entry) string {
		if e.IsTree() {
			return e.Name + "/"
		}
		return e.Name
	}
	slices.SortFunc(entries, func(a, b Entry) int { return strings.Compare(key(a), key(b)) })
	var buf bytes.Buffer
	for _, e := range entries {
		fmt.Fprintf(&buf, "%o %s\x00", uint32(e.Mode), e.Name)
		buf.Write(e.Hash[:])
	}
	return db.Put(plumbing.TreeObject, buf.Bytes())
}

// PutCommit writes a commit by one person for author and committer.
func (db *DB) PutCommit(tree Hash, parents []Hash, person string, when time.Time, message string) (Hash, error) {
	var buf bytes.Buffer
	fmt.Fprintf(&buf, "tree %s\n", tree)
	for _, p := range parents {
		fmt.Fprintf(&buf, "parent %s\n", p)
	}
	for _, role := range []string{"author", "committer"} {
		fmt.Fprintf(&buf, "%s %s %d %s\n", role, person, when.Unix(), when.Format("-0700"))
	}
	fmt.Fprintf(&buf, "\n%s\n", strings.TrimRight(message, "\n"))
	return db.Put(plumbing.CommitObject, buf.Bytes())
}

// Init makes an empty bare repository, or completes one that was begun.
func Init(dir, branch string) error {
	for _, d := range []string{"objects/info", "objects/pack", "refs/heads", "refs/tags"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			return err
		}
	}
	files := map[string]string{
		"config": "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n",
		"HEAD":   "ref: refs/heads/" + branch + "\n", // last: it makes the directory a repository
	}
	for _, name := range []string{"config", "HEAD"} {
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err == nil {
			continue
		}
		if err := WriteFile(path, []byte(files[name]), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// SetRef points a ref to an object; the zero hash removes it. The caller keeps
// others from changing the same ref.
func (db *DB) SetRef(name string, h Hash) error {
	path := filepath.Join(db.Dir, filepath.FromSlash(name))
	if h.IsZero() {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return SyncDir(filepath.Dir(path))
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	return WriteFile(path, []byte(h.String()+"\n"), 0o644)
}

// WriteFile writes a file so that it is on the disk, whole, or not there.
func WriteFile(path string, data []byte, mode fs.FileMode) error {
	var rnd [6]byte
	rand.Read(rnd[:])
	// The name is not one that Git would take for a ref or an object.
	tmp := filepath.Join(filepath.Dir(path), ".tmp-"+hex.EncodeToString(rnd[:])+".lock")
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Sync(), f.Close())
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return SyncDir(filepath.Dir(path))
}

// SyncDir brings the names of a directory to the disk.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// SyncFile brings the content of a file to the disk.
func SyncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDONLY, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// newSHA1 is the hash over a pack.
var newSHA1 = sha1.New
