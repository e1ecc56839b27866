package receive

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// unled are the wants that no ref leads to: a client may ask for what refs point
// to, for what annotated tags are about, and for commits in their history. That is
// what git allows a client of stateless HTTP, whose refs may have moved on since it
// was told of them. An object that is here and unled, such as a commit that was
// rewritten away, is answered like one that is not here.
func (repo *repository) unled(ctx context.Context, st storer.EncodedObjectStorer, wants []plumbing.Hash) ([]plumbing.Hash, error) {
	refs, err := repo.refs()
	if err != nil {
		return nil, err
	}
	left := make(map[plumbing.Hash]bool, len(wants))
	for _, h := range wants {
		left[h] = true
	}
	for _, sha := range refs {
		delete(left, plumbing.NewHash(sha))
	}
	if len(left) == 0 {
		return nil, nil
	}
	q := newCommitQueue(st)
	for _, sha := range refs {
		h := peelTag(st, plumbing.NewHash(sha))
		delete(left, h)
		if c, err := commitOrNil(st, h); err != nil {
			return nil, err
		} else if c == nil {
			continue
		}
		if err := q.push(h); err != nil {
			return nil, err
		}
	}
	for h := range left { // not even here, or no commit: the history need not be searched
		if _, err := st.EncodedObject(plumbing.CommitObject, h); err != nil {
			return []plumbing.Hash{h}, nil //nolint:nilerr // it is the answer
		}
	}
	for len(left) > 0 && ctx.Err() == nil {
		c := q.pop()
		if c == nil {
			break
		}
		delete(left, c.Hash)
		for _, p := range c.ParentHashes {
			if err := q.push(p); err != nil {
				return nil, err
			}
		}
	}
	out := make([]plumbing.Hash, 0, len(left))
	for h := range left {
		out = append(out, h)
	}
	return out, ctx.Err()
}
