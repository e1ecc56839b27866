package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/sergi/go-diff/diffmatchpatch"

	gitdiff "github.com/go-git/go-git/v5/utils/diff"

	"github.com/writ-os/writ/reconciler"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/source"
)

// overlay is a tree with some files of other content; nil content is a file
// that is gone.
type overlay struct {
	render.Tree
	root  string
	files map[string][]byte
}

var (
	_ render.Outside = overlay{}
	_ render.Rooted  = overlay{}
)

// Walk implements render.Tree.
func (t overlay) Walk() iter.Seq2[render.File, error] { return t.patch(t.root, t.Tree.Walk()) }

// Root implements render.Rooted.
func (t overlay) Root() string { return t.root }

// File implements render.Outside.
func (t overlay) File(name string) (render.File, error) {
	if data, ok := t.files[name]; ok {
		if data == nil {
			return render.File{}, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
		return fileOf(name, data), nil
	}
	if out, ok := t.Tree.(render.Outside); ok {
		return out.File(name)
	}
	for f, err := range t.Tree.Walk() {
		if err == nil && f.Path == name {
			return f, nil
		}
	}
	return render.File{}, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
}

// Folder implements render.Outside.
func (t overlay) Folder(dir string) iter.Seq2[render.File, error] {
	if out, ok := t.Tree.(render.Outside); ok {
		return t.patch(dir, out.Folder(dir))
	}
	return t.patch(dir, func(yield func(render.File, error) bool) {
		for f, err := range t.Tree.Walk() {
			if (err != nil || below(f.Path, dir)) && !yield(f, err) {
				return
			}
		}
	})
}

func below(name, dir string) bool { return dir == "." || dir == "" || strings.HasPrefix(name, dir+"/") }

// patch puts the files of the overlay into a walk of a folder, in the order of
// their paths.
func (t overlay) patch(dir string, walk iter.Seq2[render.File, error]) iter.Seq2[render.File, error] {
	return func(yield func(render.File, error) bool) {
		var mine []string
		for name, data := range t.files {
			if data != nil && below(name, dir) {
				mine = append(mine, name)
			}
		}
		slices.Sort(mine)
		for f, err := range walk {
			if err != nil {
				if len(mine) > 0 && errors.Is(err, fs.ErrNotExist) {
					continue // the folder is only in the overlay
				}
				if !yield(f, err) {
					return
				}
				continue
			}
			for len(mine) > 0 && mine[0] < f.Path {
				if !yield(fileOf(mine[0], t.files[mine[0]]), nil) {
					return
				}
				mine = mine[1:]
			}
			if _, ok := t.files[f.Path]; !ok && !yield(f, nil) {
				return
			}
		}
		for _, name := range mine {
			if !yield(fileOf(name, t.files[name]), nil) {
				return
			}
		}
	}
}

func fileOf(name string, data []byte) render.File {
	return render.File{Path: name, Blob: plumbing.ComputeHash(plumbing.BlobObject, data).String(), Mode: 0o644, Size: int64(len(data)),
		Open: func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(data)), nil }}
}

func hashOf(sha string) plumbing.Hash { return plumbing.NewHash(sha) }

// descends says whether a commit has another in its history.
func (c *clone) descends(sha, ancestor string) bool {
	a, errA := c.git.CommitObject(hashOf(ancestor))
	b, errB := c.git.CommitObject(hashOf(sha))
	if errA != nil || errB != nil {
		return false
	}
	if sha == ancestor {
		return true
	}
	yes, err := a.IsAncestor(b)
	return err == nil && yes
}

// takeBack is the tree of head with a commit taken back, or the files in which
// later commits stand in the way.
func (c *clone) takeBack(commit reconciler.Commit, head, path string) (render.Tree, []string, error) {
	changes, err := c.src.Diff(commit.Parent, commit.SHA)
	if err != nil {
		return nil, nil, fmt.Errorf("read what %s has changed: %w", short(commit.SHA), err)
	}
	trees := map[string]source.Tree{}
	for _, sha := range []string{commit.Parent, commit.SHA, head} {
		if sha == "" {
			continue
		}
		if trees[sha], err = c.src.Tree(sha); err != nil {
			return nil, nil, err
		}
	}
	files, conflicts := map[string][]byte{}, []string(nil)
	for _, ch := range changes {
		before, err := content(trees[commit.Parent], ch.Path)
		if err != nil {
			return nil, nil, err
		}
		after, err := content(trees[commit.SHA], ch.Path)
		if err != nil {
			return nil, nil, err
		}
		now, err := content(trees[head], ch.Path)
		if err != nil {
			return nil, nil, err
		}
		merged, ok := merge(after, now, before)
		if !ok {
			conflicts = append(conflicts, ch.Path)
			continue
		}
		files[ch.Path] = merged
	}
	t, err := c.tree(head, path)
	return overlay{Tree: t, root: path, files: files}, conflicts, err
}

// content is a file of a tree; nil for one that is not there.
func content(t source.Tree, name string) ([]byte, error) {
	if t == nil {
		return nil, nil
	}
	data, err := read(t, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if data == nil {
		data = []byte{}
	}
	return data, err
}

// merge joins two versions of a file that both come from base, line by line as
// git does; false where both have changed the same lines. nil is no file.
func merge(base, ours, theirs []byte) ([]byte, bool) {
	same := func(a, b []byte) bool { return (a == nil) == (b == nil) && bytes.Equal(a, b) }
	switch {
	case same(base, ours):
		return theirs, true
	case same(base, theirs), same(ours, theirs):
		return ours, true
	case base == nil, ours == nil, theirs == nil:
		return nil, false
	}
	a, b := hunks(string(base), string(ours)), hunks(string(base), string(theirs))
	all := append(slices.Clone(a), b...)
	slices.SortStableFunc(all, func(x, y hunk) int { return x.from - y.from })
	for i := 1; i < len(all); i++ {
		// Changes that touch are left to a person, as git leaves them.
		if all[i].from <= all[i-1].to {
			return nil, false
		}
	}
	lines := strings.SplitAfter(string(base), "\n")
	var out bytes.Buffer
	at := 0
	for _, h := range all {
		out.WriteString(strings.Join(lines[at:h.from], ""))
		out.WriteString(h.text)
		at = h.to
	}
	out.WriteString(strings.Join(lines[at:], ""))
	return out.Bytes(), true
}

// hunk replaces the lines from..to of a file.
type hunk struct {
	from, to int
	text     string
}

func hunks(before, after string) []hunk {
	var out []hunk
	line, open := 0, false
	for _, d := range gitdiff.Do(before, after) {
		n := len(strings.SplitAfter(d.Text, "\n"))
		if strings.HasSuffix(d.Text, "\n") {
			n--
		}
		if d.Type == diffmatchpatch.DiffEqual {
			line, open = line+n, false
			continue
		}
		if !open {
			out, open = append(out, hunk{from: line, to: line}), true
		}
		h := &out[len(out)-1]
		if d.Type == diffmatchpatch.DiffDelete {
			line += n
			h.to = line
		} else {
			h.text += d.Text
		}
	}
	return out
}
