package verity

import (
	"bufio"
	"crypto/sha256"
	"crypto/subtle"
	"fmt"
	"io"

	"github.com/writ-os/writ/image/verity/superblock"
)

// BadBlock is the first block that is not what the root hash stands for.
type BadBlock struct {
	Tree  bool  // in the tree, not in the data
	Block int64 // counted from the start of the data, or of the hash partition
}

func (b *BadBlock) Error() string {
	if b.Tree {
		return fmt.Sprintf("block %d of the hash tree is not what the root hash stands for", b.Block)
	}
	return fmt.Sprintf("block %d of the root file system is not what the root hash stands for", b.Block)
}

// Verify reads a root file system and its tree as they lie in their partitions
// (what follows them there is not looked at) and says whether the root hash
// stands for them; if not, the error is a *BadBlock or says what cannot be read.
// The tree is verified from its top, so that nothing is believed unverified.
func Verify(root, tree io.ReaderAt, rootHash Hash) error {
	sb, err := readSuperblock(tree)
	if err != nil {
		return err
	}
	h := hasher{salt: sb.Salt}
	want, at := rootHash[:], int64(1)
	counts := levels(sb.DataBlocks)
	for i := len(counts) - 1; i >= 0; i-- {
		n := int64(counts[i])
		level := make([]byte, n*BlockSize)
		if _, err := tree.ReadAt(level, at*BlockSize); err != nil {
			return fmt.Errorf("verify: read hash tree: %w", err)
		}
		if bad := firstBad(h.blocks(level), want); bad >= 0 {
			return &BadBlock{Tree: true, Block: at + bad}
		}
		want, at = level, at+n
	}
	size := int64(sb.DataBlocks) * BlockSize
	data := bufio.NewReaderSize(io.NewSectionReader(root, 0, size), 256*BlockSize)
	block := make([]byte, BlockSize)
	for i := range int64(sb.DataBlocks) {
		if _, err := io.ReadFull(data, block); err != nil {
			return fmt.Errorf("verify: read block %d of %d of the root file system: %w", i, sb.DataBlocks, err)
		}
		sum := h.sum(block)
		if firstBad(sum[:], want[i*sha256.Size:]) >= 0 {
			return &BadBlock{Block: i}
		}
	}
	return nil
}

// Top verifies the one block of a tree that the root hash is the hash of: what a
// machine would not get past. It reads 8 KiB. The error is as that of Verify.
func Top(tree io.ReaderAt, rootHash Hash) error {
	sb, err := readSuperblock(tree)
	if err != nil || len(levels(sb.DataBlocks)) == 0 {
		return err
	}
	top := make([]byte, BlockSize)
	if _, err := tree.ReadAt(top, BlockSize); err != nil {
		return fmt.Errorf("verify: read hash tree: %w", err)
	}
	h := hasher{salt: sb.Salt}
	if firstBad(h.blocks(top), rootHash[:]) >= 0 {
		return &BadBlock{Tree: true, Block: 1}
	}
	return nil
}

func readSuperblock(tree io.ReaderAt) (superblock.Superblock, error) {
	head := make([]byte, superblock.Size)
	if _, err := tree.ReadAt(head, 0); err != nil {
		return superblock.Superblock{}, fmt.Errorf("verify: read superblock: %w", err)
	}
	sb, err := superblock.Parse(head)
	if err != nil {
		return superblock.Superblock{}, fmt.Errorf("verify: %w", err)
	}
	return sb, nil
}

// firstBad is the first of the hashes that is not the wanted one, or -1.
func firstBad(got, want []byte) int64 {
	for i := 0; i < len(got); i += sha256.Size {
		if subtle.ConstantTimeCompare(got[i:i+sha256.Size], want[i:i+sha256.Size]) != 1 {
			return int64(i / sha256.Size)
		}
	}
	return -1
}
