package receive

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// inflated is how many times the bound of a push its objects may measure when
// they are unpacked. Manifests compress to a fifth or so; a thousandth is an
// attack.
const inflated = 16

// packed is one object of a pack.
type packed struct {
	hash plumbing.Hash
	kind plumbing.ObjectType
}

// objectLister notes the objects of a pack while it is indexed.
type objectLister struct {
	objs []packed
	kind plumbing.ObjectType
}

// OnHeader implements packfile.Observer.
func (l *objectLister) OnHeader(uint32) error { return nil }

// OnInflatedObjectHeader implements packfile.Observer.
func (l *objectLister) OnInflatedObjectHeader(t plumbing.ObjectType, _, _ int64) error {
	l.kind = t
	return nil
}

// OnInflatedObjectContent implements packfile.Observer.
func (l *objectLister) OnInflatedObjectContent(h plumbing.Hash, _ int64, _ uint32, _ []byte) error {
	l.objs = append(l.objs, packed{h, l.kind})
	return nil
}

// OnFooter implements packfile.Observer.
func (l *objectLister) OnFooter(plumbing.Hash) error { return nil }

// checkBounds reads through a pack without keeping anything and refuses one
// that would grow out of bounds when its objects are unpacked.
func checkBounds(r io.Reader, size, limit int64) (count uint32, err error) {
	s := packfile.NewScanner(r)
	_, count, err = s.Header()
	if errors.Is(err, packfile.ErrEmptyPackfile) {
		return 0, fmt.Errorf("read pack: %w: no header", packfile.ErrMalformedPackFile)
	}
	if err != nil {
		return 0, fmt.Errorf("read pack: %w", err)
	}
	if int64(count) > size/8 { // the shortest object there can be is longer
		return 0, fmt.Errorf("read pack: %w: %d objects in %d bytes", packfile.ErrMalformedPackFile, count, size)
	}
	var total int64
	for range count {
		h, err := s.NextObjectHeader()
		if err != nil {
			return 0, fmt.Errorf("read pack: %w", err)
		}
		if h.Length > limit {
			return 0, fmt.Errorf("%w: an object of %d bytes", errTooLarge, h.Length)
		}
		grown, prefix := h.Length, prefixWriter{}
		if _, _, err := s.NextObject(&prefix); err != nil {
			return 0, fmt.Errorf("read pack: %w", err)
		}
		if h.Type.IsDelta() {
			grown = deltaTarget(prefix.b[:prefix.n])
		}
		if total += grown; grown < 0 || grown > limit || total > inflated*limit {
			return 0, fmt.Errorf("%w: its objects measure over %d MiB when unpacked", errTooLarge, inflated*limit>>20)
		}
	}
	return count, nil
}

// prefixWriter keeps the first bytes of what is written.
type prefixWriter struct {
	b [20]byte
	n int
}

// Write implements io.Writer.
func (p *prefixWriter) Write(b []byte) (int, error) {
	p.n += copy(p.b[p.n:], b)
	return len(b), nil
}

// deltaTarget is the size of the object that a delta makes; -1 when the delta
// does not say.
func deltaTarget(b []byte) int64 {
	var size int64
	for range 2 { // the size of the base, then of the target
		size = 0
		for shift := 0; ; shift += 7 {
			if len(b) == 0 || shift > 55 {
				return -1
			}
			c := b[0]
			b = b[1:]
			size |= int64(c&0x7f) << shift
			if c&0x80 == 0 {
				break
			}
		}
	}
	return size
}

// connected verifies that each of the new objects has what it refers to. As
// every push was verified so, the whole below any object is complete.
func connected(st storer.EncodedObjectStorer, objs []packed) error {
	kinds := make(map[plumbing.Hash]plumbing.ObjectType, len(objs))
	for _, o := range objs {
		kinds[o.hash] = o.kind
	}
	need := func(by, h plumbing.Hash, kind plumbing.ObjectType) error {
		have, ok := kinds[h]
		if !ok {
			have = plumbing.InvalidObject
			switch {
			case kind == plumbing.BlobObject:
				if st.HasEncodedObject(h) == nil {
					have = kind
				}
			default:
				if o, err := st.EncodedObject(kind, h); err == nil {
					have = o.Type()
				}
			}
			kinds[h] = have
		}
		if have == plumbing.InvalidObject || kind != plumbing.AnyObject && have != kind {
			return fmt.Errorf("missing objects: %s refers to %s %s", by, kind, h)
		}
		return nil
	}
	for _, o := range objs {
		if err := links(st, o, need); err != nil {
			return err
		}
	}
	return nil
}

// links calls need for each object that o refers to.
func links(st storer.EncodedObjectStorer, o packed, need func(by, h plumbing.Hash, kind plumbing.ObjectType) error) error {
	switch o.kind {
	case plumbing.CommitObject:
		c, err := object.GetCommit(st, o.hash)
		if err != nil {
			return fmt.Errorf("read commit %s: %w", o.hash, err)
		}
		for _, p := range c.ParentHashes {
			if err := need(o.hash, p, plumbing.CommitObject); err != nil {
				return err
			}
		}
		return need(o.hash, c.TreeHash, plumbing.TreeObject)
	case plumbing.TagObject:
		t, err := object.GetTag(st, o.hash)
		if err != nil {
			return fmt.Errorf("read tag %s: %w", o.hash, err)
		}
		return need(o.hash, t.Target, t.TargetType)
	case plumbing.TreeObject:
		entries, err := readTree(st, o.hash)
		if err != nil {
			return err
		}
		for _, e := range entries {
			kind := plumbing.BlobObject
			switch e.mode {
			case filemode.Submodule:
				continue
			case filemode.Dir:
				kind = plumbing.TreeObject
			}
			if err := need(o.hash, e.hash, kind); err != nil {
				return err
			}
		}
	}
	return nil
}
