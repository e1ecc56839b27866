package deb

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"strings"
)

const (
	maxControl = 4 << 20 // of control.tar, decompressed
	maxData    = 2 << 30 // of data.tar, decompressed
	maxFiles   = 200_000
	maxPath    = 4096
)

// Package is an opened .deb.
type Package struct {
	Control Control
	data    member
}

// File is one file of a package.
type File struct {
	// Path is relative, clean and local: "usr/bin/mount".
	Path string
	// Mode has the type and the permission bits: a regular file, a directory
	// or a symbolic link, with setuid, setgid and sticky.
	Mode     fs.FileMode
	UID, GID int
	// Link is what a symbolic link says, as it is. For a hard link it is the
	// Path of the file before it in the package that it is the same as.
	Link string
	Hard bool
	Size int64
}

// Open reads the control file of the .deb of size bytes. r must stay readable
// while the Package is used.
func Open(r io.ReaderAt, size int64) (*Package, error) {
	members, err := readAr(r, size)
	if err != nil {
		return nil, fmt.Errorf("read package: %w", err)
	}
	p := &Package{}
	var control member
	for i, m := range members {
		switch {
		case i == 0 && m.name != "debian-binary":
			return nil, errors.New("read package: it does not begin with debian-binary")
		case strings.HasPrefix(m.name, "control.tar") && control.data == nil:
			control = m
		case strings.HasPrefix(m.name, "data.tar") && p.data.data == nil:
			p.data = m
		}
	}
	if control.data == nil || p.data.data == nil {
		return nil, errors.New("read package: it has no control.tar or no data.tar")
	}
	if err := p.readControl(control); err != nil {
		return nil, fmt.Errorf("read package: %s: %w", control.name, err)
	}
	return p, nil
}

func (p *Package) readControl(m member) error {
	z, err := Decompress(m.name, m.data)
	if err != nil {
		return err
	}
	defer z.Close()
	tr := tar.NewReader(io.LimitReader(z, maxControl))
	for {
		h, err := tr.Next()
		if errors.Is(err, io.EOF) {
			return errors.New("it has no control file")
		} else if err != nil {
			return err
		}
		if path.Clean(h.Name) == "control" {
			p.Control, err = ReadControl(tr)
			return err
		}
	}
}

// Walk calls each with every file of the package in its order. The content
// may be read until each returns; it is empty for what is no regular file.
func (p *Package) Walk(each func(f *File, content io.Reader) error) error {
	z, err := Decompress(p.data.name, p.data.data)
	if err != nil {
		return fmt.Errorf("%s: %w", p.Control.Name, err)
	}
	defer z.Close()
	// One byte more than allowed: a tar that is cut off exactly there would
	// seem to be damaged instead of too large.
	limited := &io.LimitedReader{R: z, N: maxData + 1}
	tr := tar.NewReader(limited)
	for n := 0; ; n++ {
		h, err := tr.Next()
		switch {
		case limited.N <= 0 || n > maxFiles:
			return fmt.Errorf("%s: it holds more than %d bytes or %d files", p.Control.Name, int64(maxData), maxFiles)
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("%s: read %s: %w", p.Control.Name, p.data.name, err)
		}
		f, err := file(h)
		if err != nil {
			return fmt.Errorf("%s: %w", p.Control.Name, err)
		}
		if f == nil { // the root
			continue
		}
		if err := each(f, tr); err != nil {
			return fmt.Errorf("%s: %s: %w", p.Control.Name, f.Path, err)
		}
	}
}

// file checks one header; nil without an error stands for the root directory.
func file(h *tar.Header) (*File, error) {
	at, err := localPath(h.Name)
	if err != nil {
		return nil, err
	}
	f := &File{Path: at, Mode: h.FileInfo().Mode(), UID: h.Uid, GID: h.Gid, Size: h.Size}
	switch h.Typeflag {
	case tar.TypeReg:
	case tar.TypeDir:
		if at == "." {
			return nil, nil
		}
	case tar.TypeSymlink:
		// Where it leads is for the tree to judge; it is only text here.
		if f.Link = h.Linkname; f.Link == "" || len(f.Link) > maxPath || strings.ContainsAny(f.Link, "\x00\n") {
			return nil, fmt.Errorf("%s is a link to %.60q, which is no path", at, f.Link)
		}
	case tar.TypeLink:
		if f.Link, err = localPath(h.Linkname); err != nil {
			return nil, fmt.Errorf("%s is a hard link: %w", at, err)
		}
		f.Hard, f.Size = true, 0
	default:
		return nil, fmt.Errorf("%s is of the type %q: only files, directories and links belong into a package", at, h.Typeflag)
	}
	if at == "." {
		return nil, errors.New("its root is no directory")
	}
	if f.UID < 0 || f.GID < 0 || f.Size < 0 || f.Size > maxData {
		return nil, fmt.Errorf("%s has the owner %d:%d and the size %d", at, f.UID, f.GID, f.Size)
	}
	return f, nil
}

// localPath cleans a name of the archive. Absolute names, "..", and names
// that would break a line are refused.
func localPath(name string) (string, error) {
	at := path.Clean(name)
	// Cleaning takes a/../b together, which no honest package has.
	if len(name) > maxPath || !filepath.IsLocal(at) || strings.ContainsAny(name, "\x00\n") ||
		name == ".." || strings.HasPrefix(name, "../") || strings.Contains(name, "/../") || strings.HasSuffix(name, "/..") {
		return "", fmt.Errorf("the path %.60q leads out of the package", name)
	}
	return at, nil
}
