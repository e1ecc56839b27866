// Package pack takes in Git packs that strangers send.
//
// Watches nothing; owns nothing: it writes into the repository that its caller
// names. It promises that a pack is read through against bounds before
// anything is made of it, so that what it costs is what was allowed and not
// what it says of itself, and that a pack that is kept is whole, ends with its
// own sum and is on the disk together with its index.
package pack

import (
	"bytes"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

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

// Spool writes what r carries to a new file, through to the disk. A stream that
// is longer than l.Size, or that announces more than l.Objects, is ErrTooLarge;
// what is left of it is not read.
func Spool(path string, r io.Reader, l Limits) (int64, error) {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o644)
	if err != nil {
		return 0, fmt.Errorf("store pack: %w", err)
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
		return 0, errors.Join(err, f.Close())
	}
	all, err := io.Copy(f, io.LimitReader(io.MultiReader(bytes.NewReader(head[:n]), r), l.Size+1))
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return all, fmt.Errorf("store pack: %w", err)
	}
	if all > l.Size {
		return all, fmt.Errorf("%w: a pack may have %s", ErrTooLarge, size(l.Size))
	}
	return all, nil
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

// Store verifies the pack in the file at path, makes its index and moves both
// into the repository in dir, which is in the same file system. It returns the
// name of the pack relative to dir without suffix, "" for one without objects,
// whose file is removed, and the objects it brings. Objects that a difference
// refers to must be in the pack.
func Store(path, dir string, l Limits) (base string, objs []Object, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", nil, fmt.Errorf("index pack: %w", err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return "", nil, fmt.Errorf("index pack: %w", err)
	}
	sum, err := checkSum(f, info.Size())
	if err != nil {
		return "", nil, err
	}
	count, err := checkBounds(f, info.Size(), l)
	if err != nil {
		return "", nil, err
	}
	if count == 0 {
		return "", nil, os.Remove(path)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", nil, fmt.Errorf("index pack: %w", err)
	}
	x, end, err := index(f, count, l)
	if err != nil {
		return "", nil, fmt.Errorf("index pack: %w", err)
	}
	if end != sum {
		return "", nil, fmt.Errorf("index pack: %w: bytes after the end", packfile.ErrMalformedPackFile)
	}
	base = filepath.Join("objects", "pack", "pack-"+sum.String())
	if err := x.write(path+".idx", sum); err != nil {
		return "", nil, err
	}
	objs = x.objects()
	return base, objs, Place(path, path+".idx", filepath.Join(dir, base))
}

// checkSum verifies that the file ends with the sum of all before it, and goes
// back to its beginning.
func checkSum(f *os.File, size int64) (plumbing.Hash, error) {
	var want plumbing.Hash
	if size < int64(len(want)) {
		return want, fmt.Errorf("read pack: %w: too short", packfile.ErrMalformedPackFile)
	}
	sum := sha1.New()
	if _, err := io.CopyN(sum, f, size-int64(len(want))); err != nil {
		return want, fmt.Errorf("read pack: %w", err)
	}
	if _, err := io.ReadFull(f, want[:]); err != nil {
		return want, fmt.Errorf("read pack: %w", err)
	}
	if plumbing.Hash(sum.Sum(nil)) != want {
		return want, fmt.Errorf("read pack: %w: it is cut short, or its sum is wrong", packfile.ErrMalformedPackFile)
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return want, fmt.Errorf("read pack: %w", err)
	}
	return want, nil
}

func size(n int64) string {
	if n >= 1<<20 {
		return fmt.Sprintf("%d MiB", (n+1<<20-1)>>20)
	}
	return fmt.Sprintf("%d bytes", n)
}
