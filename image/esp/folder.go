package esp

import (
	"fmt"
	"io/fs"
	"strings"
)

// folder is the content of a folder, read.
type folder struct {
	clusters []uint32
	entries  []entry
	slots    []bool // which of them are used
	end      int    // the first slot that was never used
}

func (v *volume) readFolder(first uint32) (folder, error) {
	clusters, err := v.chain(first, maxFolder)
	if err != nil {
		return folder{}, err
	}
	b, err := v.readChain(clusters)
	if err != nil {
		return folder{}, err
	}
	f := folder{clusters: clusters, slots: make([]bool, len(b)/entrySize)}
	f.entries, f.end = decodeFolder(b)
	for i := range f.end {
		f.slots[i] = b[i*entrySize] != slotFree
	}
	return f, nil
}

func (f folder) entry(name string) (entry, bool) {
	for _, e := range f.entries {
		if strings.EqualFold(e.name, name) || strings.EqualFold(decodeShort(e.short, 0), name) {
			return e, true
		}
	}
	return entry{}, false
}

// slotAt is where a slot of a folder lies in the image.
func (v *volume) slotAt(f folder, slot int) int64 {
	at := int64(slot) * entrySize
	return v.clusterAt(f.clusters[at/v.clusterSize]) + at%v.clusterSize
}

// find is the file or folder of a path.
func (v *volume) find(names []string) (entry, error) {
	at := entry{attributes: attrFolder, cluster: v.root}
	for _, name := range names {
		if !at.folder() {
			return entry{}, fs.ErrNotExist
		}
		f, err := v.readFolder(at.cluster)
		if err != nil {
			return entry{}, err
		}
		e, ok := f.entry(name)
		if !ok || name == "." || name == ".." {
			return entry{}, fs.ErrNotExist
		}
		at = e
	}
	return at, nil
}

// enter is the first cluster of a folder in a folder; it is made if it is not
// there.
func (v *volume) enter(parent uint32, name string) (uint32, error) {
	f, err := v.readFolder(parent)
	if err != nil {
		return 0, err
	}
	if e, ok := f.entry(name); ok {
		if !e.folder() {
			return 0, fmt.Errorf("%s is a file, not a folder", name)
		}
		return e.cluster, nil
	}
	up := parent
	if up == v.root {
		up = 0 // so it is written, wherever the root is
	}
	content := make([]byte, v.clusterSize)
	clusters, err := v.allocate(1)
	if err != nil {
		return 0, err
	}
	copy(content, encodeEntry([11]byte([]byte(".          ")), attrFolder, clusters[0], 0))
	copy(content[entrySize:], encodeEntry([11]byte([]byte("..         ")), attrFolder, up, 0))
	if _, err := v.w.WriteAt(content, v.clusterAt(clusters[0])); err != nil {
		return 0, fmt.Errorf("write folder %s: %w", name, err)
	}
	if err := v.flush(); err != nil {
		return 0, err
	}
	return clusters[0], v.insert(f, name, attrFolder, clusters[0], 0)
}

// insert writes a new entry into a folder, which grows for it if it must.
func (v *volume) insert(f folder, name string, attributes byte, cluster, size uint32) error {
	short, whole := shortName(name, f.entries)
	var b []byte
	if !whole {
		b = encodeName(name, short)
	}
	b = append(b, encodeEntry(short, attributes, cluster, size)...)
	n := len(b) / entrySize
	at := f.room(n)
	for at+n > len(f.slots) {
		if err := v.grow(&f); err != nil {
			return err
		}
	}
	// Behind the last slot ever used there may be anything; mark the new end first.
	if at+n > f.end && at+n < len(f.slots) {
		if _, err := v.w.WriteAt([]byte{slotEnd}, v.slotAt(f, at+n)); err != nil {
			return fmt.Errorf("write entry: %w", err)
		}
	}
	// The short entry comes last, and with it the file is there.
	for i := range n {
		if _, err := v.w.WriteAt(b[i*entrySize:][:entrySize], v.slotAt(f, at+i)); err != nil {
			return fmt.Errorf("write entry: %w", err)
		}
	}
	return nil
}

// room is the first of n free slots in a row; at the end there may be fewer.
func (f folder) room(n int) int {
	run := 0
	for i, used := range f.slots {
		if run++; used {
			run = 0
		} else if run == n {
			return i - n + 1
		}
	}
	return len(f.slots) - run
}

// grow appends an empty cluster to a folder.
func (v *volume) grow(f *folder) error {
	if int64(len(f.clusters)+1)*v.clusterSize > maxFolder {
		return fmt.Errorf("the folder is full")
	}
	more, err := v.allocate(1)
	if err != nil {
		return err
	}
	if _, err := v.w.WriteAt(make([]byte, v.clusterSize), v.clusterAt(more[0])); err != nil {
		return fmt.Errorf("write folder: %w", err)
	}
	v.set(f.clusters[len(f.clusters)-1], more[0])
	f.clusters = append(f.clusters, more[0])
	f.slots = append(f.slots, make([]bool, v.clusterSize/entrySize)...)
	return v.flush()
}
