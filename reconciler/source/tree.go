package source

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"

	"github.com/writ-os/writ/reconciler/source/pack"
)

// File is one file of a tree.
type File struct {
	// Path is slash-separated and relative to the root of the tree.
	Path string
	// Blob is the Git hash of the content.
	Blob string
	Mode fs.FileMode
	Size int64

	open func() (io.ReadCloser, error)
}

// Open reads the content.
func (f File) Open() (io.ReadCloser, error) { return f.open() }

// Opener returns Open, for who keeps nothing else of the file.
func (f File) Opener() func() (io.ReadCloser, error) { return f.open }

// Tree is the files of a commit or of a directory.
type Tree interface {
	// Walk yields the files below path ("" or "." for all) in the order of
	// their paths. A file that may not be read is yielded with a *FileError,
	// and the walk goes on; any other error ends it. A symbolic link that
	// stays below path is not yielded: what it points to is.
	Walk(path string) iter.Seq2[File, error]
	// File returns one file; fs.ErrNotExist when there is none.
	File(path string) (File, error)
}

// commitTree is the files of a commit. It reads folders as they are walked.
type commitTree struct {
	objects *objects
	sha     string
	root    plumbing.Hash
	limits  Limits
}

var _ Tree = (*commitTree)(nil)

// errStop ends a walk that its reader has left.
var errStop = errors.New("stop")

// Walk implements Tree.
func (t *commitTree) Walk(folder string) iter.Seq2[File, error] {
	return func(yield func(File, error) bool) {
		e, err := t.folder(folder)
		if err != nil {
			yield(File{}, err)
			return
		}
		w := &walk{root: cleanPath(folder), limits: t.limits, yield: yield}
		if err := t.walk(w, e.Hash, w.root); err != nil && !errors.Is(err, errStop) {
			yield(File{}, err)
		}
	}
}

func (t *commitTree) walk(w *walk, h plumbing.Hash, folder string) error {
	entries, err := t.objects.tree(h)
	if err != nil {
		return fmt.Errorf("read folder %s: %w", folder, err)
	}
	for i, e := range entries {
		name := path.Join(folder, e.Name)
		if err := badName(folder, entries, i); err != nil {
			if err := w.give(File{}, err.Path, err); err != nil {
				return err
			}
			continue
		}
		if e.Mode == filemode.Dir {
			if err := w.enter(name); err != nil {
				return err
			}
			if err := t.walk(w, e.Hash, name); err != nil {
				return err
			}
			w.leave()
			continue
		}
		f, err := t.file(w.root, name, e)
		if err := w.give(f, name, err); err != nil {
			return err
		}
	}
	return nil
}

// badName judges the name of an entry: none may lead out of its folder, on any
// system, and none stands there twice.
func badName(folder string, entries []object.TreeEntry, i int) *FileError {
	name := entries[i].Name
	why := pack.CheckName(name)
	if why == "" && i > 0 && entries[i-1].Name == name {
		why = "stands twice in its folder"
	}
	if why == "" {
		return nil
	}
	return &FileError{Path: strings.TrimPrefix(folder+"/", "./") + strings.ToValidUTF8(name, "\ufffd"), Rule: "BadName",
		Message: why + ": commit it under another name"}
}

// file judges one entry that is no folder; root is the folder being walked.
func (t *commitTree) file(root, name string, e object.TreeEntry) (File, error) {
	switch e.Mode {
	case filemode.Submodule:
		return File{}, submodule(name)
	case filemode.Symlink:
		target, err := t.objects.blob(e.Hash, maxLink)
		if err != nil {
			return File{}, fmt.Errorf("read %s: %w", name, err)
		}
		return File{}, symlink(root, name, string(target))
	}
	st, err := t.objects.stat(e.Hash)
	if err != nil {
		return File{}, fmt.Errorf("read %s: %w", name, err)
	}
	if err := t.limits.check(name, st); err != nil {
		return File{}, err
	}
	mode := fs.FileMode(0o644)
	if e.Mode == filemode.Executable {
		mode = 0o755
	}
	// The reader outlives the tree: it holds no more than it needs.
	objects, hash, limit := t.objects, e.Hash, t.limits.FileSize
	return File{Path: name, Blob: e.Hash.String(), Mode: mode, Size: st.size, open: func() (io.ReadCloser, error) {
		data, err := objects.content(hash, limit)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", name, err)
		}
		return io.NopCloser(bytes.NewReader(data)), nil
	}}, nil
}

// File implements Tree.
func (t *commitTree) File(name string) (File, error) {
	e, err := t.entry(name)
	if err != nil {
		return File{}, err
	}
	if e.Mode == filemode.Dir {
		return File{}, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	f, err := t.file(".", cleanPath(name), e)
	if errors.Is(err, errSkip) {
		err = notFollowed(cleanPath(name))
	}
	return f, err
}

// entry looks one path up, folder by folder.
func (t *commitTree) entry(name string) (object.TreeEntry, error) {
	at := object.TreeEntry{Mode: filemode.Dir, Hash: t.root}
	name = cleanPath(name)
	if name == "." {
		return at, nil
	}
	for part := range strings.SplitSeq(name, "/") {
		if at.Mode != filemode.Dir {
			return at, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		entries, err := t.objects.kept(at.Hash)
		if err != nil {
			return at, fmt.Errorf("read folder of %s: %w", name, err)
		}
		found := false
		for _, e := range entries {
			if e.Name == part {
				at, found = e, true
				break
			}
		}
		if !found {
			return at, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
	}
	return at, nil
}

// folder returns the folder to walk; one that is not there, or has nothing in
// it, is an error and not an empty walk.
func (t *commitTree) folder(name string) (object.TreeEntry, error) {
	e, err := t.entry(name)
	if errors.Is(err, fs.ErrNotExist) {
		return e, noFolder(cleanPath(name), "commit "+short(t.sha))
	}
	if err != nil {
		return e, err
	}
	if e.Mode != filemode.Dir {
		return e, problem(ErrNoPath, "%s is not a folder in commit %s: name the folder that has the manifests", cleanPath(name), short(t.sha))
	}
	entries, err := t.objects.kept(e.Hash)
	if err == nil && len(entries) == 0 {
		err = problem(ErrEmpty, "commit %s has no files: commit the manifests again; what runs is kept until then. %s", short(t.sha), deleteAll)
	}
	return e, err
}

func (t *commitTree) checkFolder(name string) error {
	_, err := t.folder(name)
	return err
}

func noFolder(name, where string) error {
	return problem(ErrNoPath, "folder %s does not exist in %s: commit it, or set the path to the folder that has the manifests; what runs is kept until then. %s", name, where, deleteAll)
}

// deleteAll says how nothing is asked for: a tree that lacks everything can be
// an accident, one that holds a file and whose author says so is none.
const deleteAll = "If everything is to be deleted, commit any file there, such as a README, with the line \"Writ-Allow-Deletes: true\" in the message"

// cleanPath makes a path relative to the root of the tree, and never leaves it.
func cleanPath(p string) string {
	if p = path.Clean("/" + p)[1:]; p == "" {
		return "."
	}
	return p
}

func short(sha string) string { return sha[:min(len(sha), 12)] }
