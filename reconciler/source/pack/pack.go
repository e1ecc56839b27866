// Package pack takes in Git packs that strangers send.
//
//	Spool ──file──▶ Read ──Listing──▶ Place
//	server          child             server
//
// Watches nothing; owns nothing: it writes into the repository that its caller
// names. It promises that a pack is read through against bounds before
// anything is made of it, so that what it costs is what was allowed and not
// what it says of itself, and that a pack that is kept is whole, ends with its
// own sum and is on the disk together with its index.
//
// Spool and Place look at no byte of what was sent but its header and its sum:
// Read, which does, may be the work of another process.
package pack

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"os"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// ErrTooLarge refuses a pack over a bound.
var ErrTooLarge = errors.New("too large")

// Limits bound a pack. All must be set; but for Objects they are in bytes.
type Limits struct {
	Size    int64 // of the pack as it is sent
	Object  int64 // of any one object when it is unpacked
	Delta   int64 // of an object that is stored as a difference: it is made in memory
	Total   int64 // of all objects when they are unpacked
	Objects int64 // how many there may be: each costs some 200 bytes of memory, however short it is
}

// Bounds of single objects, whatever the Limits are: who reads them later reads
// them whole.
const (
	// MaxFolder is the longest tree, in bytes: some 200,000 entries.
	MaxFolder = 8 << 20
	// MaxRaw is the longest commit or tag, in bytes: its message and its signature.
	MaxRaw = 1 << 20
	// MaxChain is how many differences may lie between an object and one that is
	// stored whole, which readers follow by calling themselves. git makes no longer
	// chains: pack.depth of git-config(1).
	MaxChain = 4095
)

// Object is one object of a pack.
type Object struct {
	Hash plumbing.Hash
	Kind plumbing.ObjectType
	Size int64 // when it is unpacked
}

// Spooled is a pack that lies in a file as it was sent: nothing is known of it but
// its length and its sum.
type Spooled struct {
	Path string
	Size int64 // 0: nothing has come
	sum  plumbing.Hash
}

// Spool writes what r carries to a new file, through to the disk. A stream that
// is longer than l.Size, or that announces more than l.Objects, is ErrTooLarge;
// what is left of it is not read. One that does not end with its own sum is
// refused.
func Spool(path string, r io.Reader, l Limits) (Spooled, error) {
	s := Spooled{Path: path}
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if err != nil {
		return s, fmt.Errorf("store pack: %w", err)
	}
	var head [headerSize]byte
	n, err := io.ReadFull(r, head[:])
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	if err == nil && n == len(head) {
		err = countAllowed(binary.BigEndian.Uint32(head[8:]), l)
	}
	if err != nil {
		return s, errors.Join(err, f.Close())
	}
	end := trailer{sum: sha1.New()}
	s.Size, err = io.Copy(io.MultiWriter(f, &end), io.LimitReader(io.MultiReader(bytes.NewReader(head[:n]), r), l.Size+1))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return s, fmt.Errorf("store pack: %w", err)
	}
	if s.Size > l.Size {
		return s, fmt.Errorf("%w: a pack may have %s", ErrTooLarge, size(l.Size))
	}
	if s.Size > 0 {
		s.sum, err = end.check()
	}
	return s, err
}

// trailer sums up all but the last bytes that are written, which must be that sum.
type trailer struct {
	sum  hash.Hash
	last []byte
}

// Write implements io.Writer.
func (t *trailer) Write(p []byte) (int, error) {
	t.last = append(t.last, p...)
	if more := len(t.last) - trailerSize; more > 0 {
		_, _ = t.sum.Write(t.last[:more])
		t.last = append(t.last[:0], t.last[more:]...)
	}
	return len(p), nil
}

func (t *trailer) check() (plumbing.Hash, error) {
	var want plumbing.Hash
	if copy(want[:], t.last) < len(want) {
		return want, fmt.Errorf("read pack: %w: too short", packfile.ErrMalformedPackFile)
	}
	if plumbing.Hash(t.sum.Sum(nil)) != want {
		return want, fmt.Errorf("read pack: %w: it is cut short, or its sum is wrong", packfile.ErrMalformedPackFile)
	}
	return want, nil
}

// A pack begins with "PACK", its version and the number of its objects, and ends
// with the sum of all before.
const (
	headerSize  = 12
	trailerSize = 20
)

func countAllowed(count uint32, l Limits) error {
	if int64(count) > l.Objects {
		return fmt.Errorf("%w: %d objects at once; there may be %d: send the history in parts, older commits first", ErrTooLarge, count, l.Objects)
	}
	return nil
}

// Store takes in a pack that is as trustworthy as this process: one of our own. It
// is Read and Place in one. It returns the objects of the pack in its order.
func (s Spooled) Store(dir string, l Limits) (base string, objs []Object, err error) {
	f, err := os.Open(s.Path)
	if err != nil {
		return "", nil, fmt.Errorf("index pack: %w", err)
	}
	defer f.Close()
	c, err := Read(f, s.Size, l)
	if err != nil {
		return "", nil, err
	}
	base, err = s.Place(dir, c.Listing())
	return base, slices.Collect(c.All()), err
}

func size(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", (n+1<<20-1)>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
