package slot

import (
	"io"

	"github.com/writ-os/writ/image/gpt"
	"github.com/writ-os/writ/image/slot/boot"
	"github.com/writ-os/writ/image/slot/note"
)

// Device is the disk that the slots are on. What was written is on the disk
// when Sync has returned; what is read after that comes from the disk, and not
// from a memory of what was written.
type Device interface {
	gpt.Device
	Size() int64 // in bytes
}

// What package boot has, and whoever works with slots needs.
type (
	// ESP is the directory EFI/Linux of the EFI system partition.
	ESP = boot.ESP
	// Dir is the one of an ESP that is mounted.
	Dir = boot.Dir
	// Entry is a UKI that the loader sees.
	Entry = boot.Entry
)

// How an ESP is to be mounted.
const (
	MountOptions = boot.MountOptions
	MountFlags   = boot.MountFlags
)

// OpenDir opens EFI/Linux of the ESP that is mounted at a path.
func OpenDir(mount string) (*Dir, error) { return boot.OpenDir(mount) }

// Booted is what is known of the system that runs.
type Booted struct {
	// CommandLine is /proc/cmdline.
	CommandLine string
	// CountPath and Selected are the EFI variables LoaderBootCountPath and
	// LoaderEntrySelected: the entry on trial, by its name after the loader has
	// counted, and the entry that was chosen, by its name before. Both are empty
	// where there is no systemd-boot.
	CountPath, Selected string
}

// treePart is the hash partition of a slot.
type treePart struct {
	Device
	partition
}

var _ note.Part = treePart{}

func (p treePart) Size() int64 { return p.size }
func (p treePart) ReadAt(b []byte, off int64) (int, error) {
	return p.section(p.Device).ReadAt(b, off)
}
func (p treePart) WriteAt(b []byte, off int64) (int, error) {
	if off < 0 || off+int64(len(b)) > p.size {
		return 0, io.ErrShortWrite
	}
	return p.Device.WriteAt(b, p.offset+off)
}

// Slots acts on the slots of this machine.
type Slots struct {
	Device Device
	ESP    ESP
	Booted Booted
	// Addon makes the PE file by which a UKI is given more kernel arguments.
	Addon func(arguments string) ([]byte, error)
	// Accepts says why the firmware would not start a UKI; nil accepts all.
	Accepts func(uki []byte) error
}
