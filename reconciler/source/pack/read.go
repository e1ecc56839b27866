package pack

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"os"

	"github.com/go-git/go-billy/v5"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// Contents is what a pack holds that was read through.
type Contents struct {
	file  io.ReaderAt
	size  int64
	sum   plumbing.Hash
	index *indexer
	pack  *packfile.Packfile // for Get
}

// Read reads a pack through, against its bounds, and finds its objects. Objects
// that a difference refers to must be in the pack. It writes nothing, and reads
// nothing but the file.
func Read(file io.ReaderAt, size int64, l Limits) (*Contents, error) {
	c := &Contents{file: file, size: size}
	count, err := checkBounds(c.reader(), size, l)
	if err != nil {
		return nil, err
	}
	if count == 0 {
		return c, nil
	}
	if c.index, c.sum, err = index(c.reader(), count, l); err != nil {
		return nil, fmt.Errorf("index pack: %w", err)
	}
	var last plumbing.Hash
	if _, err := file.ReadAt(last[:], size-trailerSize); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("index pack: %w", err)
	}
	if last != c.sum {
		return nil, fmt.Errorf("index pack: %w: bytes after the end", packfile.ErrMalformedPackFile)
	}
	return c, c.index.single()
}

func (c *Contents) reader() *io.SectionReader { return io.NewSectionReader(c.file, 0, c.size) }

// All are the objects of the pack, in its order.
func (c *Contents) All() iter.Seq[Object] {
	return func(yield func(Object) bool) {
		if c.index == nil {
			return
		}
		for i := range c.index.all {
			if o := &c.index.all[i]; !yield(Object{o.hash, o.kind, o.length}) {
				return
			}
		}
	}
}

// Kind is what an object of the pack is; false: it is not in it.
func (c *Contents) Kind(h plumbing.Hash) (plumbing.ObjectType, bool) {
	if c.index == nil {
		return plumbing.InvalidObject, false
	}
	o, ok := c.index.find(h)
	if !ok {
		return plumbing.InvalidObject, false
	}
	return o.kind, true
}

// objectCache holds bases of differences.
const objectCache = 8 * cache.MiByte

// Get returns an object of the pack, held in memory. It is within the bounds.
func (c *Contents) Get(h plumbing.Hash) (plumbing.EncodedObject, error) {
	if c.index == nil {
		return nil, plumbing.ErrObjectNotFound
	}
	if c.pack == nil {
		c.pack = objects(finder{c.index}, c.reader())
	}
	return c.pack.Get(h)
}

// objects reads the objects of a pack into memory.
func objects(x idxfile.Index, r *io.SectionReader) *packfile.Packfile {
	return packfile.NewPackfileWithCache(x, nil, readOnly{r}, cache.NewObjectLRU(objectCache), 0)
}

// Opened is a pack that was placed.
type Opened struct {
	file *os.File
	pack *packfile.Packfile
}

// Open opens the pack at base, a path without suffix. It stays readable where it is
// moved or removed.
func Open(base string) (*Opened, error) {
	x, err := ReadIndex(base)
	if err != nil {
		return nil, err
	}
	f, err := os.Open(base + ".pack")
	if err != nil {
		return nil, fmt.Errorf("open pack: %w", err)
	}
	info, err := f.Stat()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open pack: %w", err), f.Close())
	}
	return &Opened{f, objects(x, io.NewSectionReader(f, 0, info.Size()))}, nil
}

// Get returns an object of the pack, held in memory.
func (o *Opened) Get(h plumbing.Hash) (plumbing.EncodedObject, error) { return o.pack.Get(h) }

// Close closes the pack.
func (o *Opened) Close() error { return o.file.Close() }

// readOnly is a file as go-git wants one.
type readOnly struct{ *io.SectionReader }

var _ billy.File = readOnly{}

var errReadOnly = errors.New("the file cannot be written")

// Name implements billy.File.
func (readOnly) Name() string { return "pack" }

// Write implements billy.File.
func (readOnly) Write([]byte) (int, error) { return 0, errReadOnly }

// Truncate implements billy.File.
func (readOnly) Truncate(int64) error { return errReadOnly }

// Lock implements billy.File.
func (readOnly) Lock() error { return nil }

// Unlock implements billy.File.
func (readOnly) Unlock() error { return nil }

// Close implements billy.File.
func (readOnly) Close() error { return nil }
