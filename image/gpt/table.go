package gpt

import (
	"fmt"
	"slices"
	"unicode/utf16"
)

const (
	// SectorSize is the unit of every LBA in this package, in bytes.
	SectorSize = 512
	// MaxPartitions is how many partitions a table of this package has room for.
	MaxPartitions = 128
	// NameUnits is how many UTF-16 units a partition's name may have.
	NameUnits = 36

	// ReadOnly is the attribute that the Discoverable Partitions Specification
	// gives a partition to be mounted read-only.
	ReadOnly uint64 = 1 << 60
	// NoAuto is the attribute that keeps a partition from being mounted by itself.
	NoAuto uint64 = 1 << 63
	// GrowFS is the attribute of a file system to be grown to its partition.
	GrowFS uint64 = 1 << 59

	entrySize    = 128
	arraySectors = MaxPartitions * entrySize / SectorSize
)

// Table is a partition table. Partitions[i] is partition number i+1; an entry
// with a zero Type is an unused number.
type Table struct {
	DiskGUID   GUID
	Partitions []Partition
}

// Partition is one entry; First and Last are sectors, both inclusive.
type Partition struct {
	Type, GUID  GUID
	Name        string
	First, Last uint64
	Attributes  uint64
}

// Used says whether the entry stands for a partition.
func (p Partition) Used() bool { return !p.Type.IsZero() }

// Offset is where the partition begins on the disk, in bytes.
func (p Partition) Offset() int64 { return int64(p.First) * SectorSize }

// Size is the length of the partition in bytes.
func (p Partition) Size() int64 { return int64(p.Last-p.First+1) * SectorSize }

// ByGUID is the number (from 1) of the partition with that GUID.
func (t Table) ByGUID(g GUID) (number int, ok bool) {
	i := slices.IndexFunc(t.Partitions, func(p Partition) bool { return p.Used() && p.GUID == g })
	return i + 1, i >= 0
}

// Usable is the range of sectors that partitions of a disk of size bytes may
// lie in, both inclusive: what the two copies of the table leave.
func Usable(size int64) (first, last uint64, err error) {
	sectors := size / SectorSize
	if sectors < 2*(arraySectors+1)+2 {
		return 0, 0, fmt.Errorf("disk of %d bytes has no room for a partition table", size)
	}
	return arraySectors + 2, uint64(sectors) - arraySectors - 2, nil
}

// check refuses a table that firmware or kernel would read differently.
func (t Table) check(first, last uint64) error {
	if t.DiskGUID.IsZero() {
		return fmt.Errorf("the disk has no GUID")
	}
	if len(t.Partitions) > MaxPartitions {
		return fmt.Errorf("%d partitions, a table holds %d", len(t.Partitions), MaxPartitions)
	}
	seen := map[GUID]int{}
	var used []int
	for i, p := range t.Partitions {
		if !p.Used() {
			continue
		}
		switch other, double := seen[p.GUID]; {
		case p.GUID.IsZero():
			return fmt.Errorf("partition %d has no GUID", i+1)
		case double:
			return fmt.Errorf("partitions %d and %d have the same GUID %s", other, i+1, p.GUID)
		case p.First > p.Last || p.First < first || p.Last > last:
			return fmt.Errorf("partition %d lies in sectors %d to %d, the disk has %d to %d for partitions", i+1, p.First, p.Last, first, last)
		}
		if err := checkName(p.Name); err != nil {
			return fmt.Errorf("partition %d: %w", i+1, err)
		}
		seen[p.GUID] = i + 1
		used = append(used, i)
	}
	slices.SortFunc(used, func(a, b int) int {
		if t.Partitions[a].First < t.Partitions[b].First {
			return -1
		}
		return 1
	})
	for k := 1; k < len(used); k++ {
		if a, b := used[k-1], used[k]; t.Partitions[a].Last >= t.Partitions[b].First {
			return fmt.Errorf("partitions %d and %d overlap", a+1, b+1)
		}
	}
	return nil
}

// checkName refuses what would come back from the disk as another name.
func checkName(name string) error {
	units := utf16.Encode([]rune(name))
	if len(units) > NameUnits {
		return fmt.Errorf("name %q has %d UTF-16 units, the table has room for %d", name, len(units), NameUnits)
	}
	if slices.Contains(units, 0) || string(utf16.Decode(units)) != name {
		return fmt.Errorf("name %q cannot be written as UTF-16", name)
	}
	return nil
}
