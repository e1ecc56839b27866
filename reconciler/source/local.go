package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// local is a repository on this machine, bare or not, that is read in place.
// Only what is committed counts: the files of a working tree are not looked at.
type local struct {
	dir    string // as it was named
	branch string
	objs   *objects

	// Only fetch, of which there is one at a time, touches these.
	last      plumbing.Hash
	rewritten bool
}

func newLocal(dir, branch string) *local {
	return &local{dir: dir, branch: branch, objs: newObjects(gitDir(dir))}
}

// gitDir finds the repository of a directory: itself when it is bare, else its
// .git, which in a linked working tree is a file that names another place.
func gitDir(dir string) string {
	git := filepath.Join(dir, ".git")
	info, err := os.Stat(git)
	switch {
	case err != nil:
		return dir
	case info.IsDir():
		return git
	}
	b, err := os.ReadFile(git)
	to, ok := strings.CutPrefix(strings.TrimSpace(string(b)), "gitdir: ")
	if err != nil || !ok {
		return dir
	}
	to = absolute(dir, to)
	if common, err := os.ReadFile(filepath.Join(to, "commondir")); err == nil {
		return absolute(to, strings.TrimSpace(string(common)))
	}
	return to
}

func absolute(dir, p string) string {
	if filepath.IsAbs(p) {
		return p
	}
	return filepath.Join(dir, p)
}

func (l *local) objects() *objects { return l.objs }

func (l *local) tidy(context.Context) error { return nil }

func (l *local) close() error { return l.objs.close() }

func (l *local) fetch(ctx context.Context) (plumbing.Hash, bool, error) {
	h, err := l.head(ctx)
	if err != nil || h == l.last {
		return h, l.rewritten, err
	}
	c, err := l.objs.commit(h)
	if err != nil {
		return h, false, err
	}
	l.rewritten = !l.last.IsZero() && !l.objs.descends(c, l.last)
	l.last = h
	return h, l.rewritten, nil
}

// head reads the branch from the disk. A store of its own sees refs as they
// are now, and does not wait for those who read objects.
func (l *local) head(context.Context) (plumbing.Hash, error) {
	if err := l.check(); err != nil {
		return plumbing.ZeroHash, err
	}
	st := openStore(l.objs.dir)
	defer st.Close()
	ref, err := storer.ResolveReference(st, plumbing.NewBranchReferenceName(l.branch))
	if err == nil {
		return ref.Hash(), nil
	}
	if !errors.Is(err, plumbing.ErrReferenceNotFound) {
		return plumbing.ZeroHash, fmt.Errorf("read branch %s of %s: %w", l.branch, l.dir, err)
	}
	var others []string
	refs, err := st.IterReferences()
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("read branches of %s: %w", l.dir, err)
	}
	err = refs.ForEach(func(r *plumbing.Reference) error {
		if r.Name().IsBranch() {
			others = append(others, r.Name().Short())
		}
		return nil
	})
	if err != nil {
		return plumbing.ZeroHash, fmt.Errorf("read branches of %s: %w", l.dir, err)
	}
	return plumbing.ZeroHash, noBranch(l.branch, others)
}

// check tells apart what is no repository, and what cannot be read.
func (l *local) check() error {
	if info, err := os.Stat(l.dir); errors.Is(err, fs.ErrNotExist) {
		return problem(ErrNoRepo, "directory %s does not exist", l.dir)
	} else if err != nil {
		return fmt.Errorf("open repository: %w", err)
	} else if !info.IsDir() {
		return problem(ErrNoRepo, "%s is not a directory", l.dir)
	}
	_, noHead := os.Stat(filepath.Join(l.objs.dir, "HEAD"))
	_, noObjects := os.Stat(filepath.Join(l.objs.dir, "objects"))
	if noHead != nil || noObjects != nil {
		return problem(ErrNoRepo, "%s is not a Git repository: run git init and git commit there, or name another directory", l.dir)
	}
	config, err := os.ReadFile(filepath.Join(l.objs.dir, "config"))
	if err != nil {
		return nil // a repository may be without
	}
	for line := range strings.Lines(strings.ToLower(string(config))) {
		key, value, _ := strings.Cut(line, "=")
		switch key, value = strings.TrimSpace(key), strings.TrimSpace(value); {
		case key == "objectformat" && value != "sha1", key == "refstorage" && value != "files":
			return problem(ErrUnsupported, "%s has %s = %s, which is not read: use a repository with SHA-1 objects and refs in files", l.dir, key, value)
		}
	}
	return nil
}

// noBranch names the branches that there are instead.
func noBranch(branch string, others []string) error {
	if len(others) == 0 {
		return problem(ErrEmpty, "the repository has no commits: push the manifests to branch %s; what runs is kept until then", branch)
	}
	slices.Sort(others)
	named := others[:min(len(others), 5)]
	more := ""
	if n := len(others) - len(named); n > 0 {
		more = fmt.Sprintf(" and %d more", n)
	}
	return problem(ErrNoBranch, "branch %s does not exist; there is %s%s: push it, or follow another branch; what runs is kept until then",
		branch, strings.Join(named, ", "), more)
}
