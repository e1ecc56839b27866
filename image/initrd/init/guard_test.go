//go:build linux

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/writ-os/writ/image/gpt"
	"github.com/writ-os/writ/image/slot/note"
)

func TestESPOf(t *testing.T) {
	table := gpt.Table{Partitions: []gpt.Partition{{Type: gpt.TypeRootX8664}, {}, {Type: gpt.TypeESP}}}
	if n, ok := espOf(table); n != 3 || !ok {
		t.Errorf("%d, %v", n, ok)
	}
	if n, ok := espOf(gpt.Table{}); ok {
		t.Errorf("%d of an empty table", n)
	}
}

// A hash partition is a device with a note at its end.
func TestPart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "tree")
	if err := os.WriteFile(path, make([]byte, 3*note.Room), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := openPart(path)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	want := note.Note{RootHash: testHash, Starts: 2}
	if err := note.Write(p, want); err != nil {
		t.Fatal(err)
	}
	if n, err := note.Read(p, p.Size(), testHash); err != nil || n != want || p.Size() != 3*note.Room {
		t.Errorf("%+v, %v", n, err)
	}
	if _, err := openPart(path + "x"); err == nil {
		t.Error("opened what is not there")
	}
}

// What is not on the disk that the machine starts from is nowhere: another disk may
// be another machine's.
func TestOtherSlot(t *testing.T) {
	for hash, want := range map[string]string{testHash: "its root file system is not on this disk", "xyz": "invalid byte", "00": ""} {
		if _, _, err := otherSlot(disk{name: "vda"}, hash); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", hash, err)
		}
	}
	d := disk{name: "nothing", table: gpt.Table{Partitions: []gpt.Partition{{Type: gpt.TypeRootX8664, GUID: gpt.MustGUID("e3b0c442-98fc-1c14-9afb-f4c8996fb924")}, {Type: gpt.TypeRootX8664Verity, GUID: gpt.MustGUID("27ae41e4-649b-934c-a495-991b7852b855")}}}}
	if _, _, err := otherSlot(d, testHash); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%v", err)
	}
	if _, _, err := openESP(disk{name: "vda"}, &loader{}); err == nil || !strings.Contains(err.Error(), "vda has no EFI system partition") {
		t.Errorf("%v", err)
	}
}

// Modules that no device asks for are loaded by their names, with what they need.
func TestNamed(t *testing.T) {
	l := &loader{modules: parseModules("fat.ko\nvfat.ko +fat.ko\nnls_ascii.ko\nother.ko\n"), done: map[string]bool{}}
	l.named([]string{"vfat.ko", "nls_ascii.ko", "missing.ko"})
	if len(l.done) != 3 || !l.done["fat.ko"] || l.done["other.ko"] {
		t.Errorf("%v", l.done)
	}
}
