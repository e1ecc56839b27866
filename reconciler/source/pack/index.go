package pack

import (
	"bytes"
	"fmt"
	"io"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// indexer makes the index of a pack. Objects that are stored whole are hashed
// as they stream by, whatever their length; the parser of go-git would hold
// each of them in memory. Only what differences need is.
type indexer struct {
	s   *packfile.Scanner
	l   Limits
	all []object // in the order of the pack
	// order are the places of all in the order of their hashes.
	order []int32
	// waiting are the first of the differences from an object that is named by its
	// hash; sibling leads to the others.
	waiting map[plumbing.Hash]int32
	live    int64 // bytes of objects that are in memory
}

// object is one object while the pack is indexed. Others are named by their place
// in the pack, counted from 1; 0 is none.
type object struct {
	pos     int64
	length  int64 // when it is unpacked; of a difference that is not made yet, its own
	hash    plumbing.Hash
	crc     uint32
	child   int32 // the first difference from it
	sibling int32 // the next difference from the same one
	kind    plumbing.ObjectType
}

// index reads a pack that is within its bounds. It returns the sum that the pack
// ends with.
func index(r io.ReadSeeker, count uint32, l Limits) (*indexer, plumbing.Hash, error) {
	x := &indexer{s: packfile.NewScanner(r), l: l, all: make([]object, 0, count), waiting: make(map[plumbing.Hash]int32)}
	if _, _, err := x.s.Header(); err != nil {
		return nil, plumbing.ZeroHash, err
	}
	for range count {
		if err := x.scan(); err != nil {
			return nil, plumbing.ZeroHash, err
		}
	}
	sum, err := x.s.Checksum()
	if err != nil {
		return nil, plumbing.ZeroHash, err
	}
	for i := range x.all {
		if o := &x.all[i]; o.kind.IsDelta() || o.hash.IsZero() || o.child == 0 && len(x.waiting) == 0 {
			continue // what is made of differences is no root again
		}
		if err := x.resolve(int32(i + 1)); err != nil {
			return nil, plumbing.ZeroHash, err
		}
	}
	for i := range x.all {
		if x.all[i].kind.IsDelta() {
			return nil, plumbing.ZeroHash, fmt.Errorf("%w: a difference from an object that is not in the pack", packfile.ErrMalformedPackFile)
		}
	}
	return x, sum, nil
}

// scan reads one object.
func (x *indexer) scan() error {
	h, err := x.s.NextObjectHeader()
	if err != nil {
		return err
	}
	o := object{pos: h.Offset, kind: h.Type, length: h.Length}
	into := io.Discard
	hasher := plumbing.NewHasher(h.Type, h.Length)
	if !h.Type.IsDelta() {
		into = hasher
	}
	if _, o.crc, err = x.s.NextObject(into); err != nil {
		return err
	}
	x.all = append(x.all, o)
	me := int32(len(x.all)) //nolint:gosec // Limits.Objects are fewer
	last := &x.all[me-1]
	switch h.Type {
	case plumbing.OFSDeltaObject:
		base, ok := slices.BinarySearchFunc(x.all[:me-1], h.OffsetReference, func(o object, pos int64) int { return int(o.pos - pos) })
		if !ok {
			return fmt.Errorf("%w: a difference from nothing", packfile.ErrMalformedPackFile)
		}
		last.sibling, x.all[base].child = x.all[base].child, me
	case plumbing.REFDeltaObject:
		last.sibling, x.waiting[h.Reference] = x.waiting[h.Reference], me
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
		last.hash = hasher.Sum()
	default:
		return fmt.Errorf("%w: an object of kind %d", packfile.ErrMalformedPackFile, h.Type)
	}
	return nil
}

// base is an object in memory whose differences are being made.
type base struct {
	at    int32
	chain int // differences between it and an object that is stored whole
	data  []byte
}

// resolve makes what differs from an object, and what differs from that.
func (x *indexer) resolve(root int32) error {
	if !x.adopt(root) {
		return nil
	}
	data, err := x.read(x.all[root-1].pos, x.all[root-1].length)
	if err != nil {
		return err
	}
	stack := []base{{at: root, data: data}}
	x.live = int64(len(data))
	for len(stack) > 0 {
		top := stack[len(stack)-1]
		o := &x.all[top.at-1]
		child := o.child
		if child == 0 {
			x.live -= int64(len(top.data))
			stack = stack[:len(stack)-1]
			continue
		}
		o.child = x.all[child-1].sibling
		if top.chain == MaxChain {
			return fmt.Errorf("%w: a chain of more than %d differences of differences", ErrTooLarge, MaxChain)
		}
		data, err := x.make(child, top)
		if err != nil {
			return err
		}
		if o.child == 0 { // nothing else needs it
			x.live -= int64(len(top.data))
			stack = stack[:len(stack)-1]
		}
		if !x.adopt(child) {
			continue
		}
		if x.live += int64(len(data)); x.live > 4*x.l.Delta {
			return fmt.Errorf("%w: differences of differences over %s in memory", ErrTooLarge, size(4*x.l.Delta))
		}
		stack = append(stack, base{child, top.chain + 1, data})
	}
	return nil
}

// adopt gives an object the differences that waited for its hash and says
// whether it has any.
func (x *indexer) adopt(at int32) bool {
	o := &x.all[at-1]
	for d, next := x.waiting[o.hash], int32(0); d != 0; d = next {
		next = x.all[d-1].sibling
		x.all[d-1].sibling, o.child = o.child, d
	}
	delete(x.waiting, o.hash)
	return o.child != 0
}

// make makes an object of a difference.
func (x *indexer) make(at int32, from base) ([]byte, error) {
	o := &x.all[at-1]
	delta, err := x.read(o.pos, o.length)
	if err != nil {
		return nil, err
	}
	data, err := packfile.PatchDelta(from.data, delta)
	if err != nil {
		return nil, err
	}
	o.kind, o.length = x.all[from.at-1].kind, int64(len(data))
	if most := mostOf(o.kind, x.l); o.length > most {
		return nil, tooLarge(o.length, most)
	}
	o.hash = plumbing.ComputeHash(o.kind, data)
	return data, nil
}

// read reads the content of one object of the pack again.
func (x *indexer) read(pos, length int64) ([]byte, error) {
	if length > x.l.Delta {
		return nil, tooLarge(length, x.l.Delta)
	}
	if _, err := x.s.SeekObjectHeader(pos); err != nil {
		return nil, err
	}
	var b bytes.Buffer
	_, _, err := x.s.NextObject(&b)
	return b.Bytes(), err
}
