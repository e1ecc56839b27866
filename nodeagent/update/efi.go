package update

import (
	"encoding/binary"
	"io"
	"os"
	"path/filepath"
	"strings"
	"unicode/utf16"

	"github.com/writ-os/writ/image/slot"
)

// loaderVendor is the vendor GUID of the variables of systemd-boot
// (systemd.io/BOOT_LOADER_INTERFACE).
const loaderVendor = "4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"

// maxVariable bounds what is read of a variable, in bytes.
const maxVariable = 4 << 10

// ReadBooted says how the running system was started. efivars is where
// efivarfs is mounted, /sys/firmware/efi/efivars; a machine without it, or
// without systemd-boot, has no such variables.
func ReadBooted(efivars, commandLine string) slot.Booted {
	return slot.Booted{
		CommandLine: commandLine,
		CountPath:   variable(efivars, "LoaderBootCountPath"),
		Selected:    variable(efivars, "LoaderEntrySelected"),
	}
}

// variable reads a text: four bytes of attributes, then UTF-16.
func variable(efivars, name string) string {
	f, err := os.Open(filepath.Join(efivars, name+"-"+loaderVendor))
	if err != nil {
		return ""
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, maxVariable))
	if err != nil || len(b) < 4 {
		return ""
	}
	b = b[4:]
	units := make([]uint16, len(b)/2)
	for i := range units {
		units[i] = binary.LittleEndian.Uint16(b[2*i:])
	}
	text, _, _ := strings.Cut(string(utf16.Decode(units)), "\x00")
	return text
}
