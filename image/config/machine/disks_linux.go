package machine

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/image/slot"
)

// HardDisks are the disks of this machine, as udev and the kernel name them.
type HardDisks struct {
	// Dir is where they are mounted for the moment.
	Dir string
}

var _ Disks = HardDisks{}

const (
	sysBlock = "/sys/class/block"
	byLabel  = "/dev/disk/by-label"
	espName  = "ESP"
)

// ESP mounts the EFI system partition of the disk that the system runs from:
// another disk may have one too.
func (h HardDisks) ESP(writable bool, f func(dir string) error) error {
	device, err := espDevice(sysBlock)
	if err != nil {
		return err
	}
	flags := uintptr(slot.MountFlags | unix.MS_NOSYMFOLLOW)
	if !writable {
		flags |= unix.MS_RDONLY
	}
	return h.mounted(device, []string{"vfat"}, flags, slot.MountOptions, f)
}

// Partition is the device of the partition with a name, on the disk that the
// system runs from; fs.ErrNotExist where there is none. The partition table is
// asked: the kernel does not know the names of partitions that were made since it
// read it.
func (h HardDisks) Partition(name string) (string, error) {
	line, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return "", err
	}
	return slot.FindPartition("/sys", "/dev", string(line), name)
}

// espDevice follows the root file system's verity device to its partition, and
// finds the EFI system partition beside that.
func espDevice(sys string) (string, error) {
	below, err := filepath.Glob(filepath.Join(sys, "dm-*", "slaves", "*"))
	if err != nil {
		return "", err
	}
	for _, s := range below {
		real, err := filepath.EvalSymlinks(s)
		if err != nil {
			continue
		}
		parts, _ := filepath.Glob(filepath.Join(filepath.Dir(real), "*", "uevent")) //nolint:errcheck // the pattern is good
		for _, p := range parts {
			if b, err := os.ReadFile(p); err == nil && slices.Contains(strings.Split(string(b), "\n"), "PARTNAME="+espName) {
				return "/dev/" + filepath.Base(filepath.Dir(p)), nil
			}
		}
	}
	return "", fs.ErrNotExist
}

// Volumes lists what udev has found a label of ours on. The number of the disk
// tells one medium from the next.
func (h HardDisks) Volumes() ([]string, error) {
	entries, err := os.ReadDir(byLabel)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if l := strings.ToLower(e.Name()); l != "config" && l != "cidata" {
			continue
		}
		dev, err := filepath.EvalSymlinks(filepath.Join(byLabel, e.Name()))
		if err != nil {
			continue // it was pulled out
		}
		out = append(out, e.Name()+" "+dev+" "+diskSequence(filepath.Base(dev)))
	}
	slices.Sort(out)
	return out, nil
}

// diskSequence is a number that the kernel gives to every medium.
func diskSequence(device string) string {
	real, err := filepath.EvalSymlinks(filepath.Join(sysBlock, device))
	if err != nil {
		return ""
	}
	for _, dir := range []string{real, filepath.Dir(real)} { // the disk, or that of the partition
		if b, err := os.ReadFile(filepath.Join(dir, "diskseq")); err == nil {
			return strings.TrimSpace(string(b))
		}
	}
	return ""
}

// Volume mounts one of Volumes, to be read.
func (h HardDisks) Volume(name string, f func(dir string) error) error {
	parts := strings.Fields(name)
	if len(parts) < 2 {
		return fmt.Errorf("volume %q: %w", name, fs.ErrNotExist)
	}
	flags := uintptr(unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOSYMFOLLOW | unix.MS_RDONLY)
	return h.mounted(parts[1], []string{"vfat", "iso9660"}, flags, "", f)
}

func (h HardDisks) mounted(device string, types []string, flags uintptr, options string, f func(dir string) error) (err error) {
	if err := os.MkdirAll(h.Dir, 0o700); err != nil {
		return err
	}
	var errs []error
	for _, t := range types {
		err := unix.Mount(device, h.Dir, t, flags, options)
		if err == nil {
			break
		}
		errs = append(errs, fmt.Errorf("mount %s as %s: %w", device, t, err))
	}
	if len(errs) == len(types) {
		return errors.Join(errs...)
	}
	defer func() {
		if uerr := unix.Unmount(h.Dir, 0); uerr != nil {
			err = errors.Join(err, fmt.Errorf("unmount %s: %w", device, uerr))
		}
	}()
	return f(h.Dir)
}
