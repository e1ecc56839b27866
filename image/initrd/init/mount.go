//go:build linux

package main

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// kernelFilesystems are what systemd expects to find mounted.
var kernelFilesystems = []struct {
	kind, target, options string
	flags                 uintptr
}{
	{"devtmpfs", "/dev", "mode=0755", unix.MS_NOSUID},
	{"proc", "/proc", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	{"sysfs", "/sys", "", unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC},
	{"tmpfs", "/run", "mode=0755", unix.MS_NOSUID | unix.MS_NODEV},
}

func mountKernelFilesystems() error {
	for _, m := range kernelFilesystems {
		err := unix.Mount(m.kind, m.target, m.kind, m.flags, m.options)
		if err != nil && err != unix.EBUSY { // the kernel may have mounted /dev
			return fmt.Errorf("mount %s on %s: %w", m.kind, m.target, err)
		}
	}
	return nil
}

// switchRoot makes the mounted root the root of all, and becomes its init.
func switchRoot(init string) error {
	for _, m := range kernelFilesystems {
		if err := unix.Mount(m.target, sysroot+m.target, "", unix.MS_MOVE, ""); err != nil {
			return fmt.Errorf("move %s into the root file system: %w; the image has no such folder, build it again", m.target, err)
		}
	}
	// The initrd stays in memory until the next boot; what is large goes now.
	_ = os.RemoveAll("/modules")
	_ = os.Remove("/init")
	if err := unix.Chdir(sysroot); err != nil {
		return fmt.Errorf("enter the root file system: %w", err)
	}
	if err := unix.Mount(".", "/", "", unix.MS_MOVE, ""); err != nil {
		return fmt.Errorf("move the root file system to its place: %w", err)
	}
	if err := unix.Chroot("."); err != nil {
		return fmt.Errorf("enter the root file system: %w", err)
	}
	if err := unix.Chdir("/"); err != nil {
		return fmt.Errorf("enter the root file system: %w", err)
	}
	err := unix.Exec(init, []string{init}, []string{"PATH=/usr/bin:/usr/sbin", "TERM=linux"})
	return fmt.Errorf("start %s: %w; the image is not whole, build it again", init, err)
}
