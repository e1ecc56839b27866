package reconciler

import (
	"context"
	"errors"
	"iter"
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
// to follow.
func Tree(t source.Tree, path string) render.Tree {
	if v, ok := t.(source.Versioned); ok {
		return versionedTree{tree{t, path}, v}
	}
	return tree{t, path}
}

type tree struct {
	source.Tree
	path string
}

// Walk implements render.Tree.
func (t tree) Walk() iter.Seq2[render.File, error] {
	return func(yield func(render.File, error) bool) {
		for f, err := range t.Tree.Walk(t.path) {
			var bad *source.FileError
			if errors.As(err, &bad) {
				err = &render.FileError{Path: bad.Path, Rule: bad.Rule, Message: bad.Message, Partial: bad.Partial}
			}
			if !yield(fileOf(f), err) {
				return
			}
		}
	}
}

func fileOf(f source.File) render.File {
	return render.File{Path: f.Path, Blob: f.Blob, Mode: f.Mode, Size: f.Size, Open: f.Opener()}
}

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
	version, path, _ := strings.Cut(version, " ")
	if path != t.path {
		return nil, false, nil
	}
	found, ok, err := t.versions.Since(path, version)
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
