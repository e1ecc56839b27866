package tree

import (
	"archive/tar"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"time"
)

// Tar writes t as a tar stream: sorted, every time the epoch, owners by number
// alone, no extended attributes. The root is its first member.
func (t *Tree) Tar(w io.Writer, epoch time.Time) error {
	epoch = epoch.UTC().Truncate(time.Second)
	tw := tar.NewWriter(w)
	if err := tw.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755, ModTime: epoch}); err != nil {
		return err
	}
	for at, e := range t.All() {
		if err := writeEntry(tw, at, e, epoch); err != nil {
			return fmt.Errorf("write %s: %w", at, err)
		}
	}
	return tw.Close()
}

func writeEntry(tw *tar.Writer, at string, e Entry, epoch time.Time) error {
	h := &tar.Header{Name: at, Mode: unixMode(e.Mode), Uid: e.UID, Gid: e.GID, ModTime: epoch}
	switch e.Mode.Type() {
	case fs.ModeDir:
		h.Typeflag, h.Name = tar.TypeDir, at+"/"
	case fs.ModeSymlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, e.Link
	default:
		h.Typeflag, h.Size = tar.TypeReg, e.Data.Size
	}
	if err := tw.WriteHeader(h); err != nil || h.Typeflag != tar.TypeReg {
		return err
	}
	r, err := e.Data.Open()
	if err != nil {
		return err
	}
	defer r.Close()
	// The header has promised a size; a file that grew or shrank since breaks it.
	if n, err := io.Copy(tw, r); err != nil {
		return err
	} else if n != e.Data.Size {
		return fmt.Errorf("it has %d bytes and had %d", n, e.Data.Size)
	}
	return nil
}

func unixMode(m fs.FileMode) int64 {
	mode := int64(m.Perm())
	for bit, value := range map[fs.FileMode]int64{fs.ModeSetuid: 0o4000, fs.ModeSetgid: 0o2000, fs.ModeSticky: 0o1000} {
		if m&bit != 0 {
			mode |= value
		}
	}
	return mode
}

// Digest is the SHA-256 of the tar stream at the beginning of time: equal for
// equal trees, whatever their files come from.
func (t *Tree) Digest() (string, error) {
	h := sha256.New()
	if err := t.Tar(h, time.Unix(0, 0)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// Size is what one origin has in a tree.
type Size struct {
	Origin string
	Files  int
	Bytes  int64
}

// Sizes adds up the regular files by origin, largest first.
func (t *Tree) Sizes() []Size {
	by := map[string]*Size{}
	for _, e := range t.entries {
		if !e.Mode.IsRegular() {
			continue
		}
		s := by[e.Origin]
		if s == nil {
			s = &Size{Origin: e.Origin}
			by[e.Origin] = s
		}
		s.Files++
		s.Bytes += e.Data.Size
	}
	var all []Size
	for _, s := range by {
		all = append(all, *s)
	}
	slices.SortFunc(all, func(a, b Size) int {
		return cmp.Or(cmp.Compare(b.Bytes, a.Bytes), cmp.Compare(a.Origin, b.Origin))
	})
	return all
}
