package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"unsafe"

	"golang.org/x/sys/unix"
)

// growFrom is how much larger a file system must become by it to be grown, in
// bytes. The kernel leaves out the last block group where that has no room for
// its own tables, which are smaller than this: what it leaves is not asked for
// again and again.
const growFrom = 16 << 20

// resizeFS is EXT4_IOC_RESIZE_FS of the kernel's ext4.h, which takes the number
// of blocks that a mounted file system shall have.
const resizeFS = 0x40086610

// Grow lets the file system of a disk that is mounted reach up to a number of
// bytes, while it is used, and says how much room it had and has. The kernel adds
// one piece after the other, each by its journal: a file system where that was
// broken off is whole, only smaller, and is grown further the next time.
func (m *Machine) Grow(device, name string, bytes int64) (before, after int64, err error) {
	f, err := os.Open(filepath.Join(m.Mnt, name))
	if err != nil {
		return 0, 0, fmt.Errorf("open the mount of %s: %w", device, err)
	}
	defer f.Close()
	// What is mounted there no more would be /var, which is not to be grown.
	var disk, dir unix.Stat_t
	if err := errors.Join(unix.Stat(m.device(device), &disk), unix.Fstat(int(f.Fd()), &dir)); err != nil {
		return 0, 0, fmt.Errorf("look at %s and its mount: %w", device, err)
	}
	if disk.Rdev != dir.Dev {
		return 0, 0, fmt.Errorf("%s: %w", device, errChanged)
	}
	before, block, err := room(f)
	if err != nil {
		return 0, 0, err
	}
	blocks := uint64(bytes / block)
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, f.Fd(), resizeFS, uintptr(unsafe.Pointer(&blocks))); errno != 0 {
		return before, before, refused(device, errno, mayGrow())
	}
	after, _, err = room(f)
	return before, after, err
}

// room is what a file system holds, and the size of its blocks, in bytes.
func room(f *os.File) (bytes, block int64, err error) {
	var s unix.Statfs_t
	if err := unix.Fstatfs(int(f.Fd()), &s); err != nil {
		return 0, 0, fmt.Errorf("measure the file system at %s: %w", f.Name(), err)
	}
	return int64(s.Blocks) * s.Bsize, s.Bsize, nil
}

// mayGrow says whether this process has what the kernel asks for.
func mayGrow() bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	err := unix.Capget(&hdr, &data[0])
	return err == nil && data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// refused says why a file system stays as it is, and what helps.
func refused(device string, errno unix.Errno, may bool) error {
	why := ""
	switch {
	case errno == unix.EPERM && !may:
		why = "the node agent may not grow it: give it CAP_SYS_RESOURCE"
	case errno == unix.EPERM: // it lets nobody grow one with errors
		why = "the kernel has found errors in it: start the node again, which checks it"
	case errno == unix.EROFS:
		why = "it can only be read: start the node again, which checks it"
	case errno == unix.ENOTTY || errno == unix.EOPNOTSUPP:
		why = "the kernel cannot grow it while it is mounted: grow it by resize2fs on another machine"
	default:
		return fmt.Errorf("grow the file system of %s: %w", device, errno)
	}
	return fmt.Errorf("%s has become larger than its file system, which is used as it is, and %s", device, why)
}
