package slot

import (
	"io"

	"github.com/writ-os/writ/image/gpt"
)

// Device is the disk that the slots are on. What was written is on the disk
// when Sync has returned; what is read after that comes from the disk, and not
// from a memory of what was written.
type Device interface {
	gpt.Device
	Size() int64 // in bytes
}

// ESP is the directory EFI/Linux of the EFI system partition. Names are paths
// below it, with slashes. Renaming and removing last when Sync has returned.
type ESP interface {
	// List returns the names of all files.
	List() ([]string, error)
	// Open reads a file.
	Open(name string) (File, error)
	// Create writes a file and its directory; the content lasts when it returns.
	Create(name string, r io.Reader) error
	// Rename gives a file another name in the same directory.
	Rename(from, to string) error
	// Remove removes a file, and its directory when that becomes empty.
	Remove(name string) error
	Sync() error
}

// File is a file of an ESP that is read.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

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

// Slots acts on the slots of this machine.
type Slots struct {
	Device Device
	ESP    ESP
	Booted Booted
	// Addon makes the PE file by which a UKI is given more kernel arguments.
	Addon func(arguments string) ([]byte, error)
}
