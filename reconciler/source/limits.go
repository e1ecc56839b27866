package source

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"
)

// Limits bound what a tree may hold. Zero values take the defaults.
type Limits struct {
	FileSize  int64 // default 10 MiB
	Files     int   // default 100,000
	TotalSize int64 // default 512 MiB
	// Fetch is what a remote may send at once. Default 1 GiB.
	Fetch int64
}

// maxDepth is how deep folders may lie in each other.
const maxDepth = 100

func (l Limits) withDefaults() Limits {
	if l.FileSize <= 0 {
		l.FileSize = 10 << 20
	}
	if l.Files <= 0 {
		l.Files = 100_000
	}
	if l.TotalSize <= 0 {
		l.TotalSize = 512 << 20
	}
	if l.Fetch <= 0 {
		l.Fetch = 1 << 30
	}
	return l
}

// check judges one file by itself.
func (l Limits) check(name string, f facts) error {
	switch {
	case f.absent:
		return &FileError{Path: name, Rule: "TooLarge", Message: fmt.Sprintf("is longer than the %s that a file may have, and was not fetched", size(l.FileSize))}
	case f.size > l.FileSize:
		return &FileError{Path: name, Rule: "TooLarge", Message: fmt.Sprintf("is %s long; a file may have %s", size(f.size), size(l.FileSize))}
	case f.lfs:
		return &FileError{Path: name, Rule: "LFSPointer",
			Message: "is kept in Git LFS, which is not read: commit the file itself (git lfs migrate export --include=" + name + ")"}
	}
	return nil
}

// walk counts what a walk has given, and ends it at the limits.
type walk struct {
	root   string
	limits Limits
	yield  func(File, error) bool

	depth int
	files int
	bytes int64
}

func (w *walk) enter(folder string) error {
	if w.depth++; w.depth > maxDepth {
		return w.over(folder, "TooMany", fmt.Sprintf("lies deeper than %d folders", maxDepth))
	}
	return nil
}

func (w *walk) leave() { w.depth-- }

// give hands one file, or what is wrong with it, to the reader of the walk.
// Its error ends the walk.
func (w *walk) give(f File, name string, err error) error {
	var bad *FileError
	switch {
	case errors.Is(err, errSkip):
		return nil
	case errors.As(err, &bad):
		if !w.yield(File{Path: name}, bad) {
			return errStop
		}
		return nil
	case err != nil:
		return err
	}
	w.files++
	w.bytes += f.Size
	if w.files > w.limits.Files {
		return w.over(w.root, "TooMany", fmt.Sprintf("has more than %d files: set the path to the folder that has the manifests", w.limits.Files))
	}
	if w.bytes > w.limits.TotalSize {
		return w.over(w.root, "TooLarge", fmt.Sprintf("has more than %s of files: set the path to the folder that has the manifests", size(w.limits.TotalSize)))
	}
	if !w.yield(f, nil) {
		return errStop
	}
	return nil
}

// over reports a limit of the whole tree; nothing after it is walked.
func (w *walk) over(name, rule, message string) error {
	w.yield(File{Path: name}, &FileError{Path: name, Rule: rule, Message: message, Partial: true})
	return errStop
}

// errSkip is a link that need not be followed: what it points to is walked.
var errSkip = errors.New("skip")

// maxLink is the longest path that a link may hold.
const maxLink = 4096

// symlink judges a symbolic link. None is followed. One that stays inside the
// walked folder says nothing new; one that leaves it names content that Git
// does not hold, or that is not followed, and is refused.
func symlink(root, name, target string) error {
	to := path.Join(path.Dir(name), target)
	if path.IsAbs(target) || to == ".." || strings.HasPrefix(to, "../") {
		return &FileError{Path: name, Rule: "Symlink",
			Message: "is a symbolic link that leaves the repository: replace it by the file that it points to"}
	}
	if root != "." && to != root && !strings.HasPrefix(to, root+"/") {
		return &FileError{Path: name, Rule: "Symlink",
			Message: "is a symbolic link that leaves " + root + ": replace it by the file that it points to"}
	}
	return errSkip
}

func notFollowed(name string) error {
	return &FileError{Path: name, Rule: "Symlink", Message: "is a symbolic link, which is not followed: name the file that it points to"}
}

func submodule(name string) error {
	return &FileError{Path: name, Rule: "Submodule", Message: "is a Git submodule, which is not read: commit the files themselves (git rm --cached " + name + ", remove its lines of .gitmodules, git add " + name + ")"}
}

// maxPointer is the longest pointer file of Git LFS.
const maxPointer = 1024

func isPointer(data []byte) bool {
	return bytes.HasPrefix(data, []byte("version https://git-lfs.github.com/spec/")) && bytes.Contains(data, []byte("\noid sha256:"))
}

func size(n int64) string {
	switch {
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%d bytes", n)
}
