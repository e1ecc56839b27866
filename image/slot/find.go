package slot

import (
	"encoding/hex"
	"errors"
	"fmt"
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
	hash, err := hex.DecodeString(boot.Argument(commandLine, "roothash"))
	if err != nil || len(hash) == 0 {
		return Found{}, ErrNotHere
	}
	root, _, err := gpt.VerityGUIDs(hash)
	if err != nil {
		return Found{}, err
	}
	disks, err := os.ReadDir(filepath.Join(sys, "block"))
	if err != nil {
		return Found{}, fmt.Errorf("list disks: %w", err)
	}
	for _, d := range disks {
		if at, ok := findOn(sys, dev, d.Name(), root); ok {
			return at, nil
		}
	}
	return Found{}, ErrNotHere
}

// findOn looks at one disk. One that cannot be read is not the one that runs.
func findOn(sys, dev, name string, root gpt.GUID) (Found, bool) {
	d, err := openDisk(filepath.Join(dev, name), os.O_RDONLY)
	if err != nil {
		return Found{}, false
	}
	defer d.Close()
	t, err := gpt.Parse(d, d.Size())
	if err != nil {
		return Found{}, false
	}
	if _, ok := t.ByGUID(root); !ok {
		return Found{}, false
	}
	for i, p := range t.Partitions {
		if p.Type != gpt.TypeESP {
			continue
		}
		if part, ok := partitionDevice(filepath.Join(sys, "block", name), i+1); ok {
			return Found{Disk: filepath.Join(dev, name), ESP: filepath.Join(dev, part)}, true
		}
	}
	return Found{}, false
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
