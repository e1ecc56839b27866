package gpt

import (
	"errors"
	"fmt"
	"io"
)

// Parse reads the table of a disk of size bytes: the primary copy, or, where
// that one is damaged, the backup.
func Parse(r io.ReaderAt, size int64) (Table, error) {
	c, err := find(r, size)
	if err != nil {
		return Table{}, err
	}
	return c.table()
}

// find is the copy to believe. The backup is looked for where the primary's
// header says, if that much of it is whole, and then at the end of the disk: an
// image that was written to a larger disk has its backup in the middle of it.
func find(r io.ReaderAt, size int64) (replica, error) {
	if size < 3*SectorSize {
		return replica{}, fmt.Errorf("disk of %d bytes has no room for a partition table", size)
	}
	sectors := uint64(size / SectorSize)
	primary, bad := readReplica(r, 1, sectors)
	if bad == nil {
		if _, bad = primary.table(); bad == nil {
			return primary, nil
		}
	}
	ends := []uint64{sectors - 1}
	if primary.other > 1 && primary.other < sectors-1 {
		// What lies at the end may be the backup of a table that the disk had before.
		ends = []uint64{primary.other, sectors - 1}
	}
	for _, at := range ends {
		c, err := readReplica(r, at, sectors)
		if err == nil {
			_, err = c.table()
		}
		if err == nil {
			return c, nil
		}
		if !errors.Is(err, errNoTable) {
			bad = errors.Join(bad, err)
		}
	}
	return replica{}, fmt.Errorf("read partition table: %w", bad)
}
