package gitdb

import (
	"bufio"
	"compress/zlib"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/format/idxfile"
	"github.com/go-git/go-git/v5/plumbing/format/packfile"
)

// WritePack writes objects as a pack, without deltas: they would cost the
// server more time than a cluster's repository ever costs the wire.
func (db *DB) WritePack(w io.Writer, hashes []Hash) error {
	sum := newSHA1()
	out := bufio.NewWriterSize(io.MultiWriter(w, sum), 64<<10)
	var head [12]byte
	copy(head[:], "PACK")
	binary.BigEndian.PutUint32(head[4:], 2)
	binary.BigEndian.PutUint32(head[8:], uint32(len(hashes)))
	if _, err := out.Write(head[:]); err != nil {
		return err
	}
	z, err := zlib.NewWriterLevel(out, zlib.BestSpeed)
	if err != nil {
		return err
	}
	for _, h := range hashes {
		t, data, err := db.Get(h)
		if err != nil {
			return err
		}
		if _, err := out.Write(packHeader(t, len(data))); err != nil {
			return err
		}
		z.Reset(out)
		if _, err := z.Write(data); err != nil {
			return err
		}
		if err := z.Close(); err != nil {
			return err
		}
	}
	if err := out.Flush(); err != nil {
		return err
	}
	_, err = w.Write(sum.Sum(nil))
	return err
}

// packHeader is the type and size of an object in a pack: four bits of the
// size beside the type, then seven in each byte.
func packHeader(t plumbing.ObjectType, size int) []byte {
	b := byte(t)<<4 | byte(size&15)
	size >>= 4
	var out []byte
	for size > 0 {
		out = append(out, b|0x80)
		b = byte(size & 0x7f)
		size >>= 7
	}
	return append(out, b)
}

// Pack is a pack and its index, on the disk.
type Pack struct {
	Path    string // of the .pack; the index is beside it
	Objects int
}

// ReceivePack takes a pack from the network into the pack directory of db,
// checks it and writes its index. A thin pack, which leaves out objects, is
// refused. Nothing is left of a pack that is refused.
func (db *DB) ReceivePack(r io.Reader) (p Pack, err error) {
	dir := filepath.Join(db.Dir, "objects", "pack")
	tmp, err := os.CreateTemp(dir, "tmp_pack_")
	if err != nil {
		return Pack{}, err
	}
	defer func() {
		tmp.Close()
		if err != nil {
			os.Remove(tmp.Name())
		}
	}()
	if _, err := io.Copy(tmp, r); err != nil {
		return Pack{}, fmt.Errorf("receive pack: %w", err)
	}
	if _, err := tmp.Seek(0, io.SeekStart); err != nil {
		return Pack{}, err
	}
	idx := &idxfile.Writer{}
	parser, err := packfile.NewParser(packfile.NewScanner(tmp), idx)
	if err != nil {
		return Pack{}, fmt.Errorf("read pack: %w", err)
	}
	sum, err := parser.Parse()
	if err != nil {
		return Pack{}, fmt.Errorf("read pack: %w", err)
	}
	if err := tmp.Sync(); err != nil {
		return Pack{}, err
	}
	index, err := idx.Index()
	if err != nil {
		return Pack{}, fmt.Errorf("index pack: %w", err)
	}
	n, err := index.Count()
	if err != nil {
		return Pack{}, fmt.Errorf("index pack: %w", err)
	}
	p = Pack{Path: filepath.Join(dir, "pack-"+sum.String()+".pack"), Objects: int(n)}
	if err := writeIndex(p.index(), index); err != nil {
		return Pack{}, fmt.Errorf("index pack: %w", err)
	}
	return p, os.Rename(tmp.Name(), p.Path)
}

func (p Pack) index() string { return p.Path[:len(p.Path)-len("pack")] + "idx" }

func writeIndex(path string, index *idxfile.MemoryIndex) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	w := bufio.NewWriter(f)
	_, err = idxfile.NewEncoder(w).Encode(index)
	return errors.Join(err, w.Flush(), f.Sync(), f.Close())
}

// fewObjects is the size up to which a pack is taken apart: what a push of
// every day brings does not leave a pack behind for every reader to open.
const fewObjects = 200

// Adopt moves a pack of another repository, or its objects, into db.
func (db *DB) Adopt(from *DB, p Pack) error {
	if p.Objects <= fewObjects {
		return db.unpack(p)
	}
	dir := filepath.Join(db.Dir, "objects", "pack")
	// The index comes last: a pack without one does not exist to readers.
	for _, path := range []string{p.Path, p.index()} {
		if err := os.Rename(path, filepath.Join(dir, filepath.Base(path))); err != nil {
			return err
		}
		if err := SyncDir(dir); err != nil {
			return err
		}
	}
	return nil
}

// unpack writes every object of a pack as a file of its own.
func (db *DB) unpack(p Pack) error {
	src, err := Open(filepath.Dir(filepath.Dir(filepath.Dir(p.Path))))
	if err != nil {
		return err
	}
	defer src.Close()
	hashes, err := src.packed(p)
	if err != nil {
		return err
	}
	for _, h := range hashes {
		t, data, err := src.Get(h)
		if err != nil {
			return err
		}
		if _, err := db.Put(t, data); err != nil {
			return err
		}
	}
	return nil
}

// packed lists the objects of a pack.
func (db *DB) packed(p Pack) ([]Hash, error) {
	f, err := os.Open(p.index())
	if err != nil {
		return nil, err
	}
	defer f.Close()
	index := idxfile.NewMemoryIndex()
	if err := idxfile.NewDecoder(bufio.NewReader(f)).Decode(index); err != nil {
		return nil, fmt.Errorf("read pack index: %w", err)
	}
	entries, err := index.Entries()
	if err != nil {
		return nil, err
	}
	defer entries.Close()
	var out []Hash
	for {
		e, err := entries.Next()
		if errors.Is(err, io.EOF) {
			return out, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, e.Hash)
	}
}
