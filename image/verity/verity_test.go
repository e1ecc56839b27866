package verity

import (
	"bytes"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"testing"
)

// The vectors were made by veritysetup 2.6.1 over data() of as many blocks:
//
//	veritysetup format --salt=<Salt of ParamsOf("1")> --uuid=<UUID of it> data <blocks>.tree
//
//go:embed testdata
var testdata embed.FS

// data is n blocks, all different, one of them zero.
func data(n int) []byte {
	b := make([]byte, n*BlockSize)
	for i := range n {
		copy(b[i*BlockSize:], strings.Repeat(fmt.Sprintf("block %d\n", i), 1+i%300))
	}
	clear(b[:BlockSize])
	return b
}

// One block has no level, 128 fill one block of hashes, 129 need two levels.
var golden = []int{1, 2, 128, 129, 300}

func TestVeritysetup(t *testing.T) {
	for _, n := range golden {
		want, err := testdata.ReadFile(fmt.Sprintf("testdata/%d.tree", n))
		if err != nil {
			t.Fatal(err)
		}
		hash, err := testdata.ReadFile(fmt.Sprintf("testdata/%d.roothash", n))
		if err != nil {
			t.Fatal(err)
		}
		tree, err := Build(bytes.NewReader(data(n)), int64(n)*BlockSize, ParamsOf("1"))
		if err != nil {
			t.Fatal(err)
		}
		if got := hex.EncodeToString(tree.RootHash[:]); got != strings.TrimSpace(string(hash)) {
			t.Errorf("%d blocks: root hash %s, want %s", n, got, hash)
		}
		if !bytes.Equal(tree.Bytes, want) || TreeSize(int64(n)*BlockSize) != int64(len(tree.Bytes)) {
			t.Errorf("%d blocks: another tree, %d bytes, want %d", n, len(tree.Bytes), len(want))
		}
		if err := Verify(bytes.NewReader(data(n)), bytes.NewReader(tree.Bytes), tree.RootHash); err != nil {
			t.Errorf("%d blocks: %v", n, err)
		}
	}
}

// Top finds what is wrong with the first two blocks of a tree, and looks at no
// other.
func TestTop(t *testing.T) {
	for _, n := range golden {
		tree, err := Build(bytes.NewReader(data(n)), int64(n)*BlockSize, ParamsOf("1"))
		if err != nil {
			t.Fatal(err)
		}
		for at := range tree.Bytes[:min(len(tree.Bytes), 3*BlockSize)] {
			if at%509 != 0 {
				continue
			}
			b := bytes.Clone(tree.Bytes)
			b[at] ^= 1
			err := Top(bytes.NewReader(b), tree.RootHash)
			if bad := at == 0 || at >= BlockSize && at < 2*BlockSize; bad != (err != nil) {
				t.Errorf("%d blocks, byte %d: %v", n, at, err)
			}
		}
		if err := Top(bytes.NewReader(tree.Bytes[:100]), tree.RootHash); err == nil {
			t.Error("a tree that is cut off")
		}
	}
}

func TestVerifyNamesTheBlock(t *testing.T) {
	root := data(300)
	tree, err := Build(bytes.NewReader(root), int64(len(root)), ParamsOf("1"))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what       string
		root, tree int
		want       BadBlock
	}{
		{"first byte", 0, -1, BadBlock{Block: 0}},
		{"last byte", len(root) - 1, -1, BadBlock{Block: 299}},
		{"top of the tree", -1, BlockSize + 40, BadBlock{Tree: true, Block: 1}},
		{"second leaf", -1, 3*BlockSize + 1, BadBlock{Tree: true, Block: 3}},
		{"end of the last leaf", -1, 5*BlockSize - 1, BadBlock{Tree: true, Block: 4}},
		{"salt", -1, 88, BadBlock{Tree: true, Block: 1}},
	} {
		r, h := bytes.Clone(root), bytes.Clone(tree.Bytes)
		if c.root >= 0 {
			r[c.root] ^= 1
		}
		if c.tree >= 0 {
			h[c.tree] ^= 1
		}
		var bad *BadBlock
		if err := Verify(bytes.NewReader(r), bytes.NewReader(h), tree.RootHash); !errors.As(err, &bad) || *bad != c.want {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	// Partitions are larger than what lies in them.
	long := append(bytes.Clone(root), make([]byte, BlockSize)...)
	if err := Verify(bytes.NewReader(long), bytes.NewReader(append(tree.Bytes, 1, 2, 3)), tree.RootHash); err != nil {
		t.Error(err)
	}
	for name, short := range map[string][2][]byte{
		"data": {root[:len(root)-1], tree.Bytes}, "tree": {root, tree.Bytes[:len(tree.Bytes)-1]}, "superblock": {root, tree.Bytes[:500]}, "nothing": {nil, make([]byte, 512)},
	} {
		if err := Verify(bytes.NewReader(short[0]), bytes.NewReader(short[1]), tree.RootHash); err == nil {
			t.Errorf("%s was cut off, and is verified", name)
		}
	}
}

func TestBuildRefuses(t *testing.T) {
	for _, size := range []int64{0, -4096, 1, BlockSize + 1, 4 * BlockSize} {
		if _, err := Build(bytes.NewReader(data(3)), size, Params{}); err == nil {
			t.Errorf("%d bytes were accepted", size)
		}
	}
	if _, err := Build(bytes.NewReader(data(1)), BlockSize, Params{Salt: make([]byte, 257)}); err == nil {
		t.Error("a salt of 257 bytes was accepted")
	}
}

func TestParamsOf(t *testing.T) {
	a, b := ParamsOf("1"), ParamsOf("2")
	if bytes.Equal(a.Salt, b.Salt) || a.UUID == b.UUID || len(a.Salt) != 32 {
		t.Error(a, b)
	}
	if a.UUID[6]>>4 != 4 || a.UUID[8]>>6 != 2 {
		t.Errorf("%x is no UUID of version 4", a.UUID)
	}
}

func BenchmarkBuild(b *testing.B) {
	root := data(4096)
	b.SetBytes(int64(len(root)))
	for b.Loop() {
		if _, err := Build(bytes.NewReader(root), int64(len(root)), ParamsOf("1")); err != nil {
			b.Fatal(err)
		}
	}
}
