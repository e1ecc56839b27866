// Package disk lays out the disk of a node and writes it as an image: EFI system
// partition, and two slots of a root file system and its hash tree, of which a
// new image fills the first. The partition for what a node keeps is not in the
// image; the first boot makes it, as large as the disk allows.
//
// It owns nothing and watches nothing; it needs neither root nor a loop device.
// The same parts give the same bytes: nothing random, no time, and all that is
// not said by the parts is derived from the seed.
package disk

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"fmt"
	"io"
	"os"

	"github.com/writ-os/writ/image/esp"
	"github.com/writ-os/writ/image/gpt"
	"github.com/writ-os/writ/image/verity"
)

// Numbers of the partitions, as in the table and in the names of devices.
const (
	ESP = 1 + iota
	RootA
	VerityA
	RootB
	VerityB
)

const mebibyte = 1 << 20

// Sizes of the partitions in bytes, by number. An ESP holds three kernel images
// and more; a root has room to grow, for a slot cannot be made larger later.
var Sizes = [...]int64{
	ESP:     256 * mebibyte,
	RootA:   512 * mebibyte,
	VerityA: 8 * mebibyte,
	RootB:   512 * mebibyte,
	VerityB: 8 * mebibyte,
}

// align is what partitions begin at a multiple of: no disk has larger blocks.
const align = mebibyte

// EmptySlot is the name of a partition that holds no image (the convention of
// systemd-sysupdate).
const EmptySlot = "_empty"

// RootName and VerityName are the names of the partitions of an image.
func RootName(version string) string   { return "root_" + version }
func VerityName(version string) string { return "verity_" + version }

// Parts are what goes into an image.
type Parts struct {
	Version string
	// Seed is what the GUIDs are derived from that nothing else gives, such as
	// the name and version of the image.
	Seed     string
	Root     io.Reader // the root file system,
	RootSize int64     // its length in bytes
	Tree     verity.Tree
	ESP      []esp.File
}

// Table is the partition table of an image with these parts, and the size of
// the image in bytes.
func (p Parts) Table() (gpt.Table, int64, error) {
	root, tree, err := gpt.VerityGUIDs(p.Tree.RootHash[:])
	if err != nil {
		return gpt.Table{}, 0, err
	}
	t := gpt.Table{DiskGUID: derive(p.Seed, "disk"), Partitions: []gpt.Partition{
		ESP - 1:     {Type: gpt.TypeESP, GUID: derive(p.Seed, "esp"), Name: "ESP"},
		RootA - 1:   {Type: gpt.TypeRootX8664, GUID: root, Name: RootName(p.Version), Attributes: gpt.ReadOnly},
		VerityA - 1: {Type: gpt.TypeRootX8664Verity, GUID: tree, Name: VerityName(p.Version), Attributes: gpt.ReadOnly},
		RootB - 1:   {Type: gpt.TypeRootX8664, GUID: derive(p.Seed, "root-b"), Name: EmptySlot, Attributes: gpt.ReadOnly},
		VerityB - 1: {Type: gpt.TypeRootX8664Verity, GUID: derive(p.Seed, "verity-b"), Name: EmptySlot, Attributes: gpt.ReadOnly},
	}}
	at := int64(align)
	for i := range t.Partitions {
		size := Sizes[i+1]
		t.Partitions[i].First = uint64(at / gpt.SectorSize)
		t.Partitions[i].Last = uint64((at+size)/gpt.SectorSize) - 1
		at += size
	}
	return t, at + align, nil // the backup of the table lies behind
}

// check refuses what does not fit, before anything is written.
func (p Parts) check() error {
	if p.RootSize > Sizes[RootA] {
		return fmt.Errorf("the root file system has %d MiB, a slot has %d; leave something out", p.RootSize>>20, Sizes[RootA]>>20)
	}
	if int64(len(p.Tree.Bytes)) > Sizes[VerityA] || int64(len(p.Tree.Bytes)) != verity.TreeSize(p.RootSize) {
		return fmt.Errorf("the hash tree has %d bytes; of this root file system it has %d, and a slot has room for %d", len(p.Tree.Bytes), verity.TreeSize(p.RootSize), Sizes[VerityA])
	}
	if p.Version == "" || p.Seed == "" {
		return fmt.Errorf("an image needs a version and a seed")
	}
	return nil
}

// Assemble writes the image to an empty file. What is zero is left out of the
// file: it is sparse.
func Assemble(out *os.File, p Parts) error {
	if err := p.check(); err != nil {
		return fmt.Errorf("assemble image: %w", err)
	}
	table, size, err := p.Table()
	if err != nil {
		return fmt.Errorf("assemble image: %w", err)
	}
	info, err := out.Stat()
	if err != nil {
		return fmt.Errorf("assemble image: %w", err)
	}
	if info.Size() != 0 {
		return fmt.Errorf("assemble image: %s is not empty", out.Name())
	}
	if err := out.Truncate(size); err != nil {
		return fmt.Errorf("assemble image: %w", err)
	}
	volume := derive(p.Seed, "volume")
	first := table.Partitions[ESP-1]
	if err := esp.Build(out, first.Offset(), first.Size(), binary.BigEndian.Uint32(volume[:]), p.ESP); err != nil {
		return fmt.Errorf("assemble image: %w", err)
	}
	root := io.NewOffsetWriter(out, table.Partitions[RootA-1].Offset())
	n, err := copySparse(root, io.LimitReader(p.Root, p.RootSize))
	if err == nil && n != p.RootSize {
		err = fmt.Errorf("it ends after %d of %d bytes", n, p.RootSize)
	}
	if err != nil {
		return fmt.Errorf("assemble image: write root file system: %w", err)
	}
	if _, err := out.WriteAt(p.Tree.Bytes, table.Partitions[VerityA-1].Offset()); err != nil {
		return fmt.Errorf("assemble image: write hash tree: %w", err)
	}
	// The table comes last: with it, the image is one.
	if err := gpt.Write(out, table, size); err != nil {
		return fmt.Errorf("assemble image: %w", err)
	}
	return nil
}

// block is the unit in which zeros are left out.
const block = 64 << 10

var zeros [block]byte

// copySparse copies to where everything is zero already.
func copySparse(w io.WriterAt, r io.Reader) (int64, error) {
	b, at := make([]byte, block), int64(0)
	for {
		n, err := io.ReadFull(r, b)
		if n > 0 && !bytes.Equal(b[:n], zeros[:n]) {
			if _, err := w.WriteAt(b[:n], at); err != nil {
				return at, err
			}
		}
		at += int64(n)
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return at, nil
		}
		if err != nil {
			return at, err
		}
	}
}

// derive is a GUID of version 4 that is given by a seed and what it is for.
func derive(seed, purpose string) gpt.GUID {
	sum := sha256.Sum256([]byte(seed + "\x00" + purpose))
	g := gpt.GUID(sum[:16])
	g[6], g[8] = g[6]&0x0f|0x40, g[8]&0x3f|0x80
	return g
}
