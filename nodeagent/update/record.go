package update

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/writ-os/writ/controlplane/durable"
	"github.com/writ-os/writ/image/slot"
)

// Record is what the node must not forget when it reboots.
type Record struct {
	// Known are the digests of the bundles that slots were written from, by root
	// hash.
	Known map[string]string `json:"known,omitempty"`
	// Tried is the system that was rebooted into, until it is known how that
	// went.
	Tried *Try `json:"tried,omitempty"`
	// Failed is what failed here, until it is not wanted any more.
	Failed *Failure `json:"failed,omitempty"`
	// Damaged is a version of which this node's copy was found damaged.
	Damaged *Damage `json:"damaged,omitempty"`
}

// Try is a system that was rebooted into.
type Try struct {
	Image, Version, Digest string
	RootHash, Arguments    string
	// Reason is why it was not well the last time.
	Reason string `json:",omitempty"`
}

// Failure is an image that failed.
type Failure struct {
	Image, Digest, Arguments string
	Reason                   string
}

// is says whether this very thing failed.
func (f *Failure) is(image Image, arguments string) bool {
	return f != nil && f.Image == image.Name && f.Digest == image.Digest && f.Arguments == arguments
}

// rootHash is that of the image where a slot holds it, and "" elsewhere. A slot
// that this node has not written itself is known by its version alone.
func (r Record) rootHash(s *slot.State, i Image) string {
	found := ""
	for _, sl := range s.Slots {
		if !sl.Complete {
			continue
		}
		switch digest, known := r.Known[sl.RootHash]; {
		case known && digest == i.Digest:
			return sl.RootHash
		case !known && sl.Version == i.Version:
			found = sl.RootHash
		}
	}
	return found
}

const (
	recordFile = "record.json"
	// maxRecord bounds what is read, in bytes.
	maxRecord = 1 << 20
)

// readRecord reads the record of a directory. One that is not there, or is
// damaged, is empty: it is worth no more than a second try of what has failed.
func readRecord(dir string) (Record, error) {
	var r Record
	info, err := os.Stat(filepath.Join(dir, recordFile))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return r, nil
	case err != nil:
		return r, fmt.Errorf("read record of updates: %w", err)
	case info.Size() > maxRecord:
		return r, nil
	}
	b, err := os.ReadFile(filepath.Join(dir, recordFile))
	if err != nil {
		return r, fmt.Errorf("read record of updates: %w", err)
	}
	if json.Unmarshal(b, &r) != nil {
		return Record{}, nil
	}
	return r, nil
}

// write replaces the record; it is on the disk when it returns.
func (r Record) write(dir string) error {
	b, err := json.MarshalIndent(r, "", "  ")
	if err != nil {
		return fmt.Errorf("encode record of updates: %w", err)
	}
	err = os.MkdirAll(dir, 0o700)
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, recordFile), append(b, '\n'), 0o600)
	}
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return fmt.Errorf("write record of updates: the disk of %s is full: make room there, by removing what pods or images take", dir)
	case err != nil:
		return fmt.Errorf("write record of updates: %w", err)
	}
	return nil
}
