package disk

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/google/uuid"
)

// Where a disk is read to know what is on it, in bytes.
const (
	edge = 4 << 20 // at both ends
	// What has a name has it in the first or the last of these.
	head = 256 << 10
	foot = 8 << 10
	// tail is what a file system of ours leaves free, for the mark.
	tail     = 1 << 20
	markSize = 4096
	// MinBytes is the smallest disk that is taken.
	MinBytes = 4 * edge
)

var markMagic = []byte("writ: a file system is being made here\n")

// mark is what a begun format leaves.
func mark(id string) []byte {
	b := make([]byte, markSize)
	copy(b, string(markMagic)+id)
	return b
}

// markAt is where it is on a disk.
func markAt(size int64) int64 { return size/markSize*markSize - tail }

// signature is what tells a kind of content.
type signature struct {
	kind  string
	at    int64 // from the end, where it is negative
	magic string
}

// signatures are of what people keep on disks, as libblkid knows them. They give
// names: what none of them tells is no less data.
var signatures = []signature{
	{"a LUKS volume", 0, "LUKS\xba\xbe"}, {"XFS", 0, "XFSB"}, {"btrfs", 0x10040, "_BHRfS_M"},
	{"an LVM volume", 512, "LABELONE"}, {"an LVM volume", 0, "LABELONE"}, {"NTFS", 3, "NTFS    "}, {"exFAT", 3, "EXFAT   "},
	{"a BitLocker volume", 3, "-FVE-FS-"}, {"swap", 4086, "SWAPSPACE2"}, {"swap", 65526, "SWAPSPACE2"}, {"an ISO 9660 image", 0x8001, "CD001"},
	{"a UDF volume", 0x8001, "BEA01"}, {"SquashFS", 0, "hsqs"}, {"EROFS", 1024, "\xe2\xe1\xf5\xe0"}, {"F2FS", 1024, "\x10\x20\xf5\xf2"},
	{"bcache", 4096 + 24, "\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81"}, {"a member of a RAID", 4096, "\xfc\x4e\x2b\xa9"}, {"a member of a RAID", 0, "\xfc\x4e\x2b\xa9"},
	{"a member of a RAID", -8192, "\xfc\x4e\x2b\xa9"}, {"a BlueStore volume", 0, "bluestore block device\n"}, {"APFS", 32, "NXSB"},
	{"FAT", 54, "FAT"}, {"FAT", 82, "FAT32"}, {"a GPT partition table", 512, "EFI PART"}, {"a GPT partition table", 4096, "EFI PART"}, {"a GPT partition table", -512, "EFI PART"},
	{"a partition table", 510, "\x55\xaa"},
}

// ReadContent says what is on a disk of a size. Where that has a name it is known
// by little; both ends are read whole before a disk is said to be blank.
func ReadContent(r io.ReaderAt, size int64) (Content, error) {
	if size < MinBytes {
		return Content{Kind: "less room than 16 MiB"}, nil
	}
	first, last, page := make([]byte, head), make([]byte, foot), make([]byte, markSize)
	for _, part := range []struct {
		b  []byte
		at int64
	}{{first, 0}, {last, size - foot}, {page, markAt(size)}} {
		if err := readAt(r, part.b, part.at); err != nil {
			return Content{}, err
		}
	}
	c := Content{Kind: kind(first, last)}
	if c.Kind == Ext4 {
		c.Label, c.UUID, c.Bytes = superblock(first)
	}
	id, marked := readMark(page)
	if !marked && c.Bytes > 0 && c.Bytes < markAt(size) && !inUse(first) {
		// The disk has grown since: the mark is where the file system ends.
		if err := readAt(r, page, c.Bytes); err != nil {
			return Content{}, err
		}
		id, marked = readMark(page)
	}
	switch {
	case marked && (c.Kind == "" || c.Kind == Ext4 && c.UUID == id):
		c.Mark = id
		if c.Kind == "" {
			c.Kind = Unfinished
		}
	case c.Kind == "":
		blank, err := blankEdges(r, size)
		if err != nil {
			return Content{}, err
		}
		if c.Kind = "data of an unknown kind"; blank {
			c.Kind = Blank
		}
	}
	return c, nil
}

func blankEdges(r io.ReaderAt, size int64) (bool, error) {
	b := make([]byte, head)
	for _, from := range []int64{0, size - edge} {
		for at := from; at < from+edge; at += head {
			if err := readAt(r, b, at); err != nil || !zero(b) {
				return false, err
			}
		}
	}
	return true, nil
}

func readAt(r io.ReaderAt, b []byte, at int64) error {
	if n, err := r.ReadAt(b, at); n < len(b) {
		return fmt.Errorf("read %d bytes of a disk at %d: %w", len(b), at, err)
	}
	return nil
}

// kind names what is on a disk by its first and last bytes; "" is nothing that
// has a name.
func kind(first, last []byte) string {
	if binary.LittleEndian.Uint16(first[1024+0x38:]) == 0xef53 {
		return ext(first)
	}
	for _, s := range signatures {
		in, at := first, s.at
		if at < 0 {
			in, at = last, foot+at
		}
		if bytes.HasPrefix(in[at:], []byte(s.magic)) {
			return s.kind
		}
	}
	for at := 0; at < head; at += 1024 { // the uberblocks of a ZFS label
		if u := binary.LittleEndian.Uint64(first[at:]); u == 0x00bab10c {
			return "ZFS"
		}
	}
	return ""
}

// ext tells ext4 from its elders and from what is not a file system by itself.
func ext(first []byte) string {
	incompat := binary.LittleEndian.Uint32(first[1024+0x60:])
	const journalDevice, extents = 0x8, 0x40
	switch {
	case incompat&journalDevice != 0:
		return "the journal of a file system"
	case incompat&extents == 0:
		return "ext2 or ext3"
	}
	return Ext4
}

// superblock reads that of ext4. It is that of a mounted file system too: both
// are the same pages of the kernel's cache.
func superblock(first []byte) (label, id string, size int64) {
	sb := first[1024:2048]
	name, _, _ := strings.Cut(string(sb[0x78:0x88]), "\x00")
	return name, uuid.UUID(slices.Clone(sb[0x68:0x78])).String(), extBytes(sb)
}

// inUse says that a file system is mounted, or was when the power went. Until its
// journal is read it may reach further than the superblock says, and has no mark.
func inUse(first []byte) bool {
	const recovery = 0x4
	return binary.LittleEndian.Uint32(first[1024+0x60:])&recovery != 0
}

// extBytes is how far a file system reaches; what is no number that a disk could
// have is the largest there is.
func extBytes(sb []byte) int64 {
	const wide = 0x80
	blocks, shift := uint64(binary.LittleEndian.Uint32(sb[0x04:])), 10+uint64(binary.LittleEndian.Uint32(sb[0x18:]))
	if binary.LittleEndian.Uint32(sb[0x60:])&wide != 0 {
		blocks |= uint64(binary.LittleEndian.Uint32(sb[0x150:])) << 32
	}
	if shift > 16 || blocks > math.MaxInt64>>shift {
		return math.MaxInt64
	}
	return int64(blocks << shift)
}

func readMark(b []byte) (string, bool) {
	rest, ok := bytes.CutPrefix(b, markMagic)
	if !ok || len(rest) < 36 || !zero(rest[36:]) {
		return "", false
	}
	id, err := uuid.Parse(string(rest[:36]))
	return id.String(), err == nil
}

var zeros [head]byte

// zero says so of at most head bytes.
func zero(b []byte) bool { return bytes.Equal(b, zeros[:len(b)]) }
