//go:build linux

// Command init is the first program of a node, PID 1 of the initrd: it loads the
// modules that the machine's devices need, finds the root file system by the root hash of the
// kernel's command line, has the kernel verify it, and hands over to systemd.
//
// It owns the machine until then. It promises that nothing runs from a root file
// system which the root hash does not stand for, that it says in one sentence
// what it waits for or why it cannot go on, and that it then restarts the machine,
// so that the boot loader can try the other image. A root file system that turns
// out to be damaged gives way to that of the other slot; see package guard.
//
// It is small because every byte of it is read by firmware: it imports
// golang.org/x/sys/unix and the packages that know what lies on the disk.
package main

import (
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/image/vault/mark"
	"github.com/writ-os/writ/image/verity/superblock"
)

const (
	waitForDisk = 30 * time.Second
	beforeBoot  = 10 * time.Second // how long a failure can be read
	sysroot     = "/sysroot"
)

func main() {
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "this is the first program of a node; it runs in an initrd only")
		os.Exit(1)
	}
	defer func() {
		if r := recover(); r != nil {
			fail(fmt.Errorf("the initrd has a bug (%v); please report it", r))
		}
	}()
	// Exec replaces this program; it returns only with an error.
	fail(start())
}

// start goes from an empty machine to systemd.
func start() error {
	if err := mountKernelFilesystems(); err != nil {
		return err
	}
	text, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return fmt.Errorf("read the kernel's command line: %w", err)
	}
	opts, err := parseCmdline(string(text))
	if err != nil {
		return err
	}
	modules, err := newLoader()
	if err != nil {
		return err
	}
	modules.always()
	pair, err := waitForPair(opts, modules)
	if err != nil {
		return err
	}
	if err := look(pair, opts, modules); err != nil {
		return err
	}
	device, err := openVerity(pair, opts)
	if err != nil {
		return err
	}
	limitReadAhead(device)
	if err := unix.Mount(device, sysroot, "erofs", unix.MS_RDONLY, ""); err != nil {
		return fmt.Errorf("mount the verified root file system on %s as erofs: %w; write the image to the disk again", pair.data, err)
	}
	say("root file system %s on %s is mounted", opts.hash, pair.data)
	identify(pair.disk.table)
	if err := markEncryption(credentialsDir, mark.Path, pair.disk.table); err != nil {
		return err
	}
	return switchRoot(opts.init)
}

// openVerity has the kernel make a verified device of the pair.
func openVerity(p pair, opts options) (string, error) {
	head := make([]byte, superblock.Size)
	f, err := os.Open(p.tree)
	if err != nil {
		return "", fmt.Errorf("open the hash tree: %w", err)
	}
	defer f.Close()
	if _, err := f.ReadAt(head, 0); err != nil {
		return "", fmt.Errorf("read the hash tree on %s: %w; check the disk", p.tree, err)
	}
	sb, err := superblock.Parse(head)
	if err != nil {
		return "", fmt.Errorf("%s: %w; write the image to the disk again", p.tree, err)
	}
	device, err := createVerity(sb, p, opts.hash)
	if err != nil {
		return "", fmt.Errorf("verify the root file system on %s: %w; check that the kernel has dm-verity and SHA-256", p.data, err)
	}
	return device, nil
}
