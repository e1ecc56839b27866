package reconciler

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	gopath "path"
	"slices"
	"strings"

	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/source"
)

// Commit is a commit of the source.
type Commit = source.Commit

// Source is the branch that the cluster follows. Its methods may be called
// from several goroutines.
type Source interface {
	// Fetch asks for the newest commit and brings its files here. With an error
	// it may return the last commit that was fetched, marked Stale.
	Fetch(ctx context.Context) (Commit, error)
	// Bring makes a commit readable that was fetched at some time.
	Bring(ctx context.Context, sha string) (Commit, error)
	// Tree returns the files of a commit that was fetched.
	Tree(sha string) (render.Tree, error)
	// Changed delivers when there may be something new.
	Changed() <-chan struct{}
}

// Git makes a Source of a Git source; path is the folder to follow.
func Git(s *source.Source, path string) Source { return git{s, path} }

type git struct {
	*source.Source
	path string
}

func (g git) Tree(sha string) (render.Tree, error) {
	t, err := g.Source.Tree(sha)
	if err != nil {
		return nil, err
	}
	return Tree(t, g.path), nil
}

// Tree makes what the renderer reads of a source's tree; path is the folder
// to follow. Where that is not all of it, what lies beside it can be asked for:
// bases, charts, modules and policies.
func Tree(t source.Tree, path string) render.Tree {
	path = cleanFolder(path)
	v, versions := t.(source.Versioned)
	switch whole := (tree{t, path}); {
	case path == "." && versions:
		return versionedTree{whole, v}
	case path == ".":
		return whole
	case versions:
		return versionedFolder{folder{whole}, v}
	default:
		return folder{whole}
	}
}

// cleanFolder is a folder as the walk of a source names it.
func cleanFolder(name string) string {
	if name = gopath.Clean("/" + name)[1:]; name == "" {
		return "."
	}
	return name
}

type tree struct {
	source.Tree
	path string
}

// Walk implements render.Tree.
func (t tree) Walk() iter.Seq2[render.File, error] { return t.walk(t.path) }

func (t tree) walk(folder string) iter.Seq2[render.File, error] {
	return func(yield func(render.File, error) bool) {
		for f, err := range t.Tree.Walk(folder) {
			if !yield(fileOf(f), notAccepted(err)) {
				return
			}
		}
	}
}

// notAccepted has the renderer know a file that may not be read.
func notAccepted(err error) error {
	var bad *source.FileError
	if errors.As(err, &bad) {
		return &render.FileError{Path: bad.Path, Rule: bad.Rule, Message: bad.Message, Partial: bad.Partial}
	}
	return err
}

func fileOf(f source.File) render.File {
	return render.File{Path: f.Path, Blob: f.Blob, Mode: f.Mode, Size: f.Size, Open: f.Opener()}
}

// folder is a tree of which a folder is followed.
type folder struct{ tree }

var (
	_ render.Outside = folder{}
	_ render.Rooted  = folder{}
)

// Root implements render.Rooted.
func (t folder) Root() string { return t.path }

// File implements render.Outside.
func (t folder) File(name string) (render.File, error) {
	f, err := t.Tree.File(name)
	if err != nil {
		return render.File{}, notAccepted(err)
	}
	return fileOf(f), nil
}

// Folder implements render.Outside.
func (t folder) Folder(name string) iter.Seq2[render.File, error] {
	return func(yield func(render.File, error) bool) {
		for f, err := range t.walk(name) {
			if errors.Is(err, source.ErrNoPath) || errors.Is(err, source.ErrEmpty) {
				err = &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
			}
			if !yield(f, err) {
				return
			}
		}
	}
}

// versionedFolder is a folder whose versions can be compared. Its version names
// what is beside it too.
type versionedFolder struct {
	folder
	versions source.Versioned
}

// Version implements render.Versioned.
func (t versionedFolder) Version() (string, error) {
	if _, err := t.versions.Version(t.path); err != nil { // it is not there
		return "", err
	}
	v, err := t.versions.Version(".")
	return v + " " + t.path, err
}

// Since implements render.Versioned: what is beside the folder may be read by
// any file in it, so a difference there is not told file by file.
func (t versionedFolder) Since(version string) ([]render.Difference, bool, error) {
	all, ok, err := versionedTree{tree{t.Tree, "."}, t.versions}.since(version, t.path)
	if err != nil || !ok || slices.ContainsFunc(all, func(d render.Difference) bool { return !strings.HasPrefix(d.Path, t.path+"/") }) {
		return nil, false, err
	}
	return all, true, nil
}

// Fits implements render.Versioned.
func (t versionedFolder) Fits(files int, bytes int64) bool { return t.versions.Fits(files, bytes) }

// versionedTree is a tree whose versions can be compared.
type versionedTree struct {
	tree
	versions source.Versioned
}

// Version implements render.Versioned. Which links may stand in a folder
// depends on where it is.
func (t versionedTree) Version() (string, error) {
	v, err := t.versions.Version(t.path)
	return v + " " + t.path, err
}

// Since implements render.Versioned.
func (t versionedTree) Since(version string) ([]render.Difference, bool, error) {
	return t.since(version, t.path)
}

// since lists what differs from a version in which a folder was followed.
func (t versionedTree) since(version, folder string) ([]render.Difference, bool, error) {
	version, path, _ := strings.Cut(version, " ")
	if path != folder {
		return nil, false, nil
	}
	found, ok, err := t.versions.Since(t.path, version)
	out := make([]render.Difference, len(found))
	for i, d := range found {
		out[i].Path = d.Path
		if d.File != nil {
			f := fileOf(*d.File)
			out[i].File = &f
		}
	}
	return out, ok, err
}

// Fits implements render.Versioned.
func (t versionedTree) Fits(files int, bytes int64) bool { return t.versions.Fits(files, bytes) }
