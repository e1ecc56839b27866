package pack

import (
	"bytes"
	"errors"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
)

// find finds an object by its hash.
func (x *indexer) find(h plumbing.Hash) (*object, bool) {
	i, ok := slices.BinarySearchFunc(x.order, h, func(at int32, h plumbing.Hash) int { return bytes.Compare(x.all[at].hash[:], h[:]) })
	if !ok {
		return nil, false
	}
	return &x.all[x.order[i]], true
}

// finder is an index as go-git wants one to read a pack by, over what is in memory
// already: its own would take as much again.
type finder struct{ x *indexer }

var _ idxfile.Index = finder{}

// Contains implements idxfile.Index.
func (f finder) Contains(h plumbing.Hash) (bool, error) {
	_, ok := f.x.find(h)
	return ok, nil
}

// FindOffset implements idxfile.Index.
func (f finder) FindOffset(h plumbing.Hash) (int64, error) {
	o, ok := f.x.find(h)
	if !ok {
		return 0, plumbing.ErrObjectNotFound
	}
	return o.pos, nil
}

// FindCRC32 implements idxfile.Index.
func (f finder) FindCRC32(h plumbing.Hash) (uint32, error) {
	o, ok := f.x.find(h)
	if !ok {
		return 0, plumbing.ErrObjectNotFound
	}
	return o.crc, nil
}

// FindHash implements idxfile.Index.
func (f finder) FindHash(pos int64) (plumbing.Hash, error) {
	i, ok := slices.BinarySearchFunc(f.x.all, pos, func(o object, pos int64) int { return int(o.pos - pos) })
	if !ok {
		return plumbing.ZeroHash, plumbing.ErrObjectNotFound
	}
	return f.x.all[i].hash, nil
}

// Count implements idxfile.Index.
func (f finder) Count() (int64, error) { return int64(len(f.x.all)), nil }

var errNoEntries = errors.New("the objects are not listed so")

// Entries implements idxfile.Index. Nobody who reads single objects asks for it.
func (finder) Entries() (idxfile.EntryIter, error) { return nil, errNoEntries }

// EntriesByOffset implements idxfile.Index.
func (finder) EntriesByOffset() (idxfile.EntryIter, error) { return nil, errNoEntries }
