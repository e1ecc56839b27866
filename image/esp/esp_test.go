package esp

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writ-os/writ/image/gpt"
)

// sparse is a disk that keeps only the sectors that were written, as a file does.
type sparse map[int64][sectorSize]byte

func (s sparse) ReadAt(p []byte, off int64) (int, error) {
	for i := 0; i < len(p); {
		at := off + int64(i)
		b := s[at/sectorSize]
		i += copy(p[i:], b[at%sectorSize:])
	}
	return len(p), nil
}

func (s sparse) WriteAt(p []byte, off int64) (int, error) {
	for i := 0; i < len(p); {
		at := off + int64(i)
		b := s[at/sectorSize]
		i += copy(b[at%sectorSize:], p[i:])
		s[at/sectorSize] = b
	}
	return len(p), nil
}

const testSize = 64 << 20

func sample() []File {
	return []File{
		{"loader/loader.conf", []byte("timeout 0\n")},
		{"EFI/BOOT/BOOTX64.EFI", bytes.Repeat([]byte("boot"), 10000)},
		{"EFI/Linux/writ_1+3.efi", bytes.Repeat([]byte("kernel"), 20000)},
		{"writ/node.yaml", []byte("node: {}\n")},
		{"empty", nil},
	}
}

func built(t testing.TB, offset int64) sparse {
	t.Helper()
	s := sparse{}
	if err := Build(s, offset, testSize, 0x1234abcd, sample()); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBuildAndGet(t *testing.T) {
	for _, offset := range []int64{0, 1 << 20} {
		s := built(t, offset)
		if again := built(t, offset); !maps.Equal(s, again) {
			t.Error("built twice, it is not the same")
		}
		for _, f := range sample() {
			for _, path := range []string{f.Path, strings.ToUpper(f.Path), strings.ToLower(f.Path)} {
				if got, err := Get(s, offset, testSize, path); err != nil || !bytes.Equal(got, f.Data) {
					t.Errorf("%s: %d bytes, %v", path, len(got), err)
				}
			}
		}
		for _, path := range []string{"no", "EFI/no", "no/no", "loader/loader.conf/x", "EFI/..", "EFI/./BOOT/BOOTX64.EFI", ""} {
			if _, err := Get(s, offset, testSize, path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%q: %v", path, err)
			}
		}
		if _, err := Get(s, offset, testSize, "EFI"); err == nil {
			t.Error("a folder was read")
		}
		if _, err := Get(s, offset, testSize-1, "empty"); err == nil {
			t.Error("a file system larger than its partition was read")
		}
	}
}

func TestRefuse(t *testing.T) {
	s := built(t, 0)
	before := maps.Clone(s)
	for _, path := range []string{"", "/a", "a//b", "../a", "EFI/./x", "a:b", "ä", "a.", "a ", " a", "EFI", "loader/loader.conf/x", strings.Repeat("x", 256)} {
		if err := Put(s, 0, testSize, path, []byte("x")); err == nil {
			t.Errorf("%q was put", path)
		}
	}
	if !maps.Equal(s, before) {
		t.Error("a refused file changed the file system")
	}
	if err := Put(s, 0, testSize, "big", make([]byte, testSize)); err == nil || !strings.Contains(err.Error(), "full") {
		t.Error(err)
	}
	for _, size := range []int64{0, 1 << 20, 32 << 20, 1 << 40} {
		if err := Build(sparse{}, 0, size, 0, nil); err == nil {
			t.Errorf("%d bytes were made a FAT32", size)
		}
	}
	if err := Build(sparse{}, 0, testSize, 0, []File{{"a", nil}, {"A", nil}}); err == nil {
		t.Error("one name twice")
	}
	if _, err := Get(sparse{}, 0, testSize, "x"); err == nil {
		t.Error("read from nothing")
	}
}

func TestLayout(t *testing.T) {
	for size, want := range map[int64]int64{256 << 20: 4, 64 << 20: 1, 512 << 20: 8, 1 << 30: 8, 4 << 30: 8} {
		per, fat, err := layout(size / sectorSize)
		clusters := (size/sectorSize - reservedSectors - 2*fat) / per
		if err != nil || per != want || clusters < minClusters || (clusters+2)*4 > fat*sectorSize {
			t.Errorf("%d MiB: %d sectors in a cluster, tables of %d, %d clusters, %v", size>>20, per, fat, clusters, err)
		}
	}
}

func TestShortName(t *testing.T) {
	for name, want := range map[string]string{
		"BOOTX64.EFI": "BOOTX64.EFI", "EFI": "EFI", "Linux": "LINUX +", "loader.conf": "LOADER~1.CON +", "writ_1+3.efi": "WRIT_1~1.EFI +",
		"a+b": "A_B~1 +", ".config": "CONFIG~1 +", "a.b.c": "AB~1.C +", "long name.txt": "LONGNA~1.TXT +", "node.yaml": "NODE~1.YAM +",
	} {
		short, whole := shortName(name, nil)
		got := decodeShort(short, 0)
		if !whole {
			got += " +"
		}
		if got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	var taken []entry
	seen := map[[11]byte]bool{}
	for range 200 {
		short, _ := shortName("loader.conf", taken)
		if seen[short] {
			t.Fatalf("%q is given twice", short)
		}
		seen[short] = true
		taken = append(taken, entry{short: short})
	}
}

func checkFiles(t *testing.T, s sparse, size int64, want map[string][]byte) {
	t.Helper()
	for path, data := range want {
		if got, err := Get(s, 0, size, path); err != nil || !bytes.Equal(got, data) {
			t.Fatalf("%s: %d bytes, want %d, %v", path, len(got), len(data), err)
		}
	}
}

// Random files, replaced and grown, in folders that grow: what was put is there,
// and another program finds no fault.
func TestModel(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	s, want := sparse{}, map[string][]byte{}
	if err := Build(s, 0, testSize, 1, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 150 {
		path := fmt.Sprintf("d%d/%s-%d.x", random.IntN(3), strings.Repeat("long", random.IntN(20)), random.IntN(30))
		if random.IntN(4) == 0 {
			path = "deep/er/" + path
		}
		data := bytes.Repeat([]byte{byte(i)}, random.IntN(5)*random.IntN(3000))
		if err := Put(s, 0, testSize, path, data); err != nil {
			t.Fatal(err)
		}
		want[path] = data
	}
	checkFiles(t, s, testSize, want)
	fsck(t, s)
}

// image writes a disk to a file for other programs.
func imageFile(t *testing.T, s sparse) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "esp")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for sector, b := range s {
		if _, err := f.WriteAt(b[:], sector*sectorSize); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Truncate(testSize); err != nil {
		t.Fatal(err)
	}
	return path
}

func fsck(t *testing.T, s sparse) {
	t.Helper()
	tool, err := exec.LookPath("fsck.vfat")
	if err != nil {
		t.Log("fsck.vfat is not installed")
		return
	}
	if out, err := exec.Command(tool, "-n", imageFile(t, s)).CombinedOutput(); err != nil || strings.Count(string(out), "\n") > 2 {
		t.Errorf("fsck.vfat: %v\n%s", err, out)
	}
}

func TestMtools(t *testing.T) {
	for _, tool := range []string{"mcopy", "mdir", "mdel"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	s := built(t, 0)
	fsck(t, s)
	file := imageFile(t, s)
	run := func(stdin string, args ...string) string {
		t.Helper()
		cmd := exec.Command(args[0], append([]string{"-i", file}, args[1:]...)...)
		cmd.Stdin = strings.NewReader(stdin)
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	for _, f := range sample() {
		if got := run("", "mcopy", "::"+f.Path, "-"); got != string(f.Data) {
			t.Errorf("mcopy %s: %d bytes, want %d", f.Path, len(got), len(f.Data))
		}
	}
	if out := run("", "mdir", "-/", "::"); !strings.Contains(out, "1234-ABCD") || !strings.Contains(out, "writ_1+3.efi") || !strings.Contains(out, "1980-01-01") {
		t.Error(out)
	}
	// What others wrote is read, and put beside.
	run("theirs", "mcopy", "-", "::writ/A rather long name.txt")
	run("short", "mcopy", "-", "::writ/lower.txt")
	run("", "mdel", "::writ/node.yaml")
	f, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := Put(f, 0, testSize, "writ/node.yaml", []byte("ours")); err != nil {
		t.Fatal(err)
	}
	if err := Put(f, 0, testSize, "writ/LOWER.TXT", []byte("longer than before")); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{"writ/a rather long name.txt": "theirs", "writ/node.yaml": "ours", "writ/lower.txt": "longer than before"} {
		if got, err := Get(f, 0, testSize, path); err != nil || string(got) != want {
			t.Errorf("%s: %q, %v", path, got, err)
		}
	}
	if out, err := exec.Command("fsck.vfat", "-n", file).CombinedOutput(); err != nil {
		t.Errorf("fsck.vfat: %v\n%s", err, out)
	}
}

// dying stops writing after some writes.
type dying struct {
	sparse
	left int
}

var errPower = errors.New("the power is gone")

func (d *dying) WriteAt(p []byte, off int64) (int, error) {
	if d.left--; d.left < 0 {
		return 0, errPower
	}
	return d.sparse.WriteAt(p, off)
}

// shrink leaves so many clusters, and says how large that is: a small table is
// read fast.
func shrink(t testing.TB, s sparse, clusters int64) int64 {
	t.Helper()
	v, err := open(s, nil, 0, testSize)
	if err != nil {
		t.Fatal(err)
	}
	size := v.dataAt + clusters*v.clusterSize
	b := make([]byte, 4)
	le.PutUint32(b, uint32(size/sectorSize))
	_, _ = s.WriteAt(b, 32)
	return size
}

func TestPutCutOff(t *testing.T) {
	for _, c := range []struct{ path, old string }{{"writ/node.yaml", "node: {}\n"}, {"writ/new file.yaml", ""}, {"new/folder/file", ""}} {
		fresh := bytes.Repeat([]byte("new"), 1000)
		whole := built(t, 0)
		size := shrink(t, whole, 1000)
		done := false
		for n := 0; !done; n++ {
			d := &dying{maps.Clone(whole), n}
			err := Put(d, 0, size, c.path, fresh)
			done = err == nil
			if !done && !errors.Is(err, errPower) {
				t.Fatal(err)
			}
			got, err := Get(d.sparse, 0, size, c.path)
			missing := errors.Is(err, fs.ErrNotExist) && c.old == ""
			if !missing && (err != nil || string(got) != c.old && !bytes.Equal(got, fresh)) {
				t.Fatalf("%s, %d writes: %q, %v", c.path, n, got, err)
			}
			// Trying again ends where this would have, and harms no other file.
			if err := Put(d.sparse, 0, size, c.path, fresh); err != nil {
				t.Fatalf("%s, %d writes: %v", c.path, n, err)
			}
			files := map[string][]byte{}
			for _, f := range sample() {
				files[f.Path] = f.Data
			}
			files[c.path] = fresh
			checkFiles(t, d.sparse, size, files)
		}
	}
}

// What a file held before is nowhere in the image any more.
func TestPutErases(t *testing.T) {
	s := built(t, 0)
	for _, content := range []string{"token: very-secret", "token: ask-vault"} {
		if err := Put(s, 0, testSize, "writ/node.yaml", []byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	for sector, b := range s {
		if bytes.Contains(b[:], []byte("very-secret")) {
			t.Errorf("it is still in sector %d", sector)
		}
	}
}

func TestLocate(t *testing.T) {
	const size = 128 << 20
	s := sparse{}
	esp := gpt.Partition{Type: gpt.TypeESP, GUID: gpt.GUID{1}, First: 2048, Last: 2048 + testSize/512 - 1}
	start, end, err := gpt.Table{DiskGUID: gpt.GUID{2}, Partitions: []gpt.Partition{{}, esp}}.Encode(size)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = s.WriteAt(start, 0)
	_, _ = s.WriteAt(end, size-int64(len(end)))
	if offset, length, err := Locate(s, size); err != nil || offset != 1<<20 || length != testSize {
		t.Error(offset, length, err)
	}
	if _, _, err := Locate(sparse{}, size); err == nil {
		t.Error("located in nothing")
	}
}

func FuzzVolume(f *testing.F) {
	s := sparse{}
	if err := Build(s, 0, testSize, 1, []File{{"a/long name", []byte("long")}, {"B", []byte("short")}}); err != nil {
		f.Fatal(err)
	}
	size := shrink(f, s, 100)
	boot, table, root := make([]byte, 512), make([]byte, 64), make([]byte, 512)
	v, err := open(s, nil, 0, size)
	if err != nil {
		f.Fatal(err)
	}
	_, _ = s.ReadAt(boot, 0)
	_, _ = s.ReadAt(table, v.fatAt)
	_, _ = s.ReadAt(root, v.dataAt)
	f.Add(boot, table, root)
	f.Fuzz(func(t *testing.T, boot, table, root []byte) {
		d := maps.Clone(s)
		_, _ = d.WriteAt(table[:min(len(table), 512)], v.fatAt)
		_, _ = d.WriteAt(root[:min(len(root), 4096)], v.dataAt)
		_, _ = d.WriteAt(boot[:min(len(boot), 512)], 0)
		for _, path := range []string{"a/long name", "B", "new/file with a long name"} {
			_, _ = Get(d, 0, size, path)
			if Put(d, 0, size, path, []byte("x")) != nil {
				continue
			}
			for at := range d {
				if at*sectorSize >= size {
					t.Fatalf("sector %d was written, behind the partition", at)
				}
			}
		}
	})
}

func FuzzFolder(f *testing.F) {
	short, _ := shortName("loader.conf", nil)
	f.Add(append(encodeName("loader.conf", short), encodeEntry(short, attrArchive, 3, 4)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		entries, end := decodeFolder(b)
		if end > len(b)/entrySize {
			t.Fatal(end)
		}
		for _, e := range entries {
			if e.first < 0 || e.first > e.last || e.last >= end {
				t.Fatalf("%+v", e)
			}
		}
		if !slices.IsSortedFunc(entries, func(a, b entry) int { return a.last - b.last }) {
			t.Fatal("not in order")
		}
	})
}
