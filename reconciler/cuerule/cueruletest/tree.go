// Package cueruletest is what the tests of rules share: a repository in memory,
// and archives that say what becomes of one.
//
// It watches nothing and owns the golden parts of archives, which a test run
// with -update rewrites. It promises that a tree answers as a commit does.
package cueruletest

import (
	"crypto/sha1"
	"encoding/hex"
	"io"
	"io/fs"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/writ-os/writ/reconciler/render"
)

// Tree is a repository in memory.
type Tree struct {
	Files    map[string]string // by path
	Followed string            // the folder that is followed; "." is all
}

var _ interface {
	render.Tree
	render.Outside
	render.Rooted
} = Tree{}

// Files returns a repository that is followed whole.
func Files(byPath map[string]string) Tree { return Tree{byPath, "."} }

// Walk implements render.Tree.
func (t Tree) Walk() iter.Seq2[render.File, error] { return t.Folder(t.Followed) }

// Root implements render.Rooted.
func (t Tree) Root() string { return t.Followed }

// Folder implements render.Outside.
func (t Tree) Folder(dir string) iter.Seq2[render.File, error] {
	return func(yield func(render.File, error) bool) {
		for _, p := range slices.Sorted(maps.Keys(t.Files)) {
			f, err := t.File(p)
			if (dir == "." || strings.HasPrefix(p, dir+"/")) && !yield(f, err) {
				return
			}
		}
	}
}

// File implements render.Outside.
func (t Tree) File(p string) (render.File, error) {
	content, ok := t.Files[p]
	if !ok {
		return render.File{}, fs.ErrNotExist
	}
	sum := sha1.Sum([]byte(content))
	return render.File{Path: p, Blob: hex.EncodeToString(sum[:]), Size: int64(len(content)),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(strings.NewReader(content)), nil }}, nil
}
