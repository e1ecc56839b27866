package disk

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// errChanged says that a disk is not any more what was decided about.
var errChanged = errors.New("it has changed meanwhile, and is left as it is")

// Begin marks a disk, which is blank or has the mark of this format already. The
// record of the node must have the UUID by then.
func (m *Machine) Begin(device, id string) error {
	return m.write(device, func(f *os.File, size int64) error {
		c, err := ReadContent(f, size)
		if err != nil {
			return err
		}
		if c.Kind != Blank && c.Mark != id {
			return errChanged
		}
		_, err = f.WriteAt(mark(id), markAt(size))
		return err
	})
}

// Make makes the file system, on a disk that has the mark.
func (m *Machine) Make(ctx context.Context, device, name, id string) error {
	var blocks int64
	err := m.write(device, func(f *os.File, size int64) error {
		c, err := ReadContent(f, size)
		if err == nil && c.Mark != id {
			err = errChanged
		}
		blocks = markAt(size) / 4096
		return err
	})
	if err != nil {
		return err
	}
	return run(ctx, 0, "mke2fs", "-q", "-t", "ext4", "-b", "4096", "-m", "0", "-L", v1alpha1.DiskLabel(name), "-U", id, m.device(device), strconv.FormatInt(blocks, 10))
}

// End takes the mark away, from a disk with the file system that was made: from
// then on it is in force.
func (m *Machine) End(device, id string) error {
	return m.write(device, func(f *os.File, size int64) error {
		c, err := ReadContent(f, size)
		if err != nil {
			return err
		}
		if c.Kind != Ext4 || c.UUID != id || c.Mark != id {
			return errChanged
		}
		if err := f.Sync(); err != nil { // all that mke2fs wrote
			return err
		}
		_, err = f.WriteAt(make([]byte, markSize), markAt(size))
		return err
	})
}

// write does something to a disk that nobody else has meanwhile; it is on the
// disk when it returns.
func (m *Machine) write(device string, do func(f *os.File, size int64) error) error {
	f, err := os.OpenFile(m.device(device), os.O_RDWR|unix.O_EXCL, 0)
	if err != nil {
		return fmt.Errorf("open %s: %w", device, err)
	}
	defer f.Close()
	size, err := f.Seek(0, 2)
	if err == nil {
		err = do(f, size)
	}
	if err == nil {
		err = f.Sync()
	}
	if err != nil {
		return fmt.Errorf("%s: %w", device, err)
	}
	return nil
}

// Mount checks the file system of a disk and mounts it on a directory, which must
// be empty. Nothing can be written to that below the disk, so that nobody takes
// it for the disk.
func (m *Machine) Mount(ctx context.Context, device, name string) error {
	at := filepath.Join(m.Mnt, name)
	if err := os.MkdirAll(at, 0o755); err != nil { //nolint:gosec // who runs in pods decides about what is in it
		return fmt.Errorf("make %s: %w", at, err)
	}
	switch files, err := os.ReadDir(at); {
	case err != nil:
		return fmt.Errorf("look into %s: %w", at, err)
	case len(files) > 0:
		return fmt.Errorf("%s is not empty, and a disk there would hide %s: move it away", v1alpha1.DiskPath(name), files[0].Name())
	}
	if err := immutable(at); err != nil {
		return fmt.Errorf("keep %s empty: %w", at, err)
	}
	// 1: something was repaired. Pods that still have it are no reason to check it.
	if f, err := os.OpenFile(m.device(device), os.O_RDONLY|unix.O_EXCL, 0); err == nil {
		_ = f.Close()
		if err := run(ctx, 1, "e2fsck", "-p", m.device(device)); err != nil {
			return err
		}
	}
	if err := unix.Mount(m.device(device), at, "ext4", 0, ""); err != nil {
		return fmt.Errorf("mount %s at %s: %w", device, at, err)
	}
	return nil
}

// immutableFlag is FS_IMMUTABLE_FL of linux/fs.h.
const immutableFlag = 0x10

// immutable lets nobody write into a directory; file systems that cannot do so
// are left alone.
func immutable(dir string) error {
	f, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer f.Close()
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	if err == nil {
		err = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags|immutableFlag))
	}
	if errors.Is(err, unix.ENOTTY) || errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.EPERM) {
		return nil
	}
	return err
}

// Unmount lets go of a disk, if no process of the machine uses it.
func (m *Machine) Unmount(name string) error {
	at := filepath.Join(m.Mnt, name)
	switch err := unix.Unmount(at, 0); {
	case errors.Is(err, unix.EBUSY):
		return fmt.Errorf("it is not declared any more, and in use at %s: it is unmounted when that ends", v1alpha1.DiskPath(name))
	case err != nil && !errors.Is(err, unix.EINVAL): // it is mounted no more
		return fmt.Errorf("unmount %s: %w", at, err)
	}
	return nil
}

// run runs a program that may end with a status up to good.
func run(ctx context.Context, good int, program string, args ...string) error {
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.Env = append(os.Environ(), "LC_ALL=C", "PATH=/usr/sbin:/usr/bin:/sbin:/bin")
	if path, err := exec.LookPath("/usr/sbin/" + program); err == nil {
		cmd.Path = path
	}
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() >= 0 && exit.ExitCode() <= good {
		return nil
	}
	if err != nil {
		said := strings.Join(strings.Fields(string(out)), " ")
		return fmt.Errorf("%s: %w: %s", program, err, said[:min(len(said), 300)])
	}
	return nil
}
