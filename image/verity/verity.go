// Package verity makes the hash tree by which the kernel verifies a root file
// system block by block as it is read, and verifies a whole image against its
// root hash, as after an update.
//
// It owns nothing and watches nothing. A tree is a function of the image and of
// the version it belongs to, so that two builds of one commit have one root
// hash. What it makes is what `veritysetup format` makes; the layout is that of
// the kernel's Documentation/admin-guide/device-mapper/verity.rst, format 1.
package verity

import (
	"bufio"
	"crypto/sha256"
	"fmt"
	"io"

	"github.com/writ-os/writ/image/verity/superblock"
)

const (
	// BlockSize is the unit that is hashed, in bytes.
	BlockSize = superblock.BlockSize

	perBlock = BlockSize / sha256.Size // hashes in a block of the tree
)

// Hash is a SHA-256 hash.
type Hash = [sha256.Size]byte

// Params are what goes into a tree besides the data.
type Params struct {
	Salt []byte
	UUID [16]byte
}

// ParamsOf derives salt and UUID from an image's version: nothing random, so
// that the build is reproducible.
func ParamsOf(version string) Params {
	salt := sha256.Sum256([]byte("salt-" + version))
	id := [16]byte(salt[:16])
	id[6] = id[6]&0x0f | 0x40 // version 4,
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return Params{Salt: salt[:], UUID: id}
}

// Tree is what goes into the hash partition, and the hash that stands for all
// of it and the data.
type Tree struct {
	RootHash Hash
	Bytes    []byte
}

// TreeSize is the length in bytes of the tree of size bytes of data, with its
// superblock: what a hash partition must have room for.
func TreeSize(size int64) int64 {
	blocks := uint64(size / BlockSize)
	n := int64(1)
	for _, level := range levels(blocks) {
		n += int64(level)
	}
	return n * BlockSize
}

// levels are the blocks of each level of the tree, from the hashes of the data
// up to the one block whose hash is the root hash. One block of data has none.
func levels(blocks uint64) []uint64 {
	var all []uint64
	for blocks > 1 {
		blocks = (blocks + perBlock - 1) / perBlock
		all = append(all, blocks)
	}
	return all
}

// Build reads size bytes of a root file system and makes its tree.
func Build(root io.Reader, size int64, p Params) (Tree, error) {
	if size <= 0 || size%BlockSize != 0 {
		return Tree{}, fmt.Errorf("build hash tree: the image has %d bytes, which is no multiple of %d; pad it with zeros", size, BlockSize)
	}
	head, err := superblock.Superblock{UUID: p.UUID, DataBlocks: uint64(size / BlockSize), Salt: p.Salt}.Encode()
	if err != nil {
		return Tree{}, err
	}
	h := hasher{salt: p.Salt}
	level, err := h.level(bufio.NewReaderSize(root, 256*BlockSize), uint64(size/BlockSize))
	if err != nil {
		return Tree{}, fmt.Errorf("build hash tree: %w", err)
	}
	// The top of the tree comes first on the disk.
	t := Tree{Bytes: make([]byte, TreeSize(size))}
	copy(t.Bytes, head)
	end := len(t.Bytes)
	for len(level) > sha256.Size {
		level = append(level, make([]byte, -len(level)&(BlockSize-1))...)
		end -= len(level)
		copy(t.Bytes[end:], level)
		level = h.blocks(level)
	}
	t.RootHash = Hash(level)
	return t, nil
}

// hasher hashes blocks with the salt before them.
type hasher struct {
	salt []byte
	buf  []byte
}

func (h *hasher) sum(block []byte) Hash {
	h.buf = append(append(h.buf[:0], h.salt...), block...)
	return sha256.Sum256(h.buf)
}

// level is the hashes of n blocks that are read.
func (h *hasher) level(r io.Reader, n uint64) ([]byte, error) {
	sums, block := make([]byte, 0, n*sha256.Size), make([]byte, BlockSize)
	for i := range n {
		if _, err := io.ReadFull(r, block); err != nil {
			return nil, fmt.Errorf("read block %d of %d: %w", i, n, err)
		}
		sum := h.sum(block)
		sums = append(sums, sum[:]...)
	}
	return sums, nil
}

// blocks is the hashes of the blocks in b.
func (h *hasher) blocks(b []byte) []byte {
	var sums []byte
	for i := 0; i < len(b); i += BlockSize {
		sum := h.sum(b[i : i+BlockSize])
		sums = append(sums, sum[:]...)
	}
	return sums
}
