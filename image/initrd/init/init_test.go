//go:build linux

package main

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"github.com/writ-os/writ/image/gpt"
	"github.com/writ-os/writ/image/verity/superblock"
)

const testHash = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

func TestParseCmdline(t *testing.T) {
	want := options{
		hash: testHash, init: "/usr/lib/systemd/systemd",
		data: gpt.MustGUID("e3b0c442-98fc-1c14-9afb-f4c8996fb924"), tree: gpt.MustGUID("27ae41e4-649b-934c-a495-991b7852b855"),
	}
	for _, text := range []string{
		"roothash=" + testHash, "quiet  roothash=" + strings.ToUpper(testHash) + "\n",
		"roothash=" + testHash + " ro roothash=" + strings.Repeat("0", 64),
		`a="b c roothash=x" roothash="` + testHash + `"`,
		"roothash=" + testHash + " -- writ.init=/bin/sh",
	} {
		if got, err := parseCmdline(text); err != nil || got != want {
			t.Errorf("%q: %+v, %v", text, got, err)
		}
	}
	if got, err := parseCmdline("writ.init=/sbin/x roothash=" + testHash); err != nil || got.init != "/sbin/x" {
		t.Error(got, err)
	}
	for _, text := range []string{"", "roothash", "roothash=", "roothash=" + testHash[1:], "roothash=g" + testHash[1:], "-- roothash=" + testHash, "writ.init=sh roothash=" + testHash} {
		if got, err := parseCmdline(text); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func FuzzCmdline(f *testing.F) {
	f.Add(`a="b c" roothash=` + testHash)
	f.Fuzz(func(t *testing.T, text string) {
		if o, err := parseCmdline(text); err == nil && (len(o.hash) != 64 || o.init == "" || o.data == o.tree && o.hash[:32] != o.hash[32:]) {
			t.Fatalf("%+v", o)
		}
	})
}

func TestChoosePair(t *testing.T) {
	part := func(b byte) gpt.Partition {
		return gpt.Partition{Type: gpt.TypeRootX8664, GUID: gpt.GUID{b}}
	}
	data, tree := gpt.GUID{1}, gpt.GUID{2}
	both := func(name string) disk {
		return disk{name, gpt.Table{Partitions: []gpt.Partition{part(9), part(1), {}, part(2)}}}
	}
	half := func(name string, b byte) disk {
		return disk{name, gpt.Table{Partitions: []gpt.Partition{part(b)}}}
	}
	for _, c := range []struct {
		what  string
		disks []disk
		want  pair
	}{
		{"one disk", []disk{both("vda")}, pair{data: "/dev/vda2", tree: "/dev/vda4"}},
		{"a name that ends in a digit", []disk{half("sda", 7), both("nvme0n1")}, pair{data: "/dev/nvme0n1p2", tree: "/dev/nvme0n1p4"}},
		{"the first of two", []disk{both("sdb"), both("sda")}, pair{data: "/dev/sda2", tree: "/dev/sda4"}},
		{"not halves of two disks", []disk{half("sda", 1), half("sdb", 2)}, pair{}},
		{"no disk", nil, pair{}},
	} {
		got, ok := choosePair(c.disks, data, tree)
		if want := c.want; got.data != want.data || got.tree != want.tree || ok != (want.data != "") || ok && !strings.HasPrefix(got.data, "/dev/"+got.disk.name) {
			t.Errorf("%s: %+v, %v", c.what, got, ok)
		}
	}
	for name, want := range map[string]bool{"sda": true, "vda": true, "nvme0n1": true, "mmcblk0": true, "xvda": true, "loop0": false, "dm-0": false, "zram0": false, "sr0": false, "md127": false, "": false} {
		if mayHoldImage(name) != want {
			t.Errorf("%q: %v", name, !want)
		}
	}
}

func TestTableLine(t *testing.T) {
	p := pair{data: "/dev/vda2", tree: "/dev/vda3"}
	got := tableLine(superblock.Superblock{DataBlocks: 300, Salt: []byte{0xab, 0xcd}}, p, testHash)
	if want := "1 /dev/vda2 /dev/vda3 4096 4096 300 1 sha256 " + testHash + " abcd 1 panic_on_corruption"; got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
	if got := tableLine(superblock.Superblock{DataBlocks: 1}, p, testHash); !strings.Contains(got, testHash+" - 1") {
		t.Error(got)
	}
}

// The structures have the sizes and places of linux/dm-ioctl.h.
func TestMapperRequest(t *testing.T) {
	var h mapperHeader
	var s mapperSpec
	places := []uintptr{unsafe.Sizeof(h), unsafe.Offsetof(h.flags), unsafe.Offsetof(h.device), unsafe.Offsetof(h.name), unsafe.Offsetof(h.uuid), unsafe.Sizeof(s), unsafe.Offsetof(s.kind)}
	if want := []uintptr{headerSize, 28, 40, 48, 176, specSize, 24}; !reflect.DeepEqual(places, want) {
		t.Fatalf("%d, want %d", places, want)
	}
	if mapperRequest|mapperCreate != 0xc138fd03 {
		t.Errorf("%#x", mapperRequest|mapperCreate)
	}
	target := encodeTarget("verity", 16, "params")
	buf := encodeRequest(mapperHeader{flags: readOnly, targets: 1}, "root", "id", target)
	var b []byte
	for _, v := range buf {
		b = binary.NativeEndian.AppendUint64(b, v)
	}
	if len(target)%8 != 0 || string(b[headerSize:][:len(target)]) != string(target) || string(target[specSize:specSize+7]) != "params\x00" || string(target[24:31]) != "verity\x00" {
		t.Errorf("%q", b)
	}
	if string(b[48:53]) != "root\x00" || string(b[176:179]) != "id\x00" || binary.NativeEndian.Uint32(b[12:]) != uint32(len(b)) || binary.NativeEndian.Uint64(target[8:]) != 16 {
		t.Errorf("%q", b)
	}
}

// The program is read by firmware on each boot: it stays small, and static.
func TestSize(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a program")
	}
	out := filepath.Join(t.TempDir(), "init")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -buildid=", "-o", out, ".")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
	info, err := os.Stat(out)
	if err != nil || info.Size() > 5<<19 {
		t.Errorf("%d bytes, %v", info.Size(), err)
	}
	deps, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".").Output()
	got, house := strings.Fields(string(deps)), "github.com/writ-os/writ/image/"
	slices.Sort(got)
	want := []string{house + "gpt", house + "initrd/init", house + "slot/boot", house + "slot/guard", house + "slot/note", house + "vault/mark", house + "verity", house + "verity/superblock", "golang.org/x/sys/unix"}
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("it imports %s: %v", got, err)
	}
}
