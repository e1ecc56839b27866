package source

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"
)

const (
	// objectCache holds bases of deltas and folders that are read again. What
	// manifests say is kept by those who render them.
	objectCache = 8 * cache.MiByte
	// maxAlternates bounds a chain of repositories that borrow objects.
	maxAlternates = 5
	// maxFolder is the longest tree object that is read: some 100,000 entries
	// of one folder.
	maxFolder = 8 << 20
)

// objects reads the objects of the repository in dir, and of those that it
// borrows from. Another process, or another handle of this one, may add and
// repack objects at any time: when one is not found or cannot be read, the
// repository is opened anew and the read is tried once more.
//
// Reads are whole and under the lock, so that no reader holds on to a file
// that is gone.
type objects struct {
	dir string

	mu     sync.Mutex
	stores []*opened              // nil when not open
	absent map[plumbing.Hash]bool // blobs that the remote was asked to leave out
	// shared is what handles of repositories with the same objects have in
	// common.
	shared *shared
	// joined and gone belong to shared: the handle is of a repository that comes
	// and goes, and it has gone.
	joined, gone bool
	// beside is the repository that this one has most objects of, elsewhere the
	// packs that need not be opened here for that.
	beside    *objects
	elsewhere []string
	// broken is told of a read that failed though the object is there.
	broken func(error)
}

// facts are what a walk wants to know of a blob.
type facts struct {
	size   int64
	lfs    bool
	absent bool // left out by the remote for its length
}

func newObjects(dir string) *objects {
	o := &objects{dir: dir, absent: make(map[plumbing.Hash]bool)}
	o.shared = &shared{facts: make(map[plumbing.Hash]facts), handles: []*objects{o}}
	return o
}

// openStore reads the objects of one repository as they are now.
func openStore(dir string) *filesystem.Storage {
	return filesystem.NewStorageWithOptions(osfs.New(dir), cache.NewObjectLRU(objectCache), filesystem.Options{KeepDescriptors: true})
}

// objectDirs lists a repository and those that it borrows objects from. The
// reader of go-git does not follow alternates out of its folder.
func objectDirs(dir string, depth int) ([]string, error) {
	dirs := []string{dir}
	b, err := os.ReadFile(filepath.Join(dir, "objects", "info", "alternates"))
	if errors.Is(err, os.ErrNotExist) {
		return dirs, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read alternates: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") || depth == 0 {
			continue
		}
		if !filepath.IsAbs(line) {
			line = filepath.Join(dir, "objects", line)
		}
		more, err := objectDirs(filepath.Dir(filepath.Clean(line)), depth-1)
		if err != nil {
			return nil, err
		}
		dirs = append(dirs, more...)
	}
	return dirs, nil
}

func (o *objects) close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.closeLocked()
}

func (o *objects) closeLocked() error {
	var errs []error
	for _, st := range o.stores {
		errs = append(errs, st.Close())
	}
	o.stores = nil
	return errors.Join(errs...)
}

// read calls fn with each store until one has the object. fn must be done with
// the store when it returns.
func (o *objects) read(h plumbing.Hash, fn func(*filesystem.Storage) error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	err := o.try(fn)
	if err != nil && errors.Is(err, plumbing.ErrObjectNotFound) {
		err = o.readNew(h, fn)
	} else if err != nil {
		err = o.tryAnew(fn, err)
	}
	switch {
	case err == nil:
		return nil
	case errors.Is(err, plumbing.ErrObjectNotFound):
		return problem(ErrMissing, "object %s is not in the repository", h)
	case o.broken != nil:
		o.broken(err)
	}
	return fmt.Errorf("read object %s: %w", h, err)
}

// readNew reads an object that no store has: the repository that this one is
// beside may have it, or it is new on the disk.
func (o *objects) readNew(h plumbing.Hash, fn func(*filesystem.Storage) error) error {
	if o.beside != nil && o.beside.read(h, fn) == nil {
		return nil
	}
	o.elsewhere = nil
	if err := o.open(); err != nil {
		return err
	}
	err := o.try(fn)
	if err == nil || errors.Is(err, plumbing.ErrObjectNotFound) && !o.outdated() {
		return err
	}
	return o.tryAnew(fn, err)
}

// anew is how often a repository is opened again for one read. While packs become
// one, those that are replaced go one by one, and each may go between the listing
// and its opening: there are some fifty of them.
const anew = 100

// tryAnew reads again after an error that is not a missing object.
func (o *objects) tryAnew(fn func(*filesystem.Storage) error, err error) error {
	for n := 0; n == 0 || n < anew && passing(err); n++ {
		_ = o.closeLocked()
		if err = o.try(fn); err == nil {
			return nil
		}
	}
	return err
}

// passing says that an error may come of packs that were replaced meanwhile.
func passing(err error) bool {
	return errors.Is(err, os.ErrNotExist) || errors.Is(err, plumbing.ErrObjectNotFound) || errors.Is(err, dotgit.ErrPackfileNotFound)
}

// outdated says whether the packs on the disk are others than those that are
// read. Whoever lists a folder while packs become one may see neither those that
// go nor the one that comes.
func (o *objects) outdated() bool {
	read := make(map[string][]string)
	for _, st := range o.stores {
		read[st.dir] = append(read[st.dir], st.packs...)
	}
	for dir, names := range read {
		packs, err := packsOf(dir)
		if err != nil || len(packs) != len(names) || slices.ContainsFunc(packs, func(p packFile) bool { return !slices.Contains(names, p.name) }) {
			return true
		}
	}
	return false
}

func (o *objects) try(fn func(*filesystem.Storage) error) error {
	if o.stores == nil {
		if err := o.open(); err != nil {
			return err
		}
	}
	for _, st := range o.stores {
		if err := fn(st.Storage); !errors.Is(err, plumbing.ErrObjectNotFound) {
			return err
		}
	}
	return plumbing.ErrObjectNotFound
}

func (o *objects) commit(h plumbing.Hash) (c *object.Commit, err error) {
	err = o.read(h, func(st *filesystem.Storage) error {
		c, err = object.GetCommit(st, h)
		return err
	})
	return c, err
}

// tree returns the entries of a folder; the zero hash is a folder without any.
func (o *objects) tree(h plumbing.Hash) ([]object.TreeEntry, error) {
	if h.IsZero() {
		return nil, nil
	}
	var entries []object.TreeEntry
	err := o.read(h, func(st *filesystem.Storage) error {
		if n, err := st.EncodedObjectSize(h); err != nil {
			return err
		} else if n > maxFolder {
			return fmt.Errorf("folder of %d bytes", n)
		}
		t, err := object.GetTree(st, h)
		if err != nil {
			return err
		}
		entries = t.Entries
		return nil
	})
	return entries, err
}

// kept is tree for a folder that is likely to be read again soon.
func (o *objects) kept(h plumbing.Hash) ([]object.TreeEntry, error) {
	if entries, ok := o.shared.folder(h); ok {
		return entries, nil
	}
	entries, err := o.tree(h)
	if err == nil {
		o.shared.keep(h, entries)
	}
	return entries, err
}

// blob returns the content of a file, which may have limit bytes.
func (o *objects) blob(h plumbing.Hash, limit int64) (data []byte, err error) {
	err = o.read(h, func(st *filesystem.Storage) error {
		if n, err := st.EncodedObjectSize(h); err != nil {
			return err
		} else if n > limit {
			return fmt.Errorf("it has %d bytes", n)
		}
		data, err = readBlob(st, h)
		return err
	})
	return data, err
}

func readBlob(st *filesystem.Storage, h plumbing.Hash) ([]byte, error) {
	e, err := st.EncodedObject(plumbing.BlobObject, h)
	if err != nil {
		return nil, err
	}
	r, err := e.Reader()
	if err != nil {
		return nil, err
	}
	data := make([]byte, e.Size())
	_, err = io.ReadFull(r, data)
	return data, errors.Join(err, r.Close())
}

// has says whether the content of an entry is here; that of a submodule need
// not be.
func (o *objects) has(e object.TreeEntry) error {
	o.mu.Lock()
	absent := o.absent[e.Hash]
	o.mu.Unlock()
	if absent || e.Mode == filemode.Submodule {
		return nil
	}
	return o.read(e.Hash, func(st *filesystem.Storage) error { return st.HasEncodedObject(e.Hash) })
}

// stat returns the facts of a blob. They never change, so they are remembered:
// the next walk of the same files reads no blob.
func (o *objects) stat(h plumbing.Hash) (f facts, err error) {
	o.mu.Lock()
	f.absent = o.absent[h]
	o.mu.Unlock()
	if f.absent {
		return f, nil
	}
	if f, ok := o.shared.recall(h); ok {
		return f, nil
	}
	err = o.read(h, func(st *filesystem.Storage) error {
		if f.size, err = st.EncodedObjectSize(h); err != nil {
			return err
		}
		if f.size <= maxPointer {
			data, err := readBlob(st, h)
			if err != nil {
				return err
			}
			f.lfs = isPointer(data)
		}
		o.shared.remember(h, f)
		return nil
	})
	return f, err
}
