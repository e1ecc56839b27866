package initrd

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Entry is a file, a folder or a character device of an archive. Everything
// belongs to root.
type Entry struct {
	Name         string // without a slash at its start
	Mode         fs.FileMode
	Data         []byte
	Major, Minor uint32
}

// The kinds of entries in the format, and where an archive ends.
const (
	kindFolder, kindFile, kindDevice = 0o040000, 0o100000, 0o020000

	trailer = "TRAILER!!!"
	maxData = 1<<32 - 1
)

// WriteCpio writes the archive that the kernel unpacks into its first root
// file system: newc, after the kernel's
// Documentation/driver-api/early-userspace/buffer-format.rst. Entries are sorted
// and have no times, so that one set of files is one archive.
func WriteCpio(w io.Writer, entries []Entry) error {
	sorted := slices.Clone(entries)
	slices.SortFunc(sorted, func(a, b Entry) int { return strings.Compare(a.Name, b.Name) })
	folders := map[string]bool{".": true}
	last := ""
	for i, e := range sorted {
		kind, err := e.kind()
		if err != nil {
			return err
		}
		if e.Name == last || !folders[path.Dir(e.Name)] {
			return fmt.Errorf("write cpio: %q is there twice, or its folder is missing", e.Name)
		}
		last, folders[e.Name] = e.Name, kind == kindFolder
		if err := writeEntry(w, uint32(i+1), kind|uint32(e.Mode.Perm()), e); err != nil {
			return fmt.Errorf("write cpio: %s: %w", e.Name, err)
		}
	}
	return writeEntry(w, 0, 0, Entry{Name: trailer})
}

func (e Entry) kind() (uint32, error) {
	if !fs.ValidPath(e.Name) || e.Name == "." || e.Name == trailer || int64(len(e.Data)) > maxData {
		return 0, fmt.Errorf("write cpio: %q with %d bytes cannot be in an archive", e.Name, len(e.Data))
	}
	switch kind := e.Mode.Type(); {
	case kind == fs.ModeDir && len(e.Data) == 0:
		return kindFolder, nil
	case kind == 0:
		return kindFile, nil
	case kind == fs.ModeDevice|fs.ModeCharDevice && len(e.Data) == 0:
		return kindDevice, nil
	}
	return 0, fmt.Errorf("write cpio: %s has mode %s and %d bytes; only files, folders and character devices are written", e.Name, e.Mode, len(e.Data))
}

func writeEntry(w io.Writer, inode, mode uint32, e Entry) error {
	name := e.Name + "\x00"
	b := []byte("070701")
	// inode, mode, uid, gid, links, mtime, size, device, device of a node, name, checksum
	for _, v := range []uint32{inode, mode, 0, 0, 1, 0, uint32(len(e.Data)), 0, 0, e.Major, e.Minor, uint32(len(name)), 0} {
		b = fmt.Appendf(b, "%08X", v)
	}
	b = pad4(append(b, name...))
	if _, err := w.Write(b); err != nil {
		return err
	}
	if _, err := w.Write(e.Data); err != nil {
		return err
	}
	_, err := w.Write(make([]byte, -len(e.Data)&3))
	return err
}

func pad4(b []byte) []byte { return append(b, make([]byte, -len(b)&3)...) }
