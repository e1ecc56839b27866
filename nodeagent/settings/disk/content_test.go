package disk

import (
	"bytes"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
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
		{"a damaged mark", markAt(size), string(mark(one)[:60]), Content{Kind: "data of an unknown kind"}},
	} {
		got, err := ReadContent(sparse(t, size, c.at, c.with), size)
		if err != nil || got != c.want {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
		}
	}
	f := sparse(t, size, markAt(size), string(mark(one)))
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
		want := Content{Kind: Ext4, Label: "writ-data", UUID: one, Mark: one}
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
