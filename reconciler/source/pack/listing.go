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
	"slices"

	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// A listing says which objects a pack has and where: for each, in the order of
// their hashes, the hash, the sum of its bytes in the pack, and its position.
const listed = 20 + 4 + 8

// single refuses a pack that has an object twice, as git does in strict mode.
func (x *indexer) single() error {
	x.order = make([]int32, len(x.all))
	for i := range x.order {
		x.order[i] = int32(i) //nolint:gosec // Limits.Objects are fewer
	}
	slices.SortFunc(x.order, func(a, b int32) int { return bytes.Compare(x.all[a].hash[:], x.all[b].hash[:]) })
	for i := 1; i < len(x.order); i++ {
		if h := x.all[x.order[i]].hash; h == x.all[x.order[i-1]].hash {
			return fmt.Errorf("index pack: %w: object %s is in it twice", packfile.ErrMalformedPackFile, h)
		}
	}
	return nil
}

// Listing is what Place needs to know.
func (c *Contents) Listing() []byte {
	if c.index == nil {
		return nil
	}
	out := make([]byte, 0, listed*len(c.index.all))
	for _, i := range c.index.order {
		o := &c.index.all[i]
		out = append(out, o.hash[:]...)
		out = binary.BigEndian.AppendUint32(out, o.crc)
		out = binary.BigEndian.AppendUint64(out, uint64(o.pos)) //nolint:gosec // a position in a file
	}
	return out
}

// MaxListing is how many bytes a listing has at most.
func (l Limits) MaxListing() int64 { return listed * l.Objects }

// errListing is that of a listing which no pack has.
var errListing = errors.New("what the child process says of the pack cannot be")

// Place makes the index of a pack that was read, and moves both into the repository
// in dir, which is in the same file system. It returns the name of the pack
// relative to dir without suffix, "" for one without objects, whose file is
// removed. The listing may come from a process that what was sent has taken over:
// it cannot be one of which readers of the index would be led astray.
func (s Spooled) Place(dir string, listing []byte) (base string, err error) {
	if len(listing) == 0 {
		return "", os.Remove(s.Path)
	}
	if err := s.checkListing(listing); err != nil {
		return "", err
	}
	base = filepath.Join("objects", "pack", "pack-"+s.sum.String())
	if err := writeIndex(s.Path+".idx", listing, s.sum); err != nil {
		return "", err
	}
	return base, Place(s.Path, s.Path+".idx", filepath.Join(dir, base))
}

// checkListing says whether a listing names as many objects as the pack has, each
// once and at a place of its own inside of it.
func (s Spooled) checkListing(listing []byte) error {
	f, err := os.Open(s.Path)
	if err != nil {
		return fmt.Errorf("index pack: %w", err)
	}
	var head [headerSize]byte
	_, err = io.ReadFull(f, head[:])
	if err = errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("index pack: %w", err)
	}
	n := len(listing) / listed
	if len(listing)%listed != 0 || uint64(n) != uint64(binary.BigEndian.Uint32(head[8:])) {
		return fmt.Errorf("index pack: %w", errListing)
	}
	places := make([]uint64, 0, n)
	for i := 0; i < n; i++ {
		o := listing[i*listed:][:listed]
		if i > 0 && bytes.Compare(listing[(i-1)*listed:][:20], o[:20]) >= 0 {
			return fmt.Errorf("index pack: %w", errListing)
		}
		places = append(places, binary.BigEndian.Uint64(o[24:]))
	}
	slices.Sort(places)
	for i, at := range places {
		if at < headerSize || at >= uint64(s.Size-trailerSize) || i > 0 && at == places[i-1] { //nolint:gosec // longer than both
			return fmt.Errorf("index pack: %w", errListing)
		}
	}
	return nil
}

// own finds the sum of a pack of our own.
func own(path string) (Spooled, error) {
	f, err := os.Open(path)
	if err != nil {
		return Spooled{}, fmt.Errorf("index pack: %w", err)
	}
	defer f.Close()
	end := trailer{sum: sha1.New()}
	n, err := io.Copy(&end, f)
	if err != nil {
		return Spooled{}, fmt.Errorf("index pack: %w", err)
	}
	sum, err := end.check()
	return Spooled{Path: path, Size: n, sum: sum}, err
}

// Store takes in a pack that this process has written to a file: Read and Place in
// one. It returns the name of the pack, as Place does, and its objects.
func Store(path, dir string, l Limits) (base string, objs []Object, err error) {
	s, err := own(path)
	if err != nil {
		return "", nil, err
	}
	return s.Store(dir, l)
}
