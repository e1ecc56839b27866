package gpt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"slices"
	"unicode/utf16"
)

const (
	signature  = "EFI PART"
	revision   = 0x00010000
	headerSize = 92
	// An array of another maker may have other counts and sizes; more than this
	// is no table, and is not read into memory.
	maxArray = 1 << 20
)

var errNoTable = errors.New("no partition table")

// replica is one of the two copies of a table, as it lies on the disk.
type replica struct {
	at, other   uint64 // sectors of this header and of the other one
	first, last uint64 // usable sectors
	disk        GUID
	arrayAt     uint64
	count, size uint32 // of the entries
	array       []byte
}

// readReplica reads and checks the copy whose header is at a sector. With an
// error in the array only, the header's values are returned with it.
func readReplica(r io.ReaderAt, at, sectors uint64) (replica, error) {
	b := make([]byte, SectorSize)
	if _, err := r.ReadAt(b, int64(at)*SectorSize); err != nil {
		return replica{}, fmt.Errorf("read sector %d: %w", at, err)
	}
	if string(b[:8]) != signature {
		return replica{}, errNoTable
	}
	le := binary.LittleEndian
	n := le.Uint32(b[12:])
	if le.Uint32(b[8:]) != revision || n < headerSize || n > SectorSize {
		return replica{}, fmt.Errorf("header at sector %d has revision %#x and %d bytes", at, le.Uint32(b[8:]), n)
	}
	sum := le.Uint32(b[16:])
	clear(b[16:20])
	if crc32.ChecksumIEEE(b[:n]) != sum {
		return replica{}, fmt.Errorf("header at sector %d: wrong checksum", at)
	}
	c := replica{
		at: le.Uint64(b[24:]), other: le.Uint64(b[32:]), first: le.Uint64(b[40:]), last: le.Uint64(b[48:]),
		disk: GUID(b[56:72]).swapped(), arrayAt: le.Uint64(b[72:]), count: le.Uint32(b[80:]), size: le.Uint32(b[84:]),
	}
	if c.at != at {
		return replica{}, fmt.Errorf("header at sector %d says it lies at %d", at, c.at)
	}
	if err := c.checkPlaces(sectors); err != nil {
		return replica{}, fmt.Errorf("header at sector %d: %w", at, err)
	}
	c.array = make([]byte, c.count*c.size)
	if _, err := r.ReadAt(c.array, int64(c.arrayAt)*SectorSize); err != nil {
		return c, fmt.Errorf("read the entries at sector %d: %w", c.arrayAt, err)
	}
	if crc32.ChecksumIEEE(c.array) != le.Uint32(b[88:]) {
		return c, fmt.Errorf("entries at sector %d: wrong checksum", c.arrayAt)
	}
	return c, nil
}

// checkPlaces refuses sizes that are no table's, and parts that would lie on
// each other or beyond the end of the disk.
func (c replica) checkPlaces(sectors uint64) error {
	if c.size < entrySize || c.size&(c.size-1) != 0 || c.count == 0 || uint64(c.size)*uint64(c.count) > maxArray {
		return fmt.Errorf("%d entries of %d bytes", c.count, c.size)
	}
	inside := func(sector uint64) bool { return c.first <= sector && sector <= c.last }
	if c.first < 2 || c.first > c.last || c.last >= sectors || inside(c.at) || inside(c.other) {
		return fmt.Errorf("usable sectors %d to %d of %d, headers at %d and %d", c.first, c.last, sectors, c.at, c.other)
	}
	end := c.arrayAt + c.arrayLen()
	before, after := end <= c.first, c.arrayAt > c.last
	if c.arrayAt < 2 || c.arrayAt >= sectors || end > sectors || (!before && !after) || (c.arrayAt <= c.at && c.at < end) {
		return fmt.Errorf("entries at sectors %d to %d of %d, usable sectors %d to %d", c.arrayAt, end-1, sectors, c.first, c.last)
	}
	return nil
}

// arrayLen is the length of the entries in sectors.
func (c replica) arrayLen() uint64 {
	return (uint64(c.count)*uint64(c.size) + SectorSize - 1) / SectorSize
}

// header is the header's sector.
func (c replica) header() []byte {
	b := make([]byte, SectorSize)
	le := binary.LittleEndian
	copy(b, signature)
	le.PutUint32(b[8:], revision)
	le.PutUint32(b[12:], headerSize)
	le.PutUint64(b[24:], c.at)
	le.PutUint64(b[32:], c.other)
	le.PutUint64(b[40:], c.first)
	le.PutUint64(b[48:], c.last)
	disk := c.disk.swapped()
	copy(b[56:], disk[:])
	le.PutUint64(b[72:], c.arrayAt)
	le.PutUint32(b[80:], c.count)
	le.PutUint32(b[84:], c.size)
	le.PutUint32(b[88:], crc32.ChecksumIEEE(c.array))
	le.PutUint32(b[16:], crc32.ChecksumIEEE(b[:headerSize]))
	return b
}

// entry is the bytes of partition number i+1.
func (c replica) entry(i int) []byte { return c.array[i*int(c.size):][:entrySize] }

func (c replica) partition(i int) Partition {
	b, le := c.entry(i), binary.LittleEndian
	if (GUID(b[0:16]) == GUID{}) {
		return Partition{}
	}
	units := make([]uint16, NameUnits)
	for k := range units {
		units[k] = le.Uint16(b[56+2*k:])
	}
	if end := slices.Index(units, 0); end >= 0 {
		units = units[:end]
	}
	return Partition{
		Type: GUID(b[0:16]).swapped(), GUID: GUID(b[16:32]).swapped(),
		First: le.Uint64(b[32:]), Last: le.Uint64(b[40:]), Attributes: le.Uint64(b[48:]),
		Name: string(utf16.Decode(units)),
	}
}

func (c replica) putPartition(i int, p Partition) {
	b, le := c.entry(i), binary.LittleEndian
	clear(b)
	kind, id := p.Type.swapped(), p.GUID.swapped()
	copy(b[0:], kind[:])
	copy(b[16:], id[:])
	le.PutUint64(b[32:], p.First)
	le.PutUint64(b[40:], p.Last)
	le.PutUint64(b[48:], p.Attributes)
	for k, u := range utf16.Encode([]rune(p.Name)) {
		le.PutUint16(b[56+2*k:], u)
	}
}

// table is what the copy says. A partition outside the usable sectors makes
// it no table: whoever writes to that partition would destroy the table.
func (c replica) table() (Table, error) {
	t := Table{DiskGUID: c.disk}
	for i := range int(c.count) {
		p := c.partition(i)
		if !p.Used() {
			continue
		}
		if p.First > p.Last || p.First < c.first || p.Last > c.last {
			return Table{}, fmt.Errorf("partition %d lies in sectors %d to %d, usable are %d to %d", i+1, p.First, p.Last, c.first, c.last)
		}
		t.Partitions = append(t.Partitions, make([]Partition, i-len(t.Partitions))...)
		t.Partitions = append(t.Partitions, p)
	}
	return t, nil
}
