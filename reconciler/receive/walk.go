package receive

import (
	"container/heap"
	"fmt"
	"sort"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/storer"
)

// commitQueue hands out commits, each once, the youngest first.
type commitQueue struct {
	st   storer.EncodedObjectStorer
	heap commitHeap
	seen map[plumbing.Hash]bool
	// has are commits that the client has; left is how many are queued that it has
	// not.
	has  map[plumbing.Hash]bool
	left int
}

func newCommitQueue(st storer.EncodedObjectStorer) *commitQueue {
	return &commitQueue{st: st, seen: make(map[plumbing.Hash]bool)}
}

// push adds a commit unless it was added before.
func (q *commitQueue) push(h plumbing.Hash) error {
	if q.seen[h] {
		return nil
	}
	q.seen[h] = true
	c, err := object.GetCommit(q.st, h)
	if err != nil {
		return fmt.Errorf("read commit %s: %w", h, err)
	}
	heap.Push(&q.heap, c)
	if !q.has[h] {
		q.left++
	}
	return nil
}

// had notes that the client has a commit, which may be queued: left are those that
// pop has not returned.
func (q *commitQueue) had(h plumbing.Hash, popped map[plumbing.Hash]bool) {
	if q.has[h] {
		return
	}
	q.has[h] = true
	if q.seen[h] && !popped[h] {
		q.left--
	}
}

// pop returns the youngest commit; nil when there is none left.
func (q *commitQueue) pop() *object.Commit {
	if len(q.heap) == 0 {
		return nil
	}
	c := heap.Pop(&q.heap).(*object.Commit)
	if !q.has[c.Hash] {
		q.left--
	}
	return c
}

// commitHeap implements heap.Interface.
type commitHeap []*object.Commit

func (h commitHeap) Len() int           { return len(h) }
func (h commitHeap) Less(i, j int) bool { return h[i].Committer.When.After(h[j].Committer.When) }
func (h commitHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }
func (h *commitHeap) Push(x any)        { *h = append(*h, x.(*object.Commit)) }
func (h *commitHeap) Pop() any {
	old := *h
	c := old[len(old)-1]
	*h = old[:len(old)-1]
	return c
}

// demand is what a client wants and what it has.
type demand struct {
	wants, haves []plumbing.Hash
	// shallow are commits whose parents the client lacks; cut are commits
	// whose parents it does not want.
	shallow, cut map[plumbing.Hash]bool
}

// split walks from the wants and the haves at once, youngest first, until
// only what the client has is left. It returns the commits to send and, as
// edge, those the client has that stand next to them.
func split(st storer.EncodedObjectStorer, wants []plumbing.Hash, d demand) (commits, edge []*object.Commit, err error) {
	q, popped := newCommitQueue(st), make(map[plumbing.Hash]bool)
	q.has = make(map[plumbing.Hash]bool)
	for _, h := range d.haves {
		q.had(h, popped)
		if err := q.push(h); err != nil {
			return nil, nil, err
		}
	}
	for _, h := range wants {
		if err := q.push(h); err != nil {
			return nil, nil, err
		}
	}
	for q.left > 0 {
		c := q.pop()
		popped[c.Hash] = true
		theirs := q.has[c.Hash]
		if theirs {
			edge = append(edge, c)
		} else {
			commits = append(commits, c)
		}
		if theirs && d.shallow[c.Hash] || !theirs && d.cut[c.Hash] {
			continue
		}
		for _, p := range c.ParentHashes {
			if theirs {
				q.had(p, popped)
			}
			if err := q.push(p); err != nil {
				return nil, nil, err
			}
		}
	}
	return commits, nearest(commits, append(edge, q.heap...)), nil
}

// maxEdge bounds the trees that each commit is compared with.
const maxEdge = 8

// nearest are those of edge that are parents of commits, a few at most.
func nearest(commits, edge []*object.Commit) []*object.Commit {
	parents := make(map[plumbing.Hash]bool)
	for _, c := range commits {
		for _, p := range c.ParentHashes {
			parents[p] = true
		}
	}
	sort.SliceStable(edge, func(i, j int) bool { return parents[edge[i].Hash] && !parents[edge[j].Hash] })
	return edge[:min(len(edge), maxEdge)]
}

// commitOrNil reads a commit; nil when h is something else.
func commitOrNil(st storer.EncodedObjectStorer, h plumbing.Hash) (*object.Commit, error) {
	o, err := st.EncodedObject(plumbing.AnyObject, h)
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", h, err)
	}
	if o.Type() != plumbing.CommitObject {
		return nil, nil
	}
	return object.DecodeCommit(st, o)
}
