package receive

import (
	"path/filepath"
	"strings"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/storage/filesystem"

	"github.com/writ-os/writ/reconciler/source/pack"
)

// objects reads the objects of a repository as they were when it was opened.
// It serves one goroutine and must be closed.
type objects struct {
	*filesystem.Storage
	dir   string
	packs []*idxfile.MemoryIndex // read when first asked for
}

// objectCache holds bases of differences and folders that are read again, for each
// exchange that is under way.
const objectCache = 8 * cache.MiByte

func openObjects(dir string) *objects {
	return &objects{dir: dir, Storage: filesystem.NewStorageWithOptions(osfs.New(dir), cache.NewObjectLRU(objectCache),
		filesystem.Options{KeepDescriptors: true, ExclusiveAccess: true})}
}

// HasEncodedObject implements storer.EncodedObjectStorer. The storage's own
// does not see packs when access is exclusive, and without that it asks the
// file system for each object first.
func (o *objects) HasEncodedObject(h plumbing.Hash) error {
	if o.packs == nil {
		if err := o.readIndexes(); err != nil {
			return err
		}
	}
	for _, p := range o.packs {
		if ok, err := p.Contains(h); ok || err != nil {
			return err
		}
	}
	_, err := o.EncodedObject(plumbing.AnyObject, h)
	return err
}

func (o *objects) readIndexes() error {
	paths, err := filepath.Glob(filepath.Join(o.dir, "objects", "pack", "pack-*.pack")) // without its pack, an index promises what is not there
	if err != nil {
		return err
	}
	o.packs = make([]*idxfile.MemoryIndex, 0, len(paths))
	for _, path := range paths {
		p, err := pack.ReadIndex(strings.TrimSuffix(path, ".pack"))
		if err != nil {
			return err
		}
		o.packs = append(o.packs, p)
	}
	return nil
}
