package pack

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/go-git/go-git/v5/plumbing/format/idxfile"

	"github.com/writ-os/writ/controlplane/durable"
)

// ReadIndex reads the index of a pack; base is the path without suffix.
func ReadIndex(base string) (*idxfile.MemoryIndex, error) {
	f, err := os.Open(base + ".idx")
	if err != nil {
		return nil, fmt.Errorf("read index: %w", err)
	}
	index := idxfile.NewMemoryIndex()
	if err := errors.Join(idxfile.NewDecoder(bufio.NewReader(f)).Decode(index), f.Close()); err != nil {
		return nil, fmt.Errorf("read index %s: %w", filepath.Base(base), err)
	}
	return index, nil
}

// WriteIndex writes the index of a pack, through to the disk.
func WriteIndex(path string, index *idxfile.MemoryIndex) error {
	f, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	b := bufio.NewWriter(f)
	_, err = idxfile.NewEncoder(b).Encode(index)
	if err = errors.Join(err, b.Flush(), f.Sync(), f.Close()); err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	return nil
}

// Place moves a finished pack and its index to base, a path without suffix, in
// the same file system. The index goes first: a pack counts once both are
// there, and readers look for the pack. Rename replaces a hard link to the
// same pack, never its content.
func Place(pack, index, base string) error {
	if err := os.Rename(index, base+".idx"); err != nil {
		return fmt.Errorf("place pack: %w", err)
	}
	if err := os.Rename(pack, base+".pack"); err != nil {
		return fmt.Errorf("place pack: %w", err)
	}
	if err := durable.Sync(filepath.Dir(base)); err != nil {
		return fmt.Errorf("place pack: %w", err)
	}
	return nil
}
