package disk

import (
	"bytes"
	"encoding/binary"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/google/uuid"
)

// sparse is a disk of a size with some bytes on it.
func sparse(t *testing.T, size int64, at int64, with string) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := f.Truncate(size); err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte(with), at); err != nil {
		t.Fatal(err)
	}
	return f
}

// ext4 is a superblock of so many blocks, of 1 KiB by a power of two.
func ext4(blocks, high, shift uint32) string {
	b := make([]byte, 1024)
	binary.LittleEndian.PutUint32(b[0x04:], blocks)
	binary.LittleEndian.PutUint32(b[0x18:], shift)
	binary.LittleEndian.PutUint16(b[0x38:], 0xef53)
	binary.LittleEndian.PutUint32(b[0x60:], 0x40|0x80)
	id := uuid.MustParse(one)
	copy(b[0x68:], id[:])
	copy(b[0x78:], "writ-data")
	binary.LittleEndian.PutUint32(b[0x150:], high)
	return string(b)
}

func TestContent(t *testing.T) {
	const size = 64<<20 + 512 // not of whole blocks
	for _, c := range []struct {
		name string
		at   int64
		with string
		want Content
	}{
		{"zero", 0, "", Content{Kind: Blank}},
		{"one byte", 77777, "x", Content{Kind: "data of an unknown kind"}},
		{"one byte near the end", size - 1, "x", Content{Kind: "data of an unknown kind"}},
		{"the middle is not looked at", 30 << 20, "x", Content{Kind: Blank}},
		{"LUKS", 0, "LUKS\xba\xbe\x00\x02", Content{Kind: "a LUKS volume"}},
		{"GPT that has lost its first copy", size - 512, "EFI PART", Content{Kind: "a GPT partition table"}},
		{"ZFS", 128 << 10, "\x0c\xb1\xba\x00\x00\x00\x00\x00", Content{Kind: "ZFS"}},
		{"a mark", markAt(size), string(mark(one)), Content{Kind: Unfinished, Mark: one}},
		{"a mark and more", markAt(size), string(mark(one)) + "x", Content{Kind: Unfinished, Mark: one}},
		{"a file system", 1024, ext4(16128, 0, 2), Content{Kind: Ext4, Label: "writ-data", UUID: one, Bytes: 63 << 20}},
		{"one of small blocks", 1024, ext4(4096, 0, 0), Content{Kind: Ext4, Label: "writ-data", UUID: one, Bytes: 4 << 20}},
		{"one of more than 16 TiB", 1024, ext4(1, 1, 2), Content{Kind: Ext4, Label: "writ-data", UUID: one, Bytes: 16<<40 + 4096}},
		{"one that cannot be", 1024, ext4(0, 1<<31, 2), Content{Kind: Ext4, Label: "writ-data", UUID: one, Bytes: math.MaxInt64}},
		{"one of blocks that cannot be", 1024, ext4(1, 0, 60), Content{Kind: Ext4, Label: "writ-data", UUID: one, Bytes: math.MaxInt64}},
		{"a damaged mark", markAt(size), string(mark(one)[:60]), Content{Kind: "data of an unknown kind"}},
	} {
		got, err := ReadContent(sparse(t, size, c.at, c.with), size)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	for id, want := range map[string]string{one: one, two: ""} {
		f := sparse(t, size, 1024, ext4(4096, 0, 2))
		if _, err := f.WriteAt(mark(id), 16<<20); err != nil {
			t.Fatal(err)
		}
		if got, err := ReadContent(f, size); err != nil || got.Kind != Ext4 || got.Mark != want {
			t.Errorf("a mark behind a file system on a disk that has grown: %+v, %v, want %q", got, err, want)
		}
	}
	used := []byte(ext4(4096, 0, 2))
	used[0x60] |= 0x4
	f := sparse(t, size, 1024, string(used))
	if _, err := f.WriteAt(mark(one), 16<<20); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadContent(f, size); err != nil || got.Kind != Ext4 || got.Mark != "" {
		t.Errorf("a file like a mark, where a file system has just grown: %+v, %v", got, err)
	}
	f = sparse(t, size, markAt(size), string(mark(one)))
	if _, err := f.WriteAt([]byte("XFSB"), 0); err != nil {
		t.Fatal(err)
	}
	if got, err := ReadContent(f, size); err != nil || got != (Content{Kind: "XFS"}) {
		t.Errorf("a mark below what came later: %+v, %v", got, err)
	}
	if got, err := ReadContent(sparse(t, 1<<20, 0, ""), 1<<20); err != nil || got.Kind == Blank {
		t.Errorf("a small one: %+v, %v", got, err)
	}
}

// What mke2fs has written when the power goes, in whatever order the disk took
// it, is a format to be begun again, and nothing else.
func TestPowerCut(t *testing.T) {
	if _, err := exec.LookPath("mke2fs"); err != nil {
		t.Skip("mke2fs is not installed")
	}
	const block = 4096
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	for _, size := range []int64{MinBytes, 64 << 20, 129<<20 + 512} {
		f := sparse(t, size, markAt(size), string(mark(one)))
		if err := run(t.Context(), 0, "mke2fs", "-q", "-F", "-t", "ext4", "-b", "4096", "-L", "writ-data", "-U", one, f.Name(), strconv.FormatInt(markAt(size)/block, 10)); err != nil {
			t.Fatal(err)
		}
		want := Content{Kind: Ext4, Label: "writ-data", UUID: one, Bytes: markAt(size), Mark: one}
		if got, err := ReadContent(f, size); err != nil || got != want {
			t.Fatalf("size %d: %+v, %v, want %+v", size, got, err, want)
		}
		written := map[int64][]byte{}
		for at := int64(0); at < size-tail; at += block {
			b := make([]byte, block)
			if n, _ := f.ReadAt(b, at); !zero(b[:n]) {
				written[at] = bytes.Clone(b[:n])
			}
		}
		unfinished := 0
		for range 25 {
			cut := sparse(t, size, markAt(size), string(mark(one)))
			share := rng.Float64()
			for at, b := range written {
				if rng.Float64() < share {
					if _, err := cut.WriteAt(b, at); err != nil {
						t.Fatal(err)
					}
				}
			}
			switch got, err := ReadContent(cut, size); {
			case err != nil:
				t.Fatal(err)
			case got == Content{Kind: Unfinished, Mark: one}:
				unfinished++
			case got != want:
				t.Fatalf("size %d: %+v", size, got)
			}
			// The disk may have grown meanwhile: no file system is taken for a whole one.
			if err := cut.Truncate(size + 64<<20); err != nil {
				t.Fatal(err)
			}
			if got, err := ReadContent(cut, size+64<<20); err != nil || got.Kind == Ext4 && got != want {
				t.Fatalf("size %d, grown: %+v, %v", size, got, err)
			}
			_ = cut.Close()
			_ = os.Remove(cut.Name())
		}
		if unfinished == 0 {
			t.Errorf("size %d: no cut was before the superblock", size)
		}
	}
}

func FuzzContent(f *testing.F) {
	f.Add([]byte("LUKS\xba\xbe"), 0, []byte{}, 0)
	f.Add(mark(one), 1<<20, []byte("EFI PART"), 512)
	f.Add([]byte(ext4(1024, 0, 2)), 1024, mark(one), 0)
	f.Fuzz(func(t *testing.T, first []byte, at int, last []byte, from int) {
		b := make([]byte, MinBytes)
		if at >= 0 && at < edge {
			copy(b[at:edge], first)
		}
		if from >= 0 && from < edge {
			copy(b[MinBytes-edge+from:], last)
		}
		c, err := ReadContent(bytes.NewReader(b), MinBytes)
		if err != nil || c.Kind == "" {
			t.Fatalf("%+v, %v", c, err)
		}
		if c.Kind == Blank && len(bytes.Trim(b, "\x00")) > 0 {
			t.Fatal("blank, with something on it")
		}
	})
}
