package receive

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// reached are the objects that something needs.
type reached map[plumbing.Hash]bool

// add adds an object and all that it refers to. Of one that must not be whole
// (nothing of ours refers to it) what is missing is left out.
func (seen reached) add(ctx context.Context, st storer.EncodedObjectStorer, h plumbing.Hash, must bool) error {
	for stack := []plumbing.Hash{h}; len(stack) > 0; {
		h := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if seen[h] {
			continue
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		o, err := st.EncodedObject(plumbing.AnyObject, h)
		if errors.Is(err, plumbing.ErrObjectNotFound) && !must {
			continue
		}
		if err != nil {
			return fmt.Errorf("read object %s: %w", h, err)
		}
		seen[h] = true
		next, blobs, err := refers(st, o)
		if err != nil && must {
			return err
		}
		stack = append(stack, next...)
		for _, b := range blobs {
			seen[b] = true
		}
	}
	return nil
}

// refers lists what an object refers to; files, which refer to nothing, apart.
func refers(st storer.EncodedObjectStorer, o plumbing.EncodedObject) (next, blobs []plumbing.Hash, err error) {
	switch o.Type() {
	case plumbing.CommitObject:
		c, err := object.DecodeCommit(st, o)
		if err != nil {
			return nil, nil, fmt.Errorf("read commit %s: %w", o.Hash(), err)
		}
		return append(slices.Clone(c.ParentHashes), c.TreeHash), nil, nil
	case plumbing.TagObject:
		t, err := object.DecodeTag(st, o)
		if err != nil {
			return nil, nil, fmt.Errorf("read tag %s: %w", o.Hash(), err)
		}
		return []plumbing.Hash{t.Target}, nil, nil
	case plumbing.TreeObject:
		entries, err := readTree(st, o.Hash())
		for _, e := range entries {
			switch e.mode {
			case filemode.Submodule:
			case filemode.Dir:
				next = append(next, e.hash)
			default:
				blobs = append(blobs, e.hash)
			}
		}
		return next, blobs, err
	}
	return nil, nil, nil
}
