//go:build linux

package main

import (
	"slices"
	"strconv"
	"strings"

	"github.com/writ-os/writ/image/gpt"
)

// disk is a whole disk that has a partition table.
type disk struct {
	name  string // as in /sys/block
	table gpt.Table
}

// pair is the two devices of one root file system.
type pair struct {
	data, tree string
	disk       disk // that they are on
}

// choosePair finds the pair by its GUIDs. Both must be on one disk: halves of two
// disks are no image. Of several disks with the same image, as after copying one
// to another, the first by name is taken: which it is makes no difference to what
// runs, the hash is the same.
func choosePair(disks []disk, data, tree gpt.GUID) (pair, bool) {
	slices.SortFunc(disks, func(a, b disk) int { return strings.Compare(a.name, b.name) })
	for _, d := range disks {
		i, okData := d.table.ByGUID(data)
		j, okTree := d.table.ByGUID(tree)
		if okData && okTree {
			return pair{partitionDevice(d.name, i), partitionDevice(d.name, j), d}, true
		}
	}
	return pair{}, false
}

// partitionDevice is the kernel's name of a partition: nvme0n1p2, but sda2.
func partitionDevice(disk string, number int) string {
	if last := disk[len(disk)-1]; last >= '0' && last <= '9' {
		disk += "p"
	}
	return "/dev/" + disk + strconv.Itoa(number)
}

// mayHoldImage leaves out block devices that are no disks.
func mayHoldImage(name string) bool {
	for _, prefix := range []string{"loop", "ram", "zram", "dm-", "md", "sr", "fd", "nbd"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	return name != ""
}
