package source

import (
	"context"
	"errors"
	"io/fs"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// entryAt is the file at a path of a commit.
func (o *objects) entryAt(c *object.Commit, path string) (plumbing.Hash, error) {
	t := commitTree{objects: o, sha: c.Hash.String(), root: c.TreeHash}
	e, err := t.entry(path)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	return e.Hash, nil
}

// Log returns the commits that changed a file or folder, youngest first, at
// most n: what `git log -n N SHA -- PATH` lists. More of the history is brought
// here when it must be; where it ends, the list does.
func (s *Source) Log(ctx context.Context, sha, path string, n int) ([]Commit, error) {
	h, err := s.hash(sha)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, blameTimeout)
	defer cancel()
	o := s.repo.objects()
	c, err := o.commit(h)
	if err != nil {
		return nil, err
	}
	var out []Commit
	queue, seen := byAge{c}, map[plumbing.Hash]bool{h: true}
	for looked := 0; len(queue) > 0 && len(out) < n && looked < maxBlame; {
		next, changed, err := o.follow(queue[0], cleanPath(path))
		if errors.Is(err, ErrMissing) {
			if more, derr := s.repo.deepen(ctx); derr == nil && more {
				continue
			}
			return append(out, commitOf(queue[0])), nil
		}
		if err != nil {
			return nil, err
		}
		if looked++; changed {
			out = append(out, commitOf(queue[0]))
		}
		queue = queue[1:]
		for _, p := range next {
			if !seen[p.Hash] {
				seen[p.Hash] = true
				queue = append(queue, p)
			}
		}
		slices.SortStableFunc(queue, func(a, b *object.Commit) int { return b.Committer.When.Compare(a.Committer.When) })
	}
	return out, nil
}

// follow returns the parents to look at for a path, and whether the commit
// changed it: one that has it like a parent did not, and only that parent
// matters.
func (o *objects) follow(c *object.Commit, path string) (next []*object.Commit, changed bool, err error) {
	is, err := o.entryAt(c, path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, false, err
	}
	for _, p := range c.ParentHashes {
		parent, err := o.commit(p)
		if err != nil {
			return nil, false, err
		}
		was, err := o.entryAt(parent, path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, false, err
		}
		if was == is {
			return []*object.Commit{parent}, false, nil
		}
		next = append(next, parent)
	}
	return next, !is.IsZero() || len(next) > 0, nil
}
