package esp

import (
	"fmt"
	"io"
	"strings"

	"github.com/writ-os/writ/image/gpt"
)

// Locate is where the ESP of a disk image of size bytes lies, and how long it is,
// in bytes.
func Locate(image io.ReaderAt, size int64) (offset, length int64, err error) {
	table, err := gpt.Parse(image, size)
	if err != nil {
		return 0, 0, fmt.Errorf("find the EFI system partition: %w", err)
	}
	for _, p := range table.Partitions {
		if p.Type == gpt.TypeESP {
			return p.Offset(), p.Size(), nil
		}
	}
	return 0, 0, fmt.Errorf("find the EFI system partition: the disk has none")
}

// Put writes a file into the ESP of size bytes at offset of an image, in place of one that is
// there, and makes the folders that its path needs. Names differ by more than
// their case. The data is written first, then the table, then the entry, and only
// then the old data is overwritten and given up: whenever the writing stops, the
// old or the new file is there whole.
func Put(image Image, offset, size int64, path string, data []byte) error {
	v, err := open(image, image, offset, size)
	if err == nil {
		err = v.put(path, data)
	}
	if err != nil {
		return fmt.Errorf("put %s into the EFI system partition: %w", path, err)
	}
	return nil
}

// Get reads a file from the ESP of size bytes at offset of an image. An error that wraps
// fs.ErrNotExist says that there is none.
func Get(image io.ReaderAt, offset, size int64, path string) ([]byte, error) {
	v, err := open(image, nil, offset, size)
	if err != nil {
		return nil, fmt.Errorf("get %s from the EFI system partition: %w", path, err)
	}
	b, err := v.get(path)
	if err != nil {
		return nil, fmt.Errorf("get %s from the EFI system partition: %w", path, err)
	}
	return b, nil
}

func (v *volume) get(path string) ([]byte, error) {
	e, err := v.find(strings.Split(path, "/"))
	if err != nil {
		return nil, err
	}
	if e.folder() || e.size > maxFile {
		return nil, fmt.Errorf("it is a folder, or has %d bytes", e.size)
	}
	if e.size == 0 {
		return nil, nil
	}
	clusters, err := v.chain(e.cluster, int64(e.size))
	if err != nil {
		return nil, err
	}
	if int64(len(clusters))*v.clusterSize < int64(e.size) {
		return nil, fmt.Errorf("it has %d bytes, and clusters for %d", e.size, int64(len(clusters))*v.clusterSize)
	}
	b, err := v.readChain(clusters)
	if err != nil {
		return nil, err
	}
	return b[:e.size], nil
}

func (v *volume) put(path string, data []byte) error {
	names := strings.Split(path, "/")
	for _, name := range names {
		if err := checkName(name); err != nil {
			return err
		}
	}
	if len(data) > maxFile {
		return fmt.Errorf("%d bytes, at most %d are possible", len(data), maxFile)
	}
	at := v.root
	for _, name := range names[:len(names)-1] {
		var err error
		if at, err = v.enter(at, name); err != nil {
			return err
		}
	}
	f, err := v.readFolder(at)
	if err != nil {
		return err
	}
	name := names[len(names)-1]
	old, replaces := f.entry(name)
	if replaces && old.folder() {
		return fmt.Errorf("there is a folder of that name")
	}
	first, err := v.write(data)
	if err != nil {
		return err
	}
	if !replaces {
		return v.insert(f, name, attrArchive, first, uint32(len(data)))
	}
	entry := encodeEntry(old.short, old.attributes|attrArchive, first, uint32(len(data)))
	// The case bits stay with the name that they are of.
	if _, err := v.w.WriteAt(entry[:12], v.slotAt(f, old.last)); err != nil {
		return fmt.Errorf("write entry: %w", err)
	}
	if _, err := v.w.WriteAt(entry[13:], v.slotAt(f, old.last)+13); err != nil {
		return fmt.Errorf("write entry: %w", err)
	}
	if old.cluster == 0 {
		return nil
	}
	return v.erase(old.cluster)
}

// erase gives up the clusters of a file, and overwrites them: what was
// configured may have been secret.
func (v *volume) erase(first uint32) error {
	clusters, err := v.chain(first, maxFile)
	if err != nil {
		return err
	}
	zero := make([]byte, v.clusterSize)
	for _, c := range clusters {
		if _, err := v.w.WriteAt(zero, v.clusterAt(c)); err != nil {
			return fmt.Errorf("erase cluster %d: %w", c, err)
		}
		v.set(c, 0)
	}
	return v.flush()
}

// write stores data in free clusters and returns the first one, 0 for none.
func (v *volume) write(data []byte) (uint32, error) {
	if len(data) == 0 {
		return 0, nil
	}
	clusters, err := v.allocate((int64(len(data)) + v.clusterSize - 1) / v.clusterSize)
	if err != nil {
		return 0, err
	}
	block := make([]byte, v.clusterSize)
	for i, c := range clusters {
		clear(block[copy(block, data[int64(i)*v.clusterSize:]):])
		if _, err := v.w.WriteAt(block, v.clusterAt(c)); err != nil {
			return 0, fmt.Errorf("write cluster %d: %w", c, err)
		}
	}
	return clusters[0], v.flush()
}
