package settings

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/writ-os/writ/controlplane/durable"
	"github.com/writ-os/writ/nodeagent/settings/disk"
)

// Record is what the agent must not forget when it ends.
type Record struct {
	// Wanted is what was wanted last.
	Wanted Wanted `json:"wanted"`
	// Boot is the start of the machine that the rest speaks of: with the next one
	// all is as the machine has it by itself.
	Boot string `json:"boot"`
	// Sysctls are those that were set, by path.
	Sysctls map[string]Remembered `json:"sysctls,omitempty"`
	// Servers is the drop-in that systemd-timesyncd was started with.
	Servers string `json:"servers,omitempty"`
	// Disks are those that are, or were, declared, by name. They outlive a start of
	// the machine.
	Disks map[string]disk.Known `json:"disks,omitempty"`
}

// Remembered is what is known of a sysctl that was set.
type Remembered struct {
	// Before are its value and its twin's from before, by path. They are on the disk
	// before anything is set.
	Before map[string]string `json:"before"`
	// Set is the value that was set; nil until it was.
	Set *string `json:"set,omitempty"`
	// Reads is how the kernel shows it.
	Reads string `json:"reads,omitempty"`
}

const (
	recordFile = "record.json"
	// maxRecord bounds what is read, in bytes.
	maxRecord = 8 << 20
)

// readRecord reads the record of a directory, for a start of the machine. With
// an error it is empty: what was before is not known then, and nobody but the
// next start of the machine gives it back.
func readRecord(dir, boot string) (Record, error) {
	r := Record{Boot: boot}
	path := filepath.Join(dir, recordFile)
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err == nil && info.Size() > maxRecord:
		return r, fmt.Errorf("read record of settings: %s is larger than %d bytes", path, maxRecord)
	}
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &r)
	}
	if err != nil {
		return Record{Boot: boot}, fmt.Errorf("read record of settings: %w", err)
	}
	if r.Boot != boot {
		r = Record{Wanted: r.Wanted, Disks: r.Disks, Boot: boot}
	}
	return r, nil
}

// write replaces the record; it is on the disk when it returns.
func (r *Record) write(dir string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode record of settings: %w", err)
	}
	err = os.MkdirAll(dir, 0o700)
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, recordFile), append(b, '\n'), 0o600)
	}
	if err != nil {
		return fmt.Errorf("write record of settings: %w", err)
	}
	return nil
}
