package disk

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/writ-os/writ/image/esp"
	"github.com/writ-os/writ/image/gpt"
	"github.com/writ-os/writ/image/verity"
)

// sample is an image of a root of n blocks.
func sample(t *testing.T, n int64) (Parts, []byte) {
	t.Helper()
	root := make([]byte, n*verity.BlockSize)
	_, _ = rand.NewChaCha8([32]byte{1}).Read(root[:len(root)/2])
	tree, err := verity.Build(bytes.NewReader(root), int64(len(root)), verity.ParamsOf("1"))
	if err != nil {
		t.Fatal(err)
	}
	return Parts{
		Version: "1", Seed: "writ 1", Root: bytes.NewReader(root), RootSize: int64(len(root)), Tree: tree,
		ESP: []esp.File{{Path: "EFI/Linux/writ_1.efi", Data: root[:100000]}, {Path: "loader/loader.conf", Data: []byte("timeout 0\n")}},
	}, root
}

func assembled(t *testing.T, p Parts) *os.File {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "disk.raw"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	if err := Assemble(f, p); err != nil {
		t.Fatal(err)
	}
	return f
}

// sum is a hash of what is in a sparse file, and where.
func sum(t *testing.T, f *os.File) string {
	t.Helper()
	const seekData, seekHole = 3, 4
	h, at := sha256.New(), int64(0)
	for {
		from, err := f.Seek(at, seekData)
		if err != nil {
			return hex.EncodeToString(h.Sum(nil))
		}
		if at, err = f.Seek(from, seekHole); err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(h, from, at)
		if _, err := io.Copy(h, io.NewSectionReader(f, from, at-from)); err != nil {
			t.Fatal(err)
		}
	}
}

func TestAssemble(t *testing.T) {
	p, root := sample(t, 500)
	f := assembled(t, p)
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	if used := info.Sys().(*syscall.Stat_t).Blocks * 512; info.Size() != 1298<<20 || used > 8<<20 {
		t.Errorf("%d bytes, %d used", info.Size(), used)
	}
	table, err := gpt.Parse(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	rootGUID, treeGUID, _ := gpt.VerityGUIDs(p.Tree.RootHash[:])
	for number, want := range map[int]gpt.GUID{RootA: rootGUID, VerityA: treeGUID} {
		if n, ok := table.ByGUID(want); n != number || !ok {
			t.Errorf("partition %d is not the one of the root hash: %d, %v", number, n, ok)
		}
	}
	names := ""
	for i, part := range table.Partitions {
		names += part.Name + " "
		if part.Size() != Sizes[i+1] || part.Offset()%align != 0 {
			t.Errorf("partition %d: %d bytes at %d", i+1, part.Size(), part.Offset())
		}
	}
	if names != "ESP root_1 verity_1 _empty _empty " {
		t.Error(names)
	}
	a, v := table.Partitions[RootA-1], table.Partitions[VerityA-1]
	if err := verity.Verify(io.NewSectionReader(f, a.Offset(), a.Size()), io.NewSectionReader(f, v.Offset(), v.Size()), p.Tree.RootHash); err != nil {
		t.Error(err)
	}
	offset, size, err := esp.Locate(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	if got, err := esp.Get(f, offset, size, "EFI/Linux/writ_1.efi"); err != nil || !bytes.Equal(got, root[:100000]) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	p.Root = bytes.NewReader(root)
	if first, second := sum(t, f), sum(t, assembled(t, p)); first != second {
		t.Error("assembled twice, it is not the same")
	}
	if err := Assemble(f, p); err == nil {
		t.Error("a file that is not empty was overwritten")
	}
}

func TestAssembleRefuses(t *testing.T) {
	for want, change := range map[string]func(*Parts){
		"a slot has 512":           func(p *Parts) { p.RootSize = 512<<20 + 4096 },
		"hash tree has":            func(p *Parts) { p.Tree.Bytes = p.Tree.Bytes[:4096] },
		"a version":                func(p *Parts) { p.Version = "" },
		"ends after 100 of 409600": func(p *Parts) { p.Root = strings.NewReader(strings.Repeat("x", 100)) },
		"UTF-16 units":             func(p *Parts) { p.Version = strings.Repeat("1", 40) },
		"cannot be a name":         func(p *Parts) { p.ESP[0].Path = "a:b" },
	} {
		p, _ := sample(t, 100)
		change(&p)
		f, err := os.Create(filepath.Join(t.TempDir(), "disk.raw"))
		if err != nil {
			t.Fatal(err)
		}
		if err := Assemble(f, p); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "%!w") {
			t.Errorf("want %q, got %v", want, err)
		}
		_ = f.Close()
	}
}

func TestQCOW2(t *testing.T) {
	tool, err := exec.LookPath("qemu-img")
	if err != nil {
		t.Skip("qemu-img is not installed")
	}
	raw, err := os.Create(filepath.Join(t.TempDir(), "disk.raw"))
	if err != nil {
		t.Fatal(err)
	}
	defer raw.Close()
	// Data before, in and behind the part that one table maps; some packs well,
	// some by a third, some not at all.
	noise, letters := make([]byte, 200_000), make([]byte, 200_000)
	r := rand.NewChaCha8([32]byte{1})
	_, _ = r.Read(noise)
	for i, b := range noise {
		letters[i] = 'a' + b&15
	}
	for i, at := range []int64{0, 100 << 20, 511<<20 + 900000, 600 << 20} {
		for k, data := range [][]byte{bytes.Repeat([]byte("data"), 50000), letters, noise, letters} {
			if _, err := raw.WriteAt(data, at+int64(k*(250_000+i))); err != nil {
				t.Fatal(err)
			}
		}
	}
	info, _ := raw.Stat()
	for _, size := range []int64{info.Size() &^ 511, 3<<20 + 512, 512} {
		out, err := os.Create(filepath.Join(t.TempDir(), "disk.qcow2"))
		if err != nil {
			t.Fatal(err)
		}
		if err := QCOW2(out, raw, size); err != nil {
			t.Fatal(err)
		}
		if b, err := exec.Command(tool, "check", out.Name()).CombinedOutput(); err != nil || !strings.Contains(string(b), "No errors were found") {
			t.Errorf("%d bytes: %v\n%s", size, err, b)
		}
		part := filepath.Join(t.TempDir(), "part")
		f, err := os.Create(part)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := copySparse(f, io.NewSectionReader(raw, 0, size)); err != nil {
			t.Fatal(err)
		}
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		_ = f.Close()
		if b, err := exec.Command(tool, "compare", "-f", "raw", "-F", "qcow2", part, out.Name()).CombinedOutput(); err != nil {
			t.Errorf("%d bytes: %v\n%s", size, err, b)
		}
		if got, _ := out.Stat(); got.Size() > 8<<20 {
			t.Errorf("%d bytes of qcow2", got.Size())
		}
		_ = out.Close()
	}
	for _, size := range []int64{0, -512, 511, maxImageSize + 512} {
		if err := QCOW2(raw, raw, size); err == nil {
			t.Errorf("%d bytes were written", size)
		}
	}
}

// Images of terabytes need more than one block of reference counts.
func TestLayoutQCOW2(t *testing.T) {
	for _, n := range []int{1, perTable, perTable + 1, 5 * perRefs, 1 << 24} {
		used := make([]bool, n)
		for i := range used {
			used[i] = i%3 != 1
		}
		p := layoutQCOW2(used)
		if p.refBlockLen*perRefs < p.total || p.refTableLen*clusterSize < p.refBlockLen*8 || (p.refBlockLen-2)*perRefs > p.total {
			t.Errorf("%d clusters: %d, with %d blocks of counts", n, p.total, p.refBlockLen)
		}
	}
}
