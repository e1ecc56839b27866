//go:build linux

package main

import (
	"encoding/hex"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"github.com/writ-os/writ/image/verity/superblock"
)

// tableLine is what dm-verity is told: format, devices, block sizes, number of
// blocks, where the tree begins, hash, salt. A block that does not verify stops the
// machine, since reading on would run what nobody signed; panic=10 then starts it
// again, and the boot loader counts. After the kernel's
// Documentation/admin-guide/device-mapper/verity.rst.
func tableLine(sb superblock.Superblock, p pair, hash string) string {
	salt := "-"
	if len(sb.Salt) > 0 {
		salt = hex.EncodeToString(sb.Salt)
	}
	return fmt.Sprintf("1 %s %s %d %d %d 1 %s %s %s 1 panic_on_corruption",
		p.data, p.tree, superblock.BlockSize, superblock.BlockSize, sb.DataBlocks, superblock.Algorithm, hash, salt)
}

// createVerity makes the device and returns its path.
func createVerity(sb superblock.Superblock, p pair, hash string) (string, error) {
	control, err := openControl()
	if err != nil {
		return "", err
	}
	defer control.close()
	// The name and UUID are those that systemd's veritysetup gives to a root.
	minor, err := control.create("root", "CRYPT-VERITY-"+hash[:32]+"-root")
	if err != nil {
		return "", err
	}
	sectors := sb.DataBlocks * superblock.BlockSize / 512
	if err := control.load("root", "verity", sectors, tableLine(sb, p, hash)); err != nil {
		return "", err
	}
	if err := control.resume("root"); err != nil {
		return "", err
	}
	return "/dev/dm-" + strconv.Itoa(int(minor)), nil
}

// readAhead is how much around a page that a program needs is read, and hashed,
// with it, in KiB. What is not needed stays in memory all the same: a sixteenth of
// the kernel's 128 takes a quarter less memory on a worker than 32, and no time.
const readAhead = "8"

// limitReadAhead sets it; a machine starts without, too.
func limitReadAhead(device string) {
	if err := os.WriteFile("/sys/block/"+filepath.Base(device)+"/bdi/read_ahead_kb", []byte(readAhead), 0o644); err != nil { //nolint:gosec // the kernel's file
		say("cannot say how much of the root file system is read ahead: %v", err)
	}
}
