package pack

import (
	"errors"
	"fmt"
	"io"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// checkBounds reads through a pack without keeping anything and refuses one
// that would grow out of bounds when its objects are unpacked.
func checkBounds(r io.Reader, length int64, l Limits) (count uint32, err error) {
	s := packfile.NewScanner(r)
	_, count, err = s.Header()
	if errors.Is(err, packfile.ErrEmptyPackfile) {
		return 0, fmt.Errorf("read pack: %w: no header", packfile.ErrMalformedPackFile)
	}
	if err != nil {
		return 0, fmt.Errorf("read pack: %w", err)
	}
	if err := countAllowed(count, l); err != nil {
		return 0, err
	}
	if int64(count) > length/8 { // the shortest object there can be is longer
		return 0, fmt.Errorf("read pack: %w: %d objects in %d bytes", packfile.ErrMalformedPackFile, count, length)
	}
	var total int64
	for range count {
		h, err := s.NextObjectHeader()
		if err != nil {
			return 0, fmt.Errorf("read pack: %w", err)
		}
		if h.Length < 0 || h.Length > l.Object {
			return 0, tooLarge(h.Length, l.Object)
		}
		grown, prefix := h.Length, prefixWriter{}
		n, _, err := s.NextObject(&prefix)
		if err != nil {
			return 0, fmt.Errorf("read pack: %w", err)
		}
		if n != h.Length { // the scanner itself refuses more
			return 0, fmt.Errorf("read pack: %w: an object of %d bytes says that it has %d", packfile.ErrMalformedPackFile, n, h.Length)
		}
		most := mostOf(h.Type, l)
		if h.Type.IsDelta() {
			grown, most = deltaTarget(prefix.b[:prefix.n]), min(l.Object, l.Delta)
		}
		if grown < 0 || grown > most {
			return 0, tooLarge(grown, most)
		}
		if total += grown; total > l.Total {
			return 0, fmt.Errorf("%w: its objects measure over %s when unpacked", ErrTooLarge, size(l.Total))
		}
	}
	return count, nil
}

// mostOf bounds an object of a kind.
func mostOf(kind plumbing.ObjectType, l Limits) int64 {
	switch kind {
	case plumbing.CommitObject, plumbing.TagObject:
		return min(l.Object, MaxRaw)
	case plumbing.TreeObject:
		return min(l.Object, MaxFolder)
	}
	return l.Object
}

func tooLarge(is, may int64) error {
	if is < 0 {
		return fmt.Errorf("%w: an object that does not say how long it is", ErrTooLarge)
	}
	return fmt.Errorf("%w: an object of %s; one may have %s", ErrTooLarge, size(is), size(may))
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
	var n int64
	for range 2 { // the size of the base, then of the target
		n = 0
		for shift := 0; ; shift += 7 {
			if len(b) == 0 || shift > 55 {
				return -1
			}
			c := b[0]
			b = b[1:]
			n |= int64(c&0x7f) << shift
			if c&0x80 == 0 {
				break
			}
		}
	}
	return n
}
