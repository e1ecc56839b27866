package render

import (
	"fmt"
	"io"
	"io/fs"
	"iter"
)

// File is one file of a commit. Its path is slash-separated and relative to
// the root of the repository.
type File struct {
	Path string
	Blob string // Git hash of the content
	Mode fs.FileMode
	Size int64
	Open func() (io.ReadCloser, error)
}

// Tree is the files of one commit, below the folder that the cluster follows.
// It yields them in the order of their paths. A file that cannot be accepted
// comes with a *FileError, and the walk goes on; any other error ends it.
type Tree interface {
	Walk() iter.Seq2[File, error]
}

// Outside is a Tree that can also be asked for files of the same repository
// that are not below the folder which the cluster follows: the bases of a
// kustomization, charts, CUE modules and policies often lie beside it.
type Outside interface {
	// File returns one file; fs.ErrNotExist when there is none, and a
	// *FileError when it cannot be accepted.
	File(path string) (File, error)
	// Folder yields the files below a folder like Walk; an error that is
	// fs.ErrNotExist when there is no such folder.
	Folder(path string) iter.Seq2[File, error]
}

// Versioned is a Tree that is named by its content, and says how it differs
// from another version of itself at the cost of the difference.
type Versioned interface {
	Tree
	// Version names the files, and those that an Outside finds: where it is the
	// same, they are. It fails where Walk would yield nothing but an error.
	Version() (string, error)
	// Since lists what differs from a version; false where that cannot be said,
	// where something differs that is not below the followed folder, or where it takes more than files that can be accepted to say it. Walk
	// then says all.
	Since(version string) ([]Difference, bool, error)
	// Fits says whether a walk over so many files with so many bytes comes to
	// its end.
	Fits(files int, bytes int64) bool
}

// Difference is a path at which two versions of a tree differ.
type Difference struct {
	Path string
	File *File // as it is now; nil where there is none any more
}

// FileError is one file that cannot be accepted.
type FileError struct {
	Path, Rule, Message string
	// Partial says that the walk has ended here: what follows was not seen.
	Partial bool
}

// Error implements error.
func (e *FileError) Error() string { return e.Path + ": " + e.Message }

// read returns the content of a file, at most max bytes of it.
func (f File) read(max int64) ([]byte, error) {
	r, err := f.Open()
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", f.Path, err)
	}
	defer r.Close()
	data, err := io.ReadAll(io.LimitReader(r, max+1))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", f.Path, err)
	}
	return data, nil
}
