package source

import (
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Difference is a path at which two trees differ.
type Difference struct {
	Path string
	File *File // as it is now; nil where there is none any more
}

// Versioned is a Tree that is named by its content, and says how it differs
// from another version of itself at the cost of the difference.
type Versioned interface {
	Tree
	// Version names the files below a folder: where it is the same, they are.
	// It fails where Walk would yield nothing but an error.
	Version(folder string) (string, error)
	// Since lists what differs from a version of the same folder, in the order
	// of the paths. ok is false where that cannot be said, or where it takes
	// more than files that may be read to say it: Walk then says all.
	Since(folder, version string) (d []Difference, ok bool, err error)
	// Fits says whether a walk over so many files with so many bytes comes to
	// its end.
	Fits(files int, bytes int64) bool
}

var _ Versioned = (*commitTree)(nil)

// errNotPlain ends a comparison that only a walk can replace.
var errNotPlain = errors.New("not plain")

// Version implements Versioned.
func (t *commitTree) Version(folder string) (string, error) {
	e, err := t.folder(folder)
	return e.Hash.String(), err
}

// Fits implements Versioned.
func (t *commitTree) Fits(files int, bytes int64) bool {
	return files <= t.limits.Files && bytes <= t.limits.TotalSize
}

// Since implements Versioned.
func (t *commitTree) Since(folder, version string) ([]Difference, bool, error) {
	e, err := t.folder(folder)
	if err != nil {
		return nil, false, err
	}
	root := cleanPath(folder)
	var out []Difference
	c := comparison{read: t.plainFolder, differs: func(name string, x, y object.TreeEntry) error {
		d := Difference{Path: name}
		if x.Name != "" {
			if _, err := t.plainFile(root, name, x); err != nil {
				return err
			}
		}
		if y.Name != "" {
			f, err := t.plainFile(root, name, y)
			if err != nil {
				return err
			}
			d.File = &f
		}
		out = append(out, d)
		return nil
	}}
	name := root
	if name == "." {
		name = ""
	}
	err = c.folder(name, plumbing.NewHash(version), e.Hash)
	switch {
	case errors.Is(err, errNotPlain), errors.Is(err, ErrMissing): // the version may have gone
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("compare with %s: %w", version, err)
	}
	return out, true, nil
}

// plainFolder is a folder all of whose names may be read.
func (t *commitTree) plainFolder(h plumbing.Hash) ([]object.TreeEntry, error) {
	entries, err := t.objects.kept(h)
	if err != nil {
		return nil, err
	}
	for i := range entries {
		if badName(".", entries, i) != nil {
			return nil, errNotPlain
		}
	}
	return entries, nil
}

// plainFile is a file that a walk yields.
func (t *commitTree) plainFile(root, name string, e object.TreeEntry) (File, error) {
	if e.Mode == filemode.Submodule || e.Mode == filemode.Symlink {
		return File{}, errNotPlain
	}
	f, err := t.file(root, name, e)
	var bad *FileError
	if errors.As(err, &bad) {
		return f, errNotPlain
	}
	return f, err
}
