package slot

import (
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/writ-os/writ/image/gpt"
	"github.com/writ-os/writ/image/slot/boot"
)

// ErrNotHere says that no disk of this machine has the running system: it was
// not started from a slot.
var ErrNotHere = errors.New("no disk has a slot with the root hash of the running system")

// Found is where the slots of this machine are.
type Found struct {
	Disk string // its device: /dev/vda
	ESP  string // the device of the EFI system partition: /dev/vda1
}

// Find looks for the disk that the running system was started from: the one of
// which a partition is named by the root hash. sys and dev are /sys and /dev.
func Find(sys, dev, commandLine string) (Found, error) {
	disk, esp, err := find(sys, dev, commandLine, func(p gpt.Partition) bool { return p.Type == gpt.TypeESP })
	return Found{Disk: disk, ESP: esp}, err
}

// FindPartition is the device of the partition with that name on the same disk;
// fs.ErrNotExist where there is none.
func FindPartition(sys, dev, commandLine, name string) (string, error) {
	_, part, err := find(sys, dev, commandLine, func(p gpt.Partition) bool { return p.Name == name })
	if errors.Is(err, ErrNotHere) {
		return "", fs.ErrNotExist
	}
	return part, err
}

// find looks for a disk with the running system, and on it for one more partition.
func find(sys, dev, commandLine string, other func(gpt.Partition) bool) (disk, part string, err error) {
	hash, err := hex.DecodeString(boot.Argument(commandLine, "roothash"))
	if err != nil || len(hash) == 0 {
		return "", "", ErrNotHere
	}
	root, _, err := gpt.VerityGUIDs(hash)
	if err != nil {
		return "", "", err
	}
	disks, err := os.ReadDir(filepath.Join(sys, "block"))
	if err != nil {
		return "", "", fmt.Errorf("list disks: %w", err)
	}
	for _, d := range disks {
		if disk, part, ok := findOn(sys, dev, d.Name(), root, other); ok {
			return disk, part, nil
		}
	}
	return "", "", ErrNotHere
}

// findOn looks at one disk. One that cannot be read is not the one that runs.
func findOn(sys, dev, name string, root gpt.GUID, other func(gpt.Partition) bool) (disk, part string, ok bool) {
	d, err := openDisk(filepath.Join(dev, name), os.O_RDONLY)
	if err != nil {
		return "", "", false
	}
	defer d.Close()
	t, err := gpt.Parse(d, d.Size())
	if err != nil {
		return "", "", false
	}
	if _, ok := t.ByGUID(root); !ok {
		return "", "", false
	}
	for i, p := range t.Partitions {
		if !p.Used() || !other(p) {
			continue
		}
		if part, ok := partitionDevice(filepath.Join(sys, "block", name), i+1); ok {
			return filepath.Join(dev, name), filepath.Join(dev, part), true
		}
	}
	return "", "", false
}

// partitionDevice is the name that the kernel gave to a partition: vda1,
// nvme0n1p1.
func partitionDevice(disk string, number int) (string, bool) {
	files, err := filepath.Glob(filepath.Join(disk, "*", "partition"))
	if err != nil {
		return "", false
	}
	for _, f := range files {
		if b, err := os.ReadFile(f); err == nil && strings.TrimSpace(string(b)) == strconv.Itoa(number) {
			return filepath.Base(filepath.Dir(f)), true
		}
	}
	return "", false
}
