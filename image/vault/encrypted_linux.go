package vault

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// Encrypted says that what is mounted at a directory lies on a LUKS volume, by
// the kernel's word: libcryptsetup begins the UUIDs of its mappings so.
func Encrypted(dir string) (bool, error) {
	var st unix.Stat_t
	if err := unix.Stat(dir, &st); err != nil {
		return false, fmt.Errorf("look at %s: %w", dir, err)
	}
	uuid, err := os.ReadFile(fmt.Sprintf("/sys/dev/block/%d:%d/dm/uuid", unix.Major(st.Dev), unix.Minor(st.Dev)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("look whether %s is encrypted: %w", dir, err)
	}
	return bytes.HasPrefix(uuid, []byte("CRYPT-LUKS2-")), nil
}
