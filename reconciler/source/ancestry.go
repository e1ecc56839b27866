package source

import (
	"container/heap"
	"context"
	"errors"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
)

// Raw returns a commit, or an annotated tag, as Git stores it: what a
// signature is over. It may have 1 MiB.
func (s *Source) Raw(sha string) ([]byte, error) {
	h, err := s.hash(sha)
	if err != nil {
		return nil, err
	}
	return s.repo.objects().raw(h)
}

// Bring makes an older commit readable with all its files, for going back to
// it, and returns it. It asks the remote when the commit is not here.
func (s *Source) Bring(ctx context.Context, sha string) (Commit, error) {
	h, err := s.hash(sha)
	if err != nil {
		return Commit{}, err
	}
	if err := s.repo.bring(ctx, h); err != nil {
		return Commit{}, err
	}
	return s.Commit(sha)
}

// Node is one commit of a range.
type Node struct {
	SHA     string
	Parents []string
}

// maxRange bounds the commits of a range.
const maxRange = 10_000

// Range returns the commits that are in the history of head but not in that of
// base, parents before their children: what `git rev-list base..head --reverse`
// lists. With base "" that is all of the history. More of it is brought here
// when it must be; when it cannot be, the error is ErrMissing, never a part of
// the range. One of more than 10,000 commits is ErrTooLarge.
func (s *Source) Range(ctx context.Context, base, head string) ([]Node, error) {
	to, err := s.hash(head)
	if err != nil {
		return nil, err
	}
	var from plumbing.Hash
	if base != "" {
		if from, err = s.hash(base); err != nil {
			return nil, err
		}
	}
	var nodes []Node
	err = s.asFarAsNeeded(ctx, func() (whole bool, err error) {
		nodes, whole, err = s.repo.objects().between(from, to)
		return whole, err
	})
	return nodes, err
}

// IsAncestor says whether the commit a is in the history of b, or is b. More
// of the history is brought here when it must be; ErrMissing when it cannot be
// and there is no answer without it.
func (s *Source) IsAncestor(ctx context.Context, a, b string) (bool, error) {
	of, err := s.hash(b)
	if err != nil {
		return false, err
	}
	h, err := s.hash(a)
	if err != nil {
		return false, err
	}
	var yes bool
	err = s.asFarAsNeeded(ctx, func() (whole bool, err error) {
		c, err := s.repo.objects().commit(of)
		if err != nil {
			return false, err
		}
		yes, whole = s.repo.objects().descends(c, h)
		return whole, nil
	})
	return yes, err
}

// asFarAsNeeded asks a question of the history, with more of it until the
// answer is whole.
func (s *Source) asFarAsNeeded(ctx context.Context, question func() (whole bool, err error)) error {
	for {
		whole, err := question()
		if err != nil || whole {
			return err
		}
		more, err := s.repo.deepen(ctx)
		if err != nil {
			return err
		}
		if !more {
			return problem(ErrMissing, "the history that is here ends too early: the remote is shallow itself, or its history is longer than %d commits", depths[len(depths)-1])
		}
	}
}

// slop is how many commits of base are still looked at when nothing else is
// left: clocks of committers may be apart.
const slop = 256

// between walks from base and head at once, youngest first, until only what
// base has is left. whole is false when commits were missed on the way.
func (o *objects) between(base, head plumbing.Hash) (nodes []Node, whole bool, err error) {
	w := coloured{objs: o, old: make(map[plumbing.Hash]bool), seen: make(map[plumbing.Hash]bool), whole: true}
	if err := w.push(head); err != nil {
		return nil, false, err
	}
	if !base.IsZero() {
		w.old[base] = true
		if err := w.push(base); err != nil && !errors.Is(err, ErrMissing) {
			return nil, false, err
		} else if err != nil {
			w.baseMissing = true
		}
	}
	var fresh []*object.Commit
	for spare := slop; w.heap.Len() > 0 && spare > 0; {
		c := heap.Pop(&w.heap).(*object.Commit)
		if w.old[c.Hash] {
			if !w.freshLeft() {
				spare--
			}
		} else if fresh = append(fresh, c); len(fresh) > maxRange {
			return nil, false, problem(ErrTooLarge, "there are more than %d commits between %s and %s", maxRange, short(base.String()), short(head.String()))
		}
		if err := w.parents(c); err != nil {
			return nil, false, err
		}
	}
	for _, c := range fresh {
		if w.old[c.Hash] {
			continue // its colour came late
		}
		n := Node{SHA: c.Hash.String()}
		for _, p := range c.ParentHashes {
			n.Parents = append(n.Parents, p.String())
		}
		nodes = append(nodes, n)
	}
	if w.baseMissing && w.whole {
		return nil, false, problem(ErrMissing, "commit %s is not in the history of commit %s, nor anywhere else here", short(base.String()), short(head.String()))
	}
	return parentsFirst(nodes), w.whole, nil
}

// coloured is the walk of between: commits of base are old.
type coloured struct {
	objs        *objects
	heap        byAge
	old, seen   map[plumbing.Hash]bool
	whole       bool
	baseMissing bool
}

func (w *coloured) push(h plumbing.Hash) error {
	if w.seen[h] {
		return nil
	}
	c, err := w.objs.commit(h)
	if err != nil {
		return err
	}
	w.seen[h] = true
	heap.Push(&w.heap, c)
	return nil
}

func (w *coloured) parents(c *object.Commit) error {
	for _, p := range c.ParentHashes {
		if w.old[c.Hash] && !w.old[p] {
			w.old[p] = true
			delete(w.seen, p) // to tell its parents, if it was passed already
		}
		err := w.push(p)
		switch {
		case errors.Is(err, ErrMissing):
			// What base is made of need not be here; what head is must be.
			w.whole = w.whole && w.old[p]
		case err != nil:
			return err
		}
	}
	return nil
}

func (w *coloured) freshLeft() bool {
	return slices.ContainsFunc(w.heap, func(c *object.Commit) bool { return !w.old[c.Hash] })
}

// byAge implements heap.Interface, the youngest first.
type byAge []*object.Commit

func (h byAge) Len() int           { return len(h) }
func (h byAge) Less(i, j int) bool { return h[i].Committer.When.After(h[j].Committer.When) }
func (h byAge) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *byAge) Push(x any)        { *h = append(*h, x.(*object.Commit)) }
func (h *byAge) Pop() any {
	old := *h
	c := old[len(old)-1]
	*h = old[:len(old)-1]
	return c
}

// parentsFirst orders nodes so that none comes before a parent. Between those
// without order the oldest by date comes first.
func parentsFirst(nodes []Node) []Node {
	at := make(map[string]int, len(nodes))
	for i, n := range nodes {
		at[n.SHA] = i
	}
	out := make([]Node, 0, len(nodes))
	done := make([]bool, len(nodes))
	for i := len(nodes) - 1; i >= 0; i-- {
		for stack := []int{i}; len(stack) > 0; {
			j, ready := stack[len(stack)-1], true
			for _, p := range nodes[j].Parents {
				if k, in := at[p]; in && !done[k] {
					stack, ready = append(stack, k), false
				}
			}
			if !ready {
				continue
			}
			stack = stack[:len(stack)-1]
			if !done[j] {
				done[j] = true
				out = append(out, nodes[j])
			}
		}
	}
	return out
}
