// Package superblock reads and writes the first sector of a dm-verity hash
// partition, which says how the tree behind it was made.
//
// It is the part of verity that the initrd needs, and is kept apart so that the
// initrd carries no hashing: there the kernel hashes. It owns nothing and watches
// nothing. The format is that of cryptsetup (lib/verity/verity.c, version 1).
//
// Nothing vouches for a superblock itself. It needs none: salt and number of
// blocks go into what the kernel hashes, and with others the root hash, which is
// signed, does not come out.
package superblock

import (
	"bytes"
	"encoding/binary"
	"fmt"
)

const (
	// Size is the length of a superblock in bytes.
	Size = 512
	// BlockSize is the size of data and hash blocks in bytes: that of a page,
	// which the kernel verifies as a whole.
	BlockSize = 4096
	// Algorithm is the only hash that is made and read here.
	Algorithm = "sha256"
	// MaxDataBlocks keeps what is read from a disk bounded: 64 GiB of data.
	MaxDataBlocks = 1 << 24

	signature = "verity\x00\x00"
	maxSalt   = 256
)

// Superblock describes a hash tree of format 1 over SHA-256.
type Superblock struct {
	UUID       [16]byte
	DataBlocks uint64
	Salt       []byte // up to 256 bytes, hashed before each block
}

// Encode is the superblock as it lies on the disk, Size bytes.
func (s Superblock) Encode() ([]byte, error) {
	if len(s.Salt) > maxSalt {
		return nil, fmt.Errorf("encode verity superblock: a salt of %d bytes, it may have %d", len(s.Salt), maxSalt)
	}
	if s.DataBlocks == 0 || s.DataBlocks > MaxDataBlocks {
		return nil, fmt.Errorf("encode verity superblock: %d data blocks, between 1 and %d are possible", s.DataBlocks, MaxDataBlocks)
	}
	b, le := make([]byte, Size), binary.LittleEndian
	copy(b, signature)
	le.PutUint32(b[8:], 1)  // version of the superblock
	le.PutUint32(b[12:], 1) // hash type: the salt comes first
	copy(b[16:], s.UUID[:])
	copy(b[32:], Algorithm)
	le.PutUint32(b[64:], BlockSize)
	le.PutUint32(b[68:], BlockSize)
	le.PutUint64(b[72:], s.DataBlocks)
	le.PutUint16(b[80:], uint16(len(s.Salt)))
	copy(b[88:], s.Salt)
	return b, nil
}

// Parse reads a superblock; a tree of another make is refused.
func Parse(b []byte) (Superblock, error) {
	if len(b) < Size || string(b[:8]) != signature {
		return Superblock{}, fmt.Errorf("read verity superblock: there is none")
	}
	le := binary.LittleEndian
	algorithm, _, _ := bytes.Cut(b[32:64], []byte{0})
	version, kind, data, hash := le.Uint32(b[8:]), le.Uint32(b[12:]), le.Uint32(b[64:]), le.Uint32(b[68:])
	if version != 1 || kind != 1 || data != BlockSize || hash != BlockSize || string(algorithm) != Algorithm {
		return Superblock{}, fmt.Errorf("read verity superblock: version %d, format %d, %q, blocks of %d and %d bytes; only version 1, format 1, %q, %d are known",
			version, kind, algorithm, data, hash, Algorithm, BlockSize)
	}
	s, salt := Superblock{UUID: [16]byte(b[16:32]), DataBlocks: le.Uint64(b[72:])}, le.Uint16(b[80:])
	if salt > maxSalt || s.DataBlocks == 0 || s.DataBlocks > MaxDataBlocks {
		return Superblock{}, fmt.Errorf("read verity superblock: a salt of %d bytes, %d data blocks", salt, s.DataBlocks)
	}
	s.Salt = bytes.Clone(b[88 : 88+salt])
	return s, nil
}
