package tree

import (
	"bytes"
	"debug/elf"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/ulikunitz/xz"
)

func module(t *testing.T, depends string, packed bool) Data {
	t.Helper()
	b := fakeELF{kind: elf.ET_REL, modinfo: "license=GPL\x00depends=" + depends + "\x00name=x\x00"}.bytes()
	if !packed {
		return Bytes(b)
	}
	var z bytes.Buffer
	w, err := xz.NewWriter(&z)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(b); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return Bytes(z.Bytes())
}

func kernel(t *testing.T) *Tree {
	t.Helper()
	const base = "usr/lib/modules/6.12/"
	src := build(t, "linux", base+"modules.builtin = b", base+"modules.builtin.modinfo = m", base+"modules.order = o", base+"build -> /usr/src")
	for at, depends := range map[string]string{
		"kernel/fs/ext.ko.xz": "jbd-two,crc", "kernel/fs/jbd_two.ko.xz": "mbcache", "kernel/lib/mbcache.ko": "", "kernel/fs/btrfs/btrfs.ko.xz": "raid", "kernel/lib/raid.ko.xz": "",
	} {
		if err := src.Add(base+at, Entry{Mode: 0o644, Data: module(t, depends, strings.HasSuffix(at, ".xz")), Origin: "linux"}); err != nil {
			t.Fatal(err)
		}
	}
	return src
}

func TestCopyModules(t *testing.T) {
	got := New()
	m, err := got.CopyModules(kernel(t), parse(t, "kernel/fs/btrfs/\nkernel/fs/jbd*\nkernel/lib/\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := &Modules{Kernel: "6.12", Kept: 3, Dropped: 2, Needed: map[string]string{
		"kernel/fs/jbd_two.ko.xz": "kernel/fs/ext.ko.xz", "kernel/lib/mbcache.ko": "kernel/fs/jbd_two.ko.xz",
	}}
	if d := cmp.Diff(want, m); d != "" {
		t.Error(d)
	}
	const base = "usr/lib/modules/6.12/"
	var files []string
	for at, e := range got.All() {
		if e.Mode.IsRegular() {
			files = append(files, strings.TrimPrefix(at, base))
		}
	}
	if d := cmp.Diff([]string{"kernel/fs/ext.ko", "kernel/fs/jbd_two.ko", "kernel/lib/mbcache.ko", "modules.builtin", "modules.builtin.modinfo", "modules.order"}, files); d != "" {
		t.Error(d)
	}
	if b, err := got.ReadFile(base + "kernel/fs/ext.ko"); err != nil || !bytes.HasPrefix(b, []byte(elfMagic)) {
		t.Errorf("not decompressed: %v", err)
	}
}

func TestCopyModulesRefuses(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(src *Tree)
		drop string
		want string
	}{
		"a pattern for nothing": {func(*Tree) {}, "kernel/none/", "drop modules of 6.12: keep:1: no package has kernel/none/"},
		"no kernel":             {func(s *Tree) { s.Remove("usr/lib/modules/6.12") }, "", "there must be one kernel, and there are 0"},
		"two kernels":           {func(s *Tree) { _ = s.Dir("usr/lib/modules/6.13", 0o755) }, "", "there are 2: 6.12, 6.13"},
		"no list of builtin":    {func(s *Tree) { s.Remove("usr/lib/modules/6.12/modules.builtin") }, "", "there is no modules.builtin"},
		"no module": {func(s *Tree) {
			_ = s.File("usr/lib/modules/6.12/kernel/x.ko", 0o644, fakeELF{kind: elf.ET_REL}.bytes())
		},
			"", "kernel/x.ko: it has no section .modinfo"},
		"damaged": {func(s *Tree) { _ = s.File("usr/lib/modules/6.12/kernel/x.ko.xz", 0o644, []byte("x")) }, "", "kernel/x.ko.xz: "},
	} {
		t.Run(name, func(t *testing.T) {
			src := kernel(t)
			c.do(src)
			if _, err := New().CopyModules(src, parse(t, c.drop)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
