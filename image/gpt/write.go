package gpt

import (
	"encoding/binary"
	"fmt"
	"io"
)

// Writer is a disk to write to, such as an *os.File. After Sync returns, what
// was written is on the disk even if the power fails.
type Writer interface {
	io.WriterAt
	Sync() error
}

// Device is a disk whose table is changed in place.
type Device interface {
	io.ReaderAt
	Writer
}

// Change gives a partition a new GUID and name; Number counts from 1.
type Change struct {
	Number int
	GUID   GUID
	Name   string
}

// Encode is a table for a disk of size bytes: what lies at its start
// (protective MBR, header, entries), and what lies at its very end (entries,
// header). It refuses partitions that overlap, that do not fit, or that share
// a GUID.
func (t Table) Encode(size int64) (start, end []byte, err error) {
	primary, err := t.replica(size)
	if err != nil {
		return nil, nil, err
	}
	backup := primary.mirror(primary.other - arraySectors)
	start = append(protectiveMBR(uint64(size/SectorSize)), primary.header()...)
	return append(start, primary.array...), append(backup.array, backup.header()...), nil
}

func (t Table) replica(size int64) (replica, error) {
	first, last, err := Usable(size)
	if err != nil {
		return replica{}, err
	}
	if err := t.check(first, last); err != nil {
		return replica{}, fmt.Errorf("encode partition table: %w", err)
	}
	c := replica{
		at: 1, other: uint64(size/SectorSize) - 1, first: first, last: last, disk: t.DiskGUID,
		arrayAt: 2, count: MaxPartitions, size: entrySize, array: make([]byte, MaxPartitions*entrySize),
	}
	for i, p := range t.Partitions {
		if p.Used() {
			c.putPartition(i, p)
		}
	}
	return c, nil
}

// Write puts the table on a disk of size bytes, in an order that is safe if
// the disk already has a table whose primary copy is whole: the backup first,
// then Sync, then the primary, then Sync. Until the first Sync the old primary
// is untouched; after it the backup is whole and new, so that whatever happens
// to the primary a table can be read, the old one or the new one. Within a copy
// no order is needed: its checksums make a half-written one unreadable.
func Write(w Writer, t Table, size int64) error {
	start, end, err := t.Encode(size)
	if err != nil {
		return err
	}
	if err := writeSync(w, piece{size/SectorSize*SectorSize - int64(len(end)), end}); err != nil {
		return fmt.Errorf("write backup partition table: %w", err)
	}
	if err := writeSync(w, piece{0, start}); err != nil {
		return fmt.Errorf("write partition table: %w", err)
	}
	return nil
}

// UpdatePartition changes GUIDs and names of partitions of a disk of size
// bytes, all of them or none, in both copies of the table. The copy that was
// read is the one that is written last, so that a damaged disk is repaired and
// never loses its only copy. Everything else in the table, including where its
// parts lie, stays as it is.
//
// The kernel keeps its own list of partitions, which this does not change: only
// readers of the table see the new GUIDs.
func UpdatePartition(d Device, size int64, changes ...Change) error {
	read, err := find(d, size)
	if err != nil {
		return err
	}
	if err := read.change(changes); err != nil {
		return fmt.Errorf("change partition table: %w", err)
	}
	at, err := read.otherArray(d, uint64(size/SectorSize))
	if err != nil {
		return err
	}
	for _, c := range []replica{read.mirror(at), read} {
		err := writeSync(d, piece{int64(c.arrayAt) * SectorSize, c.array}, piece{int64(c.at) * SectorSize, c.header()})
		if err != nil {
			return fmt.Errorf("write partition table at sector %d: %w", c.at, err)
		}
	}
	return nil
}

// change applies the changes to the entries.
func (c replica) change(changes []Change) error {
	t, err := c.table()
	if err != nil {
		return err
	}
	for _, ch := range changes {
		i := ch.Number - 1
		if i < 0 || i >= len(t.Partitions) || !t.Partitions[i].Used() {
			return fmt.Errorf("there is no partition %d", ch.Number)
		}
		if err := checkName(ch.Name); err != nil {
			return fmt.Errorf("partition %d: %w", ch.Number, err)
		}
		t.Partitions[i].GUID, t.Partitions[i].Name = ch.GUID, ch.Name
		c.putPartition(i, t.Partitions[i])
	}
	for _, ch := range changes {
		if ch.GUID.IsZero() {
			return fmt.Errorf("partition %d cannot be without a GUID", ch.Number)
		}
		for i, p := range t.Partitions {
			if p.Used() && p.GUID == ch.GUID && i+1 != ch.Number {
				return fmt.Errorf("partition %d cannot have GUID %s: partition %d has it", ch.Number, ch.GUID, i+1)
			}
		}
	}
	return nil
}

// otherArray is the sector of the entries of the other copy: where they are, or,
// if that copy is damaged, where the specification's readers expect them.
func (c replica) otherArray(r io.ReaderAt, sectors uint64) (uint64, error) {
	if c.other == 0 || c.other == c.at || c.other >= sectors {
		return 0, fmt.Errorf("the other copy of the partition table is at sector %d of %d: the disk was cut off, or the table is damaged", c.other, sectors)
	}
	if o, _ := readReplica(r, c.other, sectors); o.count == c.count && o.size == c.size {
		return o.arrayAt, nil
	}
	at := uint64(2)
	if c.at < c.other {
		at = c.other - c.arrayLen()
	}
	if err := c.mirror(at).checkPlaces(sectors); err != nil {
		return 0, fmt.Errorf("the other copy of the partition table has no room: %w", err)
	}
	return at, nil
}

// mirror is the same table as the other copy, its entries at a sector.
func (c replica) mirror(arrayAt uint64) replica {
	c.at, c.other, c.arrayAt = c.other, c.at, arrayAt
	return c
}

// piece is bytes and where on the disk they go.
type piece struct {
	offset int64
	b      []byte
}

func writeSync(w Writer, pieces ...piece) error {
	for _, p := range pieces {
		if _, err := w.WriteAt(p.b, p.offset); err != nil {
			return err
		}
	}
	return w.Sync()
}

// protectiveMBR covers the disk with one partition of type 0xEE, so that tools
// that know no GPT see no free space. The kernel reads a GPT only behind it.
func protectiveMBR(sectors uint64) []byte {
	b := make([]byte, SectorSize)
	e := b[446:]
	copy(e, []byte{0x00, 0x00, 0x02, 0x00, 0xee, 0xff, 0xff, 0xff})
	binary.LittleEndian.PutUint32(e[8:], 1)
	binary.LittleEndian.PutUint32(e[12:], uint32(min(sectors-1, 0xffffffff)))
	b[510], b[511] = 0x55, 0xaa
	return b
}
