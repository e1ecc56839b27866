package receive

import (
	"bufio"
	"crypto/sha1"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"

	"github.com/writ-os/writ/reconciler/source/pack"
)

// Every push leaves a pack, and every reader opens all of them. When there
// are this many small ones they become one. A pack that has grown large is
// left alone, so that a merge costs milliseconds.
const (
	manyPacks = 50
	smallPack = 4 << 20
)

const (
	packHeader  = 12 // "PACK", version, number of objects
	packTrailer = 20 // sum of all before it
)

// merge makes one pack of the small ones when there are many. It gives way to
// readers: with one under way nothing happens, and the next push tries again.
func (repo *repository) merge() error {
	repo.mu.Lock()
	defer repo.mu.Unlock()
	if !repo.packs.TryLock() {
		return nil
	}
	defer repo.packs.Unlock()
	paths, err := filepath.Glob(filepath.Join(repo.dir, "objects", "pack", "pack-*.pack"))
	if err != nil {
		return err
	}
	m := merger{have: make(map[plumbing.Hash]bool)}
	var small []string
	for _, p := range paths {
		if fi, err := os.Stat(p); err == nil && fi.Size() < smallPack {
			small = append(small, strings.TrimSuffix(p, ".pack"))
		}
	}
	if len(small) < manyPacks {
		return nil
	}
	for _, base := range small {
		if err := m.add(base); err != nil {
			return fmt.Errorf("merge packs: %w", err)
		}
	}
	if err := m.store(repo); err != nil {
		return fmt.Errorf("merge packs: %w", err)
	}
	return nil
}

// merger appends packs to each other as they are. That is sound because every
// pack is complete in itself: a difference refers to an object of its own
// pack, by hash or by distance, and both stay as they were.
type merger struct {
	have  map[plumbing.Hash]bool
	parts []part
	spent []string // packs, without suffix, that the merged one replaces
	count uint32
}

// part is a pack that becomes a piece of the merged one.
type part struct {
	base    string
	entries []*idxfile.Entry
}

// add takes a pack in. One whose objects are all there already is spent; one
// that only shares some stays as it is, as a pack holds an object once.
func (m *merger) add(base string) error {
	index, err := pack.ReadIndex(base)
	if err != nil {
		return err
	}
	it, err := index.Entries()
	if err != nil {
		return err
	}
	defer it.Close()
	p := part{base: base}
	double := 0
	for {
		e, err := it.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		if m.have[e.Hash] {
			double++
		}
		p.entries = append(p.entries, e)
	}
	switch double {
	case len(p.entries):
		m.spent = append(m.spent, base)
	case 0:
		for _, e := range p.entries {
			m.have[e.Hash] = true
		}
		m.parts, m.spent, m.count = append(m.parts, p), append(m.spent, base), m.count+uint32(len(p.entries))
	}
	return nil
}

// store writes the merged pack and removes those it replaces. The merged one
// is on disk before the first of them goes.
func (m *merger) store(repo *repository) error {
	if len(m.spent) < 2 {
		return nil
	}
	dir, err := os.MkdirTemp(repo.incoming, "merge-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	file := filepath.Join(dir, "pack")
	index, sum, err := m.write(file)
	if err != nil {
		return err
	}
	if err := pack.WriteIndex(file+".idx", index); err != nil {
		return err
	}
	base := filepath.Join(repo.dir, "objects", "pack", "pack-"+sum.String())
	if err := pack.Place(file, file+".idx", base); err != nil {
		return err
	}
	for _, old := range m.spent {
		// In the reverse of the order in which they came.
		if err := errors.Join(os.Remove(old+".pack"), os.Remove(old+".idx")); err != nil {
			return err
		}
	}
	return nil
}

// write writes the pack and makes its index.
func (m *merger) write(path string) (*idxfile.MemoryIndex, plumbing.Hash, error) {
	f, err := os.Create(path)
	if err != nil {
		return nil, plumbing.ZeroHash, err
	}
	defer f.Close()
	b := bufio.NewWriterSize(f, 1<<20)
	sum := sha1.New()
	w := io.MultiWriter(b, sum)
	head := binary.BigEndian.AppendUint32([]byte("PACK\x00\x00\x00\x02"), m.count)
	if _, err := w.Write(head); err != nil {
		return nil, plumbing.ZeroHash, err
	}
	index := new(idxfile.Writer)
	if err := index.OnHeader(m.count); err != nil {
		return nil, plumbing.ZeroHash, err
	}
	at := uint64(packHeader)
	for _, p := range m.parts {
		for _, e := range p.entries {
			index.Add(e.Hash, e.Offset-packHeader+at, e.CRC32)
		}
		n, err := copyObjects(w, p.base+".pack")
		if err != nil {
			return nil, plumbing.ZeroHash, err
		}
		at += uint64(n)
	}
	hash := plumbing.Hash(sum.Sum(nil))
	if _, err := b.Write(hash[:]); err != nil {
		return nil, plumbing.ZeroHash, err
	}
	if err := errors.Join(b.Flush(), f.Sync(), index.OnFooter(hash)); err != nil {
		return nil, plumbing.ZeroHash, err
	}
	mem, err := index.Index()
	return mem, hash, err
}

// copyObjects copies what is between header and trailer of a pack.
func copyObjects(w io.Writer, path string) (int64, error) {
	f, err := os.Open(path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	fi, err := f.Stat()
	if err != nil {
		return 0, err
	}
	return io.Copy(w, io.NewSectionReader(f, packHeader, fi.Size()-packHeader-packTrailer))
}
