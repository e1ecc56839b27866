// Package gitdb reads and writes the object database of a Git repository on
// the local disk: a bare repository, a clone, or the repository of someone
// else. No git program is run.
//
// It watches nothing and owns nothing; a DB may be used by several goroutines.
// It promises that what it has written is on the disk when the call returns,
// whole or not at all.
package gitdb

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
)

// Hash names an object.
type Hash = plumbing.Hash

// ParseHash reads 40 hexadecimal digits.
func ParseHash(s string) (Hash, error) {
	if !plumbing.IsHash(s) || len(s) != 40 {
		return Hash{}, fmt.Errorf("parse hash %q: want 40 hexadecimal digits", s)
	}
	return plumbing.NewHash(s), nil
}

// ErrNotFound is the error for an object or a ref that is not there.
var ErrNotFound = errors.New("not found")

// cacheSize bounds the objects that a DB keeps in memory to resolve deltas.
const cacheSize = 32 << 20

// DB is an object database, together with those it borrows from.
type DB struct {
	Dir string

	mu     sync.Mutex // go-git's storage is not safe for concurrent use
	stores []*store
}

// store is one directory of objects.
type store struct {
	*filesystem.Storage
	packs string    // objects/pack
	seen  time.Time // when packs had last changed, as of the index in memory
}

// Open opens a bare repository or the .git directory of another one.
func Open(dir string) (*DB, error) {
	db := &DB{Dir: dir}
	for _, d := range append([]string{dir}, alternates(dir)...) {
		info, err := os.Stat(filepath.Join(d, "objects"))
		if err != nil || !info.IsDir() {
			return nil, fmt.Errorf("open repository %s: no Git objects there", d)
		}
		fs := filesystem.NewStorageWithOptions(osfs.New(d), cache.NewObjectLRU(cacheSize), filesystem.Options{KeepDescriptors: true})
		s := &store{Storage: fs, packs: filepath.Join(d, "objects", "pack")}
		s.seen = s.changed()
		db.stores = append(db.stores, s)
	}
	return db, nil
}

// Close closes the files that are held open.
func (db *DB) Close() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	var errs []error
	for _, s := range db.stores {
		errs = append(errs, s.Close())
	}
	return errors.Join(errs...)
}

// alternates are the repositories that dir borrows objects from.
func alternates(dir string) []string {
	data, err := os.ReadFile(filepath.Join(dir, "objects", "info", "alternates"))
	if err != nil {
		return nil
	}
	var out []string
	for line := range strings.Lines(string(data)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		if !filepath.IsAbs(line) {
			line = filepath.Join(dir, "objects", line)
		}
		out = append(out, filepath.Dir(line))
	}
	return out
}

func (s *store) changed() time.Time {
	info, err := os.Stat(s.packs)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// refresh reads the list of packs again if it has changed: someone else has
// pushed, or collected garbage.
func (s *store) refresh() bool {
	if t := s.changed(); !t.Equal(s.seen) {
		s.seen = t
		s.Reindex()
		return true
	}
	return false
}

// find looks an object up in all directories.
func (db *DB) find(h Hash) (plumbing.EncodedObject, error) {
	for again := true; ; again = false {
		var last error
		for _, s := range db.stores {
			o, err := s.EncodedObject(plumbing.AnyObject, h)
			if err == nil {
				return o, nil
			}
			if !errors.Is(err, plumbing.ErrObjectNotFound) {
				last = err
			}
		}
		fresh := false
		for _, s := range db.stores {
			fresh = s.refresh() || fresh
		}
		if again && fresh {
			continue
		}
		if last != nil {
			return nil, fmt.Errorf("read object %s: %w", h, last)
		}
		return nil, fmt.Errorf("read object %s: %w", h, ErrNotFound)
	}
}

// Get returns an object.
func (db *DB) Get(h Hash) (plumbing.ObjectType, []byte, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	o, err := db.find(h)
	if err != nil {
		return 0, nil, err
	}
	data, err := content(o)
	if err != nil {
		return 0, nil, fmt.Errorf("read object %s: %w", h, err)
	}
	return o.Type(), data, nil
}

func content(o plumbing.EncodedObject) ([]byte, error) {
	r, err := o.Reader()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data := make([]byte, o.Size())
	if _, err := io.ReadFull(r, data); err != nil {
		return nil, err
	}
	return data, nil
}

// Size returns the size of an object without reading it.
func (db *DB) Size(h Hash) (int64, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, s := range db.stores {
		if n, err := s.EncodedObjectSize(h); err == nil {
			return n, nil
		}
	}
	o, err := db.find(h)
	if err != nil {
		return 0, err
	}
	return o.Size(), nil
}

// Has says whether an object is there.
func (db *DB) Has(h Hash) bool {
	db.mu.Lock()
	defer db.mu.Unlock()
	for _, s := range db.stores {
		if s.HasEncodedObject(h) == nil {
			return true
		}
	}
	return false
}

// Commit is a decoded commit.
type Commit struct {
	Hash    Hash
	Tree    Hash
	Parents []Hash
	Author  string // Name <mail>
	When    time.Time
	// Committed is when the commit was put in its place: what orders history.
	Committed time.Time
	Message   string
}

// Commit reads a commit, also through an annotated tag.
func (db *DB) Commit(h Hash) (*Commit, error) {
	o, err := db.typed(h)
	if err != nil {
		return nil, err
	}
	for range 8 {
		if o.Type() != plumbing.TagObject {
			break
		}
		var tag object.Tag
		if err := tag.Decode(o); err != nil {
			return nil, fmt.Errorf("read tag %s: %w", h, err)
		}
		if o, err = db.typed(tag.Target); err != nil {
			return nil, err
		}
	}
	if o.Type() != plumbing.CommitObject {
		return nil, fmt.Errorf("read commit %s: it is a %s", h, o.Type())
	}
	var c object.Commit
	if err := c.Decode(o); err != nil {
		return nil, fmt.Errorf("read commit %s: %w", h, err)
	}
	return &Commit{Hash: c.Hash, Tree: c.TreeHash, Parents: c.ParentHashes, When: c.Author.When, Committed: c.Committer.When,
		Author: fmt.Sprintf("%s <%s>", c.Author.Name, c.Author.Email), Message: c.Message}, nil
}

// typed returns an object in memory, free of the storage it came from.
func (db *DB) typed(h Hash) (plumbing.EncodedObject, error) {
	t, data, err := db.Get(h)
	if err != nil {
		return nil, err
	}
	o := &plumbing.MemoryObject{}
	o.SetType(t)
	if _, err := o.Write(data); err != nil {
		return nil, err
	}
	return o, nil
}

// Entry is one name of a tree.
type Entry struct {
	Name string
	Mode filemode.FileMode
	Hash Hash
}

// IsTree says whether the entry is a folder.
func (e Entry) IsTree() bool { return e.Mode == filemode.Dir }

// Tree reads the entries of a tree, in Git's order. The zero hash is the empty
// tree.
func (db *DB) Tree(h Hash) ([]Entry, error) {
	if h.IsZero() {
		return nil, nil
	}
	t, data, err := db.Get(h)
	if err != nil {
		return nil, err
	}
	if t != plumbing.TreeObject {
		return nil, fmt.Errorf("read tree %s: it is a %s", h, t)
	}
	entries, err := parseTree(data)
	if err != nil {
		return nil, fmt.Errorf("read tree %s: %w", h, err)
	}
	return entries, nil
}

// parseTree reads "<octal mode> <name>\0<20 bytes>"...
func parseTree(data []byte) ([]Entry, error) {
	var out []Entry
	for len(data) > 0 {
		end := bytes.IndexByte(data, 0)
		if end < 0 || len(data) < end+1+20 {
			return nil, errors.New("cut off")
		}
		mode, name, ok := strings.Cut(string(data[:end]), " ")
		if !ok || name == "" {
			return nil, errors.New("entry without a name")
		}
		m, err := filemode.New(mode)
		if err != nil {
			return nil, fmt.Errorf("entry %q: %w", name, err)
		}
		e := Entry{Name: name, Mode: m}
		copy(e.Hash[:], data[end+1:])
		out = append(out, e)
		data = data[end+21:]
	}
	return out, nil
}

// Ref returns the commit or tag that a ref names.
func (db *DB) Ref(name string) (Hash, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	for n, range_ := name, 0; range_ < 8; range_++ {
		r, err := db.stores[0].Reference(plumbing.ReferenceName(n))
		if errors.Is(err, plumbing.ErrReferenceNotFound) {
			return Hash{}, fmt.Errorf("read ref %s: %w", name, ErrNotFound)
		}
		if err != nil {
			return Hash{}, fmt.Errorf("read ref %s: %w", name, err)
		}
		if r.Type() == plumbing.HashReference {
			return r.Hash(), nil
		}
		n = r.Target().String()
	}
	return Hash{}, fmt.Errorf("read ref %s: it leads in a circle", name)
}

// Refs returns all refs below refs/ that name an object.
func (db *DB) Refs() (map[string]Hash, error) {
	db.mu.Lock()
	defer db.mu.Unlock()
	iter, err := db.stores[0].IterReferences()
	if err != nil {
		return nil, fmt.Errorf("list refs: %w", err)
	}
	out := map[string]Hash{}
	err = iter.ForEach(func(r *plumbing.Reference) error {
		if r.Type() == plumbing.HashReference && strings.HasPrefix(r.Name().String(), "refs/") {
			out[r.Name().String()] = r.Hash()
		}
		return nil
	})
	return out, err
}

// Shallow returns the commits whose parents a shallow clone does not have.
func (db *DB) Shallow() map[Hash]bool {
	out := map[Hash]bool{}
	f, err := os.Open(filepath.Join(db.Dir, "shallow"))
	if err != nil {
		return out
	}
	defer f.Close()
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if h, err := ParseHash(strings.TrimSpace(sc.Text())); err == nil {
			out[h] = true
		}
	}
	return out
}
