package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/plumbing"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/reconciler"
	"github.com/writ-os/writ/reconciler/render"
	"github.com/writ-os/writ/reconciler/sandbox"
	"github.com/writ-os/writ/reconciler/source"
	"github.com/writ-os/writ/schema"
)

// clone is a local clone of the repository, read in place. Nothing is written
// to it. nil is no clone.
type clone struct {
	dir string // its working tree, or the bare repository
	git *git.Repository
	src *source.Source
	box *sandbox.Sandbox // renders; nil: this process does
}

// openClone opens the clone that a directory is in. The error wraps
// git.ErrRepositoryNotExists when it is in none.
func openClone(dir string) (*clone, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	r, err := git.PlainOpenWithOptions(abs, &git.PlainOpenOptions{DetectDotGit: true, EnableDotGitCommonDir: true})
	if err != nil {
		return nil, fmt.Errorf("%s is in no clone of a repository: %w", dir, err)
	}
	c := &clone{dir: abs, git: r}
	if w, err := r.Worktree(); err == nil {
		c.dir = w.Filesystem.Root()
	}
	c.src = source.New(source.Config{Builtin: c.dir})
	return c, nil
}

// nearClone is the clone that was asked for, or, where none was, the one of the
// current directory if it is in one.
func nearClone(dir string) (*clone, error) {
	if dir != "" {
		return openClone(dir)
	}
	c, err := openClone(".")
	if errors.Is(err, git.ErrRepositoryNotExists) {
		return nil, nil
	}
	return c, err
}

func (c *clone) close() {
	if c != nil {
		_ = c.src.Close() //nolint:errcheck // it was only read
	}
}

// resolve finds the commit that somebody names: a SHA or the beginning of one,
// a branch, a tag, HEAD~2.
func (c *clone) resolve(name string) (source.Commit, error) {
	h, err := c.git.ResolveRevision(plumbing.Revision(name))
	if err != nil {
		return source.Commit{}, fmt.Errorf("find %q in the clone %s: %w: git fetch brings what is missing", name, c.dir, err)
	}
	return c.src.Commit(h.String())
}

// has says whether the clone has a commit.
func (c *clone) has(sha string) bool {
	if c == nil || sha == "" {
		return false
	}
	_, err := c.src.Commit(sha)
	return err == nil
}

// tree is the folder that the cluster follows in a commit.
func (c *clone) tree(sha, path string) (render.Tree, error) {
	t, err := c.src.Tree(sha)
	if err != nil {
		return nil, err
	}
	return reconciler.Tree(t, path), nil
}

// manifest is one manifest of a tree with its renderer's memory of lines.
type manifest struct {
	render.Manifest
	unit string
}

// find returns the manifest of an object in a tree; the unit is that of its
// inventory, which spares rendering the others. nil: there is none.
func (c *clone) find(ctx context.Context, t render.Tree, unit string, ref render.Ref) (*manifest, error) {
	kinds := func(gvk kschema.GroupVersionKind) *schema.Resource {
		if gvk == ref.Resource.GVK() {
			return ref.Resource // enough to render it
		}
		return nil
	}
	units, _, err := render.Scan(t, render.Options{Kinds: kinds, Sandbox: c.box})
	if err != nil {
		return nil, fmt.Errorf("scan tree: %w", err)
	}
	for i := range units {
		if units[i].Path != unit {
			continue
		}
		out, err := render.Render(ctx, &units[i])
		if err != nil {
			return nil, fmt.Errorf("render %s: %w", unit, err)
		}
		for j := range out.Manifests {
			if m := out.Manifests[j]; m.Resource.Kind == ref.Resource.Kind && m.Resource.Group == ref.Resource.Group && m.Key == ref.Key {
				return &manifest{m, unit}, nil
			}
		}
	}
	return nil, nil
}

// line is one line of a file of a commit; "" when there is none.
func (c *clone) file(sha, name string) ([]string, error) {
	t, err := c.src.Tree(sha)
	if err != nil {
		return nil, err
	}
	data, err := read(t, name)
	if err != nil {
		return nil, err
	}
	return strings.SplitAfter(string(data), "\n"), nil
}

// inClone says where in its clone a directory is: the root of the clone and
// the path below. ok is false for one that is in none.
func inClone(dir string) (root, path string, ok bool) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", "", false
	}
	c, err := openClone(abs)
	if err != nil {
		return "", "", false
	}
	defer c.close()
	if abs, err = filepath.EvalSymlinks(abs); err != nil {
		return "", "", false
	}
	if root, err = filepath.EvalSymlinks(c.dir); err != nil {
		return "", "", false
	}
	rel, err := filepath.Rel(root, abs)
	if err != nil || !fs.ValidPath(filepath.ToSlash(rel)) {
		return "", "", false
	}
	return root, filepath.ToSlash(rel), true
}
