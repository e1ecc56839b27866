package volume

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// Remove unmounts all that is mounted at or below a path and removes it with
// all it holds. It never walks into a mount: what is mounted there and cannot
// be unmounted is an error, and the files behind it stay.
func Remove(path string) error {
	if err := UnmountBelow(path); err != nil {
		return err
	}
	parent, err := os.Open(filepath.Dir(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer parent.Close()
	return removeAt(int(parent.Fd()), filepath.Base(path), path)
}

// removeAt removes a name in a directory. The kernel refuses to open what lies
// on another mount, so that no mistake about what is mounted can remove the
// files of a host path.
func removeAt(parent int, name, path string) error {
	err := unix.Unlinkat(parent, name, 0)
	if err == nil || errors.Is(err, unix.ENOENT) {
		return nil
	}
	if !errors.Is(err, unix.EISDIR) && !errors.Is(err, unix.EPERM) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	fd, err := unix.Openat2(parent, name, &unix.OpenHow{
		Flags:   unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_XDEV | unix.RESOLVE_NO_SYMLINKS,
	})
	if errors.Is(err, unix.EXDEV) {
		return fmt.Errorf("remove %s: something is mounted there", path)
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	dir := os.NewFile(uintptr(fd), path)
	defer dir.Close()
	for {
		names, err := dir.Readdirnames(1024)
		for _, n := range names {
			if err := removeAt(fd, n, filepath.Join(path, n)); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return fmt.Errorf("remove %s: %w", path, err)
		}
		if _, err := dir.Seek(0, io.SeekStart); err != nil { // what was removed may hide others
			return fmt.Errorf("remove %s: %w", path, err)
		}
	}
	if err := unix.Unlinkat(parent, name, unix.AT_REMOVEDIR); err != nil && !errors.Is(err, unix.ENOENT) {
		return fmt.Errorf("remove %s: %w", path, err)
	}
	return nil
}

// UnmountBelow unmounts everything mounted at or below a path, the newest
// first, until nothing is: there may be several mounts on one place.
func UnmountBelow(path string) error {
	for {
		mounts, err := mountsBelow(path)
		if err != nil || len(mounts) == 0 {
			return err
		}
		progress := false
		for i := len(mounts) - 1; i >= 0; i-- {
			err := unix.Unmount(mounts[i], unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
			if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
				return fmt.Errorf("unmount %s: %w", mounts[i], err)
			}
			progress = progress || err == nil
		}
		if !progress {
			return fmt.Errorf("unmount %s: it stays mounted", mounts[0])
		}
	}
}

// mountsBelow lists mount points at or below a path in the order in which they
// were mounted. The kernel names them without the links by which we may reach
// them.
func mountsBelow(path string) ([]string, error) {
	parent, err := filepath.EvalSymlinks(filepath.Dir(path))
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	if err == nil {
		parent, err = filepath.Abs(parent)
	}
	if err != nil {
		return nil, err
	}
	real := filepath.Join(parent, filepath.Base(path))
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return nil, err
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) > 4 {
			if p := unescape(f[4]); p == real || strings.HasPrefix(p, real+"/") {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// unescape undoes the octal escapes of mountinfo.
func unescape(s string) string {
	return strings.NewReplacer(`\040`, " ", `\011`, "\t", `\012`, "\n", `\134`, `\`).Replace(s)
}
