package initrd

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

const testDep = `kernel/lib/base.ko.xz:
kernel/lib/mid.ko.zst: kernel/lib/base.ko.xz
kernel/drivers/md/dm-verity.ko: kernel/drivers/md/dm-bufio.ko kernel/lib/mid.ko.zst kernel/lib/base.ko.xz
kernel/drivers/md/dm-bufio.ko: kernel/lib/base.ko.xz
kernel/drivers/block/virtio_blk.ko:
`

func TestModules(t *testing.T) {
	order, missing, err := Modules(testDep, []string{"virtio-blk", "dm_verity", "nvme", "dm-bufio"})
	want := []string{
		"kernel/drivers/block/virtio_blk.ko", "kernel/lib/base.ko.xz", "kernel/lib/mid.ko.zst",
		"kernel/drivers/md/dm-bufio.ko", "kernel/drivers/md/dm-verity.ko",
	}
	if err != nil || !reflect.DeepEqual(order, want) || !reflect.DeepEqual(missing, []string{"nvme"}) {
		t.Errorf("%q, %q, %v", order, missing, err)
	}
	if order, missing, err := Modules("", []string{"a"}); err != nil || len(order) != 0 || len(missing) != 1 {
		t.Error(order, missing, err)
	}
	for _, dep := range []string{"no colon", ": a.ko", "a.ko: b.ko", "a.ko: b.ko\nb.ko: a.ko"} {
		if order, _, err := Modules(dep, []string{"a"}); err == nil {
			t.Errorf("%q gave %q", dep, order)
		}
	}
	if list := "kernel/fs/erofs/erofs.ko\nkernel/drivers/md/dm-verity.ko\n"; !builtin(list, "dm_verity") || builtin(list, "ext4") {
		t.Error("builtin")
	}
}

func packed(t *testing.T, name string, b []byte) []byte {
	t.Helper()
	var out bytes.Buffer
	var w io.WriteCloser
	var err error
	switch filepath.Ext(name) {
	case ".xz":
		w, err = xz.NewWriter(&out)
	case ".zst":
		w, err = zstd.NewWriter(&out)
	default:
		return b
	}
	if err == nil {
		_, err = w.Write(b)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

func sample(t *testing.T) Parts {
	tree := fstest.MapFS{
		"modules.dep": {Data: []byte(testDep)}, "modules.builtin": {Data: []byte("kernel/fs/erofs/erofs.ko\n")},
		"modules.alias": {Data: []byte("# of depmod\nalias virtio:d00000002v* virtio_blk\nalias block-major-8-* virtio_blk\nalias pci:v1* other\n")},
	}
	for line := range strings.Lines(testDep) {
		name, _, _ := strings.Cut(line, ":")
		tree[name] = &fstest.MapFile{Data: packed(t, name, []byte("\x7fELF "+name))}
	}
	return Parts{Init: []byte("program"), Modules: tree, Optional: []string{"virtio_blk", "nvme"}}
}

func TestBuild(t *testing.T) {
	b, err := Build(sample(t))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Build(sample(t)); err != nil || !bytes.Equal(again, b) {
		t.Error("built twice, it is not the same")
	}
	cpio, err := exec.LookPath("cpio")
	if err != nil {
		t.Skip("cpio is not installed")
	}
	dec, _ := zstd.NewReader(bytes.NewReader(b))
	defer dec.Close()
	cmd := exec.Command(cpio, "--extract", "--no-absolute-filenames", "--quiet", "--nonmatching", "dev/console")
	cmd.Dir, cmd.Stdin = t.TempDir(), dec
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := map[string]string{}
	err = filepath.WalkDir(cmd.Dir, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(cmd.Dir, path)
		info, _ := d.Info()
		data, _ := os.ReadFile(path)
		got[rel] = info.Mode().String() + " " + string(data)
		return err
	})
	want := map[string]string{
		"init":                  "-rwxr-xr-x program",
		"modules.list":          "-rw-r--r-- virtio_blk.ko virtio:d00000002v*\nbase.ko always\nmid.ko +base.ko always\ndm-bufio.ko +base.ko always\ndm-verity.ko +base.ko +mid.ko +dm-bufio.ko always\n",
		"modules/base.ko":       "-rw-r--r-- \x7fELF kernel/lib/base.ko.xz",
		"modules/mid.ko":        "-rw-r--r-- \x7fELF kernel/lib/mid.ko.zst",
		"modules/dm-bufio.ko":   "-rw-r--r-- \x7fELF kernel/drivers/md/dm-bufio.ko",
		"modules/dm-verity.ko":  "-rw-r--r-- \x7fELF kernel/drivers/md/dm-verity.ko",
		"modules/virtio_blk.ko": "-rw-r--r-- \x7fELF kernel/drivers/block/virtio_blk.ko",
	}
	for _, folder := range []string{"dev", "modules", "proc", "run", "sys", "sysroot"} {
		want[folder] = "drwxr-xr-x "
	}
	delete(got, ".")
	if err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%v: %q\nwant %q", err, got, want)
	}
}

func TestBuildRefuses(t *testing.T) {
	for want, change := range map[string]func(*Parts, fstest.MapFS){
		"no init":        func(p *Parts, _ fstest.MapFS) { p.Init = nil },
		"modules.dep":    func(_ *Parts, m fstest.MapFS) { delete(m, "modules.dep") },
		"modules.alias":  func(_ *Parts, m fstest.MapFS) { delete(m, "modules.alias") },
		"erofs, without": func(_ *Parts, m fstest.MapFS) { m["modules.builtin"] = &fstest.MapFile{} },
		"base.ko.xz":     func(_ *Parts, m fstest.MapFS) { m["kernel/lib/base.ko.xz"].Data = []byte("\x7fELF") },
		"no kernel mod":  func(_ *Parts, m fstest.MapFS) { m["kernel/drivers/md/dm-bufio.ko"].Data = []byte("x") },
		"not exist":      func(_ *Parts, m fstest.MapFS) { delete(m, "kernel/drivers/block/virtio_blk.ko") },
	} {
		p := sample(t)
		change(&p, p.Modules.(fstest.MapFS))
		if _, err := Build(p); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %q, got %v", want, err)
		}
	}
	for _, e := range []Entry{
		{Name: "/a"}, {Name: "a/../b"}, {Name: "."}, {Name: ""}, {Name: trailer}, {Name: "a", Mode: fs.ModeSymlink},
		{Name: "a", Mode: fs.ModeDir, Data: []byte("x")}, {Name: "b/c"},
	} {
		if err := WriteCpio(io.Discard, []Entry{e}); err == nil {
			t.Errorf("%+v was written", e)
		}
	}
	if err := WriteCpio(io.Discard, []Entry{{Name: "a"}, {Name: "a"}}); err == nil {
		t.Error("a name was written twice")
	}
	if err := WriteCpio(io.Discard, []Entry{{Name: "a"}, {Name: "a/b"}}); err == nil {
		t.Error("a file was written into a file")
	}
}
