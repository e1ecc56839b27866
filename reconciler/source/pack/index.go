package pack

import (
	"bytes"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// indexer makes the index of a pack. Objects that are stored whole are hashed
// as they stream by, whatever their length; the parser of go-git would hold
// each of them in memory. Only what differences need is.
type indexer struct {
	s     *packfile.Scanner
	l     Limits
	all   []*object
	byPos map[int64]*object
	byID  map[plumbing.Hash]*object
	// waiting are differences whose base is named by its hash.
	waiting map[plumbing.Hash][]*object
	live    int64 // bytes of objects that are in memory
}

// object is one object while the pack is indexed.
type object struct {
	pos      int64
	crc      uint32
	length   int64 // when it is unpacked
	kind     plumbing.ObjectType
	hash     plumbing.Hash
	children []*object // differences from it
}

// index reads a pack that is within its bounds.
func index(r io.ReadSeeker, count uint32, l Limits) (*idxfile.MemoryIndex, []Object, error) {
	x := &indexer{s: packfile.NewScanner(r), l: l, byPos: make(map[int64]*object), byID: make(map[plumbing.Hash]*object),
		waiting: make(map[plumbing.Hash][]*object)}
	if _, _, err := x.s.Header(); err != nil {
		return nil, nil, err
	}
	for range count {
		if err := x.scan(); err != nil {
			return nil, nil, err
		}
	}
	sum, err := x.s.Checksum()
	if err != nil {
		return nil, nil, err
	}
	var whole []*object // what is made of them is no root again
	for _, o := range x.all {
		if !o.kind.IsDelta() {
			whole = append(whole, o)
		}
	}
	for _, o := range whole {
		if err := x.resolve(o); err != nil {
			return nil, nil, err
		}
	}
	return x.finish(sum)
}

// scan reads one object.
func (x *indexer) scan() error {
	h, err := x.s.NextObjectHeader()
	if err != nil {
		return err
	}
	o := &object{pos: h.Offset, kind: h.Type, length: h.Length}
	into := io.Discard
	hasher := plumbing.NewHasher(h.Type, h.Length)
	if !h.Type.IsDelta() {
		into = hasher
	}
	if _, o.crc, err = x.s.NextObject(into); err != nil {
		return err
	}
	x.all = append(x.all, o)
	x.byPos[o.pos] = o
	switch h.Type {
	case plumbing.OFSDeltaObject:
		base, ok := x.byPos[h.OffsetReference]
		if !ok || base == o {
			return fmt.Errorf("%w: a difference from nothing", packfile.ErrMalformedPackFile)
		}
		base.children = append(base.children, o)
	case plumbing.REFDeltaObject:
		x.waiting[h.Reference] = append(x.waiting[h.Reference], o)
	case plumbing.CommitObject, plumbing.TreeObject, plumbing.BlobObject, plumbing.TagObject:
		o.hash = hasher.Sum()
		x.byID[o.hash] = o
	default:
		return fmt.Errorf("%w: an object of kind %d", packfile.ErrMalformedPackFile, h.Type)
	}
	return nil
}

// base is an object in memory whose differences are being made.
type base struct {
	object
	data []byte
}

// resolve makes what differs from o, and what differs from that.
func (x *indexer) resolve(o *object) error {
	if !x.adopt(o) {
		return nil
	}
	data, err := x.read(o.pos, o.length)
	if err != nil {
		return err
	}
	stack := []base{{*o, data}}
	x.live = int64(len(data))
	for len(stack) > 0 {
		top := &stack[len(stack)-1]
		if len(top.children) == 0 {
			x.live -= int64(len(top.data))
			stack = stack[:len(stack)-1]
			continue
		}
		child := top.children[0]
		top.children = top.children[1:]
		data, err := x.make(child, top)
		if err != nil {
			return err
		}
		if len(top.children) == 0 { // nothing else needs it
			x.live -= int64(len(top.data))
			stack = stack[:len(stack)-1]
		}
		if !x.adopt(child) {
			continue
		}
		if x.live += int64(len(data)); x.live > 4*x.l.Delta {
			return fmt.Errorf("%w: differences of differences over %s in memory", ErrTooLarge, size(4*x.l.Delta))
		}
		stack = append(stack, base{*child, data})
	}
	return nil
}

// adopt gives an object the differences that waited for its hash and says
// whether it has any.
func (x *indexer) adopt(o *object) bool {
	o.children = append(o.children, x.waiting[o.hash]...)
	delete(x.waiting, o.hash)
	return len(o.children) > 0
}

// make makes an object of a difference.
func (x *indexer) make(o *object, from *base) ([]byte, error) {
	delta, err := x.read(o.pos, o.length)
	if err != nil {
		return nil, err
	}
	data, err := packfile.PatchDelta(from.data, delta)
	if err != nil {
		return nil, err
	}
	o.kind = from.kind
	o.hash = plumbing.ComputeHash(o.kind, data)
	x.byID[o.hash] = o
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

// finish makes the index once every object has its hash.
func (x *indexer) finish(sum plumbing.Hash) (*idxfile.MemoryIndex, []Object, error) {
	w := new(idxfile.Writer)
	if err := w.OnHeader(uint32(len(x.all))); err != nil {
		return nil, nil, err
	}
	objs := make([]Object, 0, len(x.all))
	for _, o := range x.all {
		if o.kind.IsDelta() {
			return nil, nil, fmt.Errorf("%w: a difference from an object that is not in the pack", packfile.ErrMalformedPackFile)
		}
		w.Add(o.hash, uint64(o.pos), o.crc)
		objs = append(objs, Object{o.hash, o.kind})
	}
	if err := w.OnFooter(sum); err != nil {
		return nil, nil, err
	}
	mem, err := w.Index()
	return mem, objs, err
}
