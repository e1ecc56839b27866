package slot

import (
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Disk is a block device, or the file of a disk image.
type Disk struct {
	f    *os.File
	size int64
}

var _ Device = (*Disk)(nil)

// OpenDisk opens the whole disk that the slots are on. Its partitions may be in
// use: the kernel keeps what it has read of them apart from what it has read
// of the disk, and nobody uses the ones that are written.
func OpenDisk(path string) (*Disk, error) { return openDisk(path, os.O_RDWR) }

func openDisk(path string, flag int) (*Disk, error) {
	f, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, fmt.Errorf("open disk: %w", err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, fmt.Errorf("open disk: %w", errors.Join(err, f.Close()))
	}
	return &Disk{f, size}, nil
}

// ReadAt implements Device.
func (d *Disk) ReadAt(p []byte, off int64) (int, error) { return d.f.ReadAt(p, off) }

// WriteAt implements Device.
func (d *Disk) WriteAt(p []byte, off int64) (int, error) { return d.f.WriteAt(p, off) }

// Size implements Device.
func (d *Disk) Size() int64 { return d.size }

// Sync implements Device. What the kernel keeps in memory of the disk is
// dropped, so that reading it back proves something.
func (d *Disk) Sync() error {
	if err := d.f.Sync(); err != nil {
		return err
	}
	return unix.Fadvise(int(d.f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// Close ends it.
func (d *Disk) Close() error { return d.f.Close() }
