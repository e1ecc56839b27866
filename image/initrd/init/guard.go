//go:build linux

package main

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/image/gpt"
	"github.com/writ-os/writ/image/slot/boot"
	"github.com/writ-os/writ/image/slot/guard"
	"github.com/writ-os/writ/image/slot/note"
)

const espMount = "/esp"

// espModules are what the EFI system partition is mounted with. They are loaded
// for that alone: few starts need them.
var espModules = []string{"nls_cp437.ko", "nls_ascii.ko", "vfat.ko"}

// look lets the machine look after its own root file system, and restarts it where
// another version takes over. What keeps it from looking keeps it not from
// starting: the kernel verifies what it reads in any case.
func look(p pair, opts options, modules *loader) error {
	s, done, err := openSlot(p)
	if err != nil {
		say("the root file system is not looked after: %v", err)
		return nil
	}
	defer done()
	do, err := guard.Check(guard.Config{
		RootHash: opts.hash, Slot: s, Name: p.data, Tell: tell, Log: say,
		Other: func(rootHash string) (guard.Slot, func(), error) { return otherSlot(p.disk, rootHash) },
		ESP:   func() (boot.ESP, func(), error) { return openESP(p.disk, modules) },
	})
	if do == guard.Restart {
		tell("The machine restarts in %d seconds.", beforeBoot/time.Second)
		restart()
	}
	return err
}

// otherSlot finds the slot with a root hash on the disk that the machine starts
// from.
func otherSlot(d disk, rootHash string) (guard.Slot, func(), error) {
	hash, err := hex.DecodeString(rootHash)
	if err != nil {
		return guard.Slot{}, nil, err
	}
	data, tree, err := gpt.VerityGUIDs(hash)
	if err != nil {
		return guard.Slot{}, nil, err
	}
	p, ok := choosePair([]disk{d}, data, tree)
	if !ok {
		return guard.Slot{}, nil, errors.New("its root file system is not on this disk")
	}
	return openSlot(p)
}

func openSlot(p pair) (guard.Slot, func(), error) {
	root, err := os.Open(p.data)
	if err != nil {
		return guard.Slot{}, nil, err
	}
	tree, err := openPart(p.tree)
	if err != nil {
		return guard.Slot{}, nil, errors.Join(err, root.Close())
	}
	return guard.Slot{Root: root, Tree: tree}, func() { _ = errors.Join(root.Close(), tree.Close()) }, nil
}

// part is a partition as a device.
type part struct {
	*os.File
	size int64
}

var _ note.Part = part{}

func openPart(path string) (part, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		// A disk that is not written to is read all the same.
		if f, err = os.Open(path); err != nil {
			return part{}, err
		}
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return part{}, errors.Join(err, f.Close())
	}
	return part{f, size}, nil
}

func (p part) Size() int64 { return p.size }

// openESP mounts the EFI system partition of a disk.
func openESP(d disk, modules *loader) (boot.ESP, func(), error) {
	number, ok := espOf(d.table)
	if !ok {
		return nil, nil, fmt.Errorf("%s has no EFI system partition", d.name)
	}
	modules.named(espModules)
	if err := os.MkdirAll(espMount, 0o700); err != nil {
		return nil, nil, err
	}
	device := partitionDevice(d.name, number)
	if err := unix.Mount(device, espMount, "vfat", boot.MountFlags, boot.MountOptions); err != nil {
		return nil, nil, fmt.Errorf("mount the EFI system partition %s: %w", device, err)
	}
	dir, err := boot.OpenDir(espMount)
	if err != nil {
		return nil, nil, errors.Join(err, unix.Unmount(espMount, 0))
	}
	return dir, func() { _ = errors.Join(dir.Close(), unix.Unmount(espMount, 0)) }, nil
}

// espOf is the number of the EFI system partition in a table.
func espOf(t gpt.Table) (int, bool) {
	for i, p := range t.Partitions {
		if p.Type == gpt.TypeESP {
			return i + 1, true
		}
	}
	return 0, false
}
