package receive

import (
	"fmt"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// selection collects the objects of an answer.
type selection struct {
	st   storer.EncodedObjectStorer
	seen map[plumbing.Hash]bool // chosen, or known to be with the client
	out  []plumbing.Hash
}

// choose lists the objects that the client needs. It may list some that the
// client has (a file that moved, a commit with a wrong date), never too few.
func choose(st storer.EncodedObjectStorer, d demand) ([]plumbing.Hash, error) {
	s := &selection{st: st, seen: make(map[plumbing.Hash]bool)}
	var tips []plumbing.Hash
	for _, w := range d.wants {
		commit, err := s.addTags(w)
		if err != nil {
			return nil, err
		}
		if commit != plumbing.ZeroHash {
			tips = append(tips, commit)
		}
	}
	commits, edge, err := split(st, tips, d)
	if err != nil {
		return nil, err
	}
	trees := make([]plumbing.Hash, 0, len(edge))
	for _, c := range edge {
		trees = append(trees, c.TreeHash)
	}
	// The oldest first: each commit is compared with what came before it.
	for i := len(commits) - 1; i >= 0; i-- {
		c := commits[i]
		s.add(c.Hash)
		if err := s.addTree(c.TreeHash, trees); err != nil {
			return nil, err
		}
		trees = append(trees[:min(len(trees), len(edge))], c.TreeHash)
	}
	return s.out, nil
}

// addTags chooses a want that is no commit: annotated tags on the way to a
// commit, which it returns, or a lone tree or blob.
func (s *selection) addTags(h plumbing.Hash) (plumbing.Hash, error) {
	for {
		o, err := s.st.EncodedObject(plumbing.AnyObject, h)
		if err != nil {
			return plumbing.ZeroHash, fmt.Errorf("read %s: %w", h, err)
		}
		switch o.Type() {
		case plumbing.CommitObject:
			return h, nil
		case plumbing.TreeObject:
			return plumbing.ZeroHash, s.addTree(h, nil)
		case plumbing.BlobObject:
			s.add(h)
			return plumbing.ZeroHash, nil
		}
		tag, err := object.GetTag(s.st, h)
		if err != nil {
			return plumbing.ZeroHash, fmt.Errorf("read tag %s: %w", h, err)
		}
		s.add(h)
		h = tag.Target
	}
}

func (s *selection) add(h plumbing.Hash) {
	if !s.seen[h] {
		s.seen[h] = true
		s.out = append(s.out, h)
	}
}

// place is a tree that is to be chosen, with the trees that stand in the same place
// at the client or in a commit that was chosen before.
type place struct {
	tree plumbing.Hash
	with []plumbing.Hash
}

// addTree chooses a tree and what is below it, except for what the trees of
// with, which stand in the same place, have as well. Equal subtrees are not
// entered: the work is proportional to the difference. However deep folders lie in
// each other, it calls nothing for each level.
func (s *selection) addTree(h plumbing.Hash, with []plumbing.Hash) error {
	for stack := []place{{h, with}}; len(stack) > 0; {
		p := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if s.seen[p.tree] || slices.Contains(p.with, p.tree) {
			continue
		}
		below, err := s.beside(p.with)
		if err != nil {
			return err
		}
		s.add(p.tree)
		entries, err := readTree(s.st, p.tree)
		if err != nil {
			return err
		}
		for _, e := range entries {
			switch e.mode {
			case filemode.Submodule:
			case filemode.Dir:
				stack = append(stack, place{e.hash, below[e.name]})
			default:
				s.add(e.hash)
			}
		}
	}
	return nil
}

// beside are the folders in trees that are not to be sent, by name; their files are
// not to be sent either.
func (s *selection) beside(trees []plumbing.Hash) (map[string][]plumbing.Hash, error) {
	if len(trees) == 0 {
		return nil, nil
	}
	below := make(map[string][]plumbing.Hash)
	for _, w := range trees {
		entries, err := readTree(s.st, w)
		if err != nil {
			return nil, err
		}
		for _, e := range entries {
			if e.mode == filemode.Dir {
				below[e.name] = append(below[e.name], e.hash)
			} else {
				s.seen[e.hash] = true
			}
		}
	}
	return below, nil
}
