package source

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// local is a repository on this machine, bare or not, that is read in place.
// Only what is committed counts: the files of a working tree are not looked at.
type local struct {
	dir    string // as it was named
	target target
	objs   *objects

	// Only fetch, of which there is one at a time, touches these.
	seen found
}

func newLocal(dir string, t target) *local {
	return &local{dir: dir, target: t, objs: newObjects(gitDir(dir))}
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

func (l *local) deepen(context.Context) (bool, error) { return false, nil }

func (l *local) bring(_ context.Context, h plumbing.Hash) error {
	_, err := l.objs.commit(h)
	return err
}

func (l *local) last(context.Context) (found, bool) { return l.seen, !l.seen.head.IsZero() }

func (l *local) fetch(ctx context.Context) (found, error) {
	c, err := l.choose()
	if err != nil {
		return found{}, err
	}
	now := found{want: c.want, tag: c.tag}
	if now.head, err = l.objs.peel(c.want, l.target); err != nil {
		return found{}, err
	}
	if now.head == l.seen.head && now.tag == l.seen.tag {
		now.rewritten = l.seen.rewritten
	} else {
		now.rewritten, err = l.target.rewritten(l.objs, l.seen, now)
	}
	if err != nil {
		return found{}, err
	}
	if err := l.reachable(now.head); err != nil {
		return found{}, err
	}
	l.seen = now
	return now, nil
}

// reachable says whether a commit that is named by its SHA is in a branch or a
// tag: what is in none may be gone at any time, and nobody has seen it.
func (l *local) reachable(h plumbing.Hash) error {
	if l.target.kind != toCommit || h == l.seen.head {
		return nil
	}
	refs, err := l.refs()
	if err != nil {
		return err
	}
	var tips []plumbing.Hash
	for _, tip := range refs {
		if c, err := l.objs.peel(tip, l.target); err == nil {
			tips = append(tips, c)
		}
	}
	if _, ok := l.objs.path(tips, h); !ok {
		return noCommit(h, l.dir)
	}
	return nil
}

func noCommit(h plumbing.Hash, where string) error {
	return problem(ErrNoCommit, "commit %s is in no branch or tag of %s: push it, or name another; what runs is kept until then", h, where)
}

// head implements repository.
func (l *local) head(context.Context) (plumbing.Hash, error) {
	c, err := l.choose()
	return c.want, err
}

func (l *local) choose() (choice, error) {
	if l.target.kind == toBranch {
		return l.branch()
	}
	refs, err := l.refs()
	if err != nil {
		return choice{}, err
	}
	return l.target.choose(refs, nil)
}

// branch reads the branch alone: that costs one file, however many refs there
// are.
func (l *local) branch() (choice, error) {
	if err := l.check(); err != nil {
		return choice{}, err
	}
	st := openStore(l.objs.dir)
	defer st.Close()
	ref, err := storer.ResolveReference(st, plumbing.NewBranchReferenceName(l.target.name))
	if err == nil {
		return choice{want: ref.Hash(), commit: ref.Hash()}, nil
	}
	if !errors.Is(err, plumbing.ErrReferenceNotFound) {
		return choice{}, fmt.Errorf("read branch %s of %s: %w", l.target.name, l.dir, err)
	}
	refs, err := l.refs()
	if err != nil {
		return choice{}, err
	}
	return l.target.choose(refs, nil)
}

// refs reads the refs from the disk. A store of its own sees them as they are
// now, and does not wait for those who read objects.
func (l *local) refs() (map[string]plumbing.Hash, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	st := openStore(l.objs.dir)
	defer st.Close()
	refs := make(map[string]plumbing.Hash)
	it, err := st.IterReferences()
	if err == nil {
		err = it.ForEach(func(r *plumbing.Reference) error {
			if r.Type() == plumbing.HashReference && (r.Name().IsBranch() || r.Name().IsTag()) {
				refs[r.Name().String()] = r.Hash()
			}
			return nil
		})
	}
	if err != nil {
		return nil, fmt.Errorf("read refs of %s: %w", l.dir, err)
	}
	return refs, nil
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
