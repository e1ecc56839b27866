package source

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"
)

const (
	// largeIndex is the length from which on the index of a pack is worth not
	// being read again: it has some thousands of objects.
	largeIndex = 128 << 10
	// maxStores is how many stores a repository is read through before all
	// packs are opened anew together.
	maxStores = 8
	// smallCache is the object cache of a store of small packs.
	smallCache = 1 * cache.MiByte
)

// opened is a store of some of the packs of a repository. go-git reads the
// indexes of all packs that a store has, and knows of no others later: with a
// store for what is new, the indexes of what is known are not read again.
type opened struct {
	*filesystem.Storage
	dir   string
	packs []string
	large bool
}

// packFile is a pack on the disk.
type packFile struct {
	name  string // without suffix
	large bool
}

// packsOf lists the packs of a repository; those without an index are none.
func packsOf(dir string) ([]packFile, error) {
	entries, err := os.ReadDir(filepath.Join(dir, "objects", "pack"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []packFile
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), ".idx")
		if !ok || !strings.HasPrefix(name, "pack-") {
			continue
		}
		if _, err := os.Stat(filepath.Join(dir, "objects", "pack", name+".pack")); err != nil {
			continue
		}
		info, err := e.Info()
		if err != nil {
			continue // it has gone meanwhile
		}
		out = append(out, packFile{name, info.Size() >= largeIndex})
	}
	return out, nil
}

// openSome opens stores for packs of a repository that have none yet: one for
// each large pack, and one for the others.
func openSome(dir string, packs []packFile) []*opened {
	var rest []string
	var out []*opened
	for _, p := range packs {
		if p.large {
			st := openPacks(dir, []string{p.name}, objectCache)
			st.large = true
			out = append(out, st)
		} else {
			rest = append(rest, p.name)
		}
	}
	// Objects that are in no pack are read through any store.
	if len(rest) > 0 || len(out) == 0 {
		out = append(out, openPacks(dir, rest, smallCache))
	}
	return out
}

func openPacks(dir string, names []string, size cache.FileSize) *opened {
	st := filesystem.NewStorageWithOptions(somePacks{osfs.New(dir), names}, cache.NewObjectLRU(size), filesystem.Options{KeepDescriptors: true})
	return &opened{Storage: st, dir: dir, packs: names}
}

// somePacks is the folder of a repository with some of its packs.
type somePacks struct {
	billy.Filesystem
	names []string
}

// ReadDir implements billy.Filesystem. Of the packs it lists those of the store,
// and looks at no other: with one that goes meanwhile the listing of a folder
// fails as that of a folder that is not there, which go-git takes for no packs.
func (f somePacks) ReadDir(dir string) ([]os.FileInfo, error) {
	if filepath.ToSlash(filepath.Clean(dir)) != "objects/pack" {
		return f.Filesystem.ReadDir(dir)
	}
	infos := make([]os.FileInfo, 0, len(f.names))
	for _, name := range f.names {
		info, err := f.Stat(f.Join(dir, name+".pack"))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("%s: %w", name, dotgit.ErrPackfileNotFound)
		}
		if err != nil {
			return nil, err
		}
		infos = append(infos, info)
	}
	return infos, nil
}

// open opens what is on the disk now and has no store yet, and closes the
// stores of packs that are gone.
func (o *objects) open() error {
	dirs, err := objectDirs(o.dir, maxAlternates)
	if err != nil {
		return err
	}
	var stores []*opened
	for _, st := range o.stores {
		if !slices.Contains(dirs, st.dir) {
			_ = st.Close()
		}
	}
	for _, dir := range dirs {
		packs, err := packsOf(dir)
		if err != nil {
			return err
		}
		mine := o.keep(dir, packs)
		packs = slices.DeleteFunc(packs, func(p packFile) bool {
			return slices.Contains(o.elsewhere, p.name) || slices.ContainsFunc(mine, func(st *opened) bool { return slices.Contains(st.packs, p.name) })
		})
		if len(packs) > 0 || len(mine) == 0 {
			mine = append(mine, openSome(dir, packs)...)
		}
		stores = append(stores, mine...)
	}
	o.stores = stores
	return nil
}

// keep returns the stores of a repository all of whose packs are still there,
// and closes the others; when there are too many, those of small packs too.
func (o *objects) keep(dir string, packs []packFile) []*opened {
	there := func(name string) bool {
		return slices.ContainsFunc(packs, func(p packFile) bool { return p.name == name })
	}
	var kept []*opened
	for _, st := range o.stores {
		if st.dir != dir {
			continue
		}
		gone := slices.ContainsFunc(st.packs, func(name string) bool { return !there(name) })
		if gone || len(st.packs) == 0 || !st.large && len(o.stores) >= maxStores {
			_ = st.Close()
		} else {
			kept = append(kept, st)
		}
	}
	return kept
}

// known are the packs that a handle reads.
func (o *objects) known() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	var out []string
	for _, st := range o.stores {
		out = append(out, st.packs...)
	}
	return out
}
