package trust

import (
	"container/heap"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"
)

// History answers what the repository says. Its methods may read; they are
// called one after the other.
type History interface {
	// Commit returns a commit object as Git stores it, without its header.
	Commit(sha string) ([]byte, error)
	// Changed returns the paths of files that differ between two commits, in
	// either direction; from may be "" for the empty tree. A renamed file is
	// two paths.
	Changed(from, to string) ([]string, error)
	// File returns a file of a commit; an error that is fs.ErrNotExist when
	// the commit has none.
	File(sha, path string) ([]byte, error)
}

const (
	// maxRange bounds the commits that are judged at once.
	maxRange = 5000
	// maxWalk bounds the commits that are read to find the range.
	maxWalk = 200_000
	// clockSkew is how far the clocks of committers may be apart: so far the
	// walk goes on below the oldest commit of the range.
	clockSkew = 7 * 24 * time.Hour
)

// errTooLong is a range that is not judged.
var errTooLong = errors.New("too many commits")

// reader reads commits, each once.
type reader struct {
	h    History
	seen map[string]*object
}

func (r *reader) commit(sha string) (*object, error) {
	if o := r.seen[sha]; o != nil {
		return o, nil
	}
	if len(r.seen) >= maxWalk {
		return nil, errTooLong
	}
	raw, err := r.h.Commit(sha)
	if err != nil {
		return nil, fmt.Errorf("read commit %s: %w", short(sha), err)
	}
	o, err := parseObject(sha, raw)
	if err != nil {
		return nil, &brokenError{sha, err}
	}
	r.seen[sha] = o
	return o, nil
}

// brokenError is a commit that is here and cannot be read: it will not become
// better, so it is a finding.
type brokenError struct {
	sha string
	err error
}

func (e *brokenError) Error() string { return e.err.Error() }

// relation is how a head lies to the commit that is applied.
type relation int

const (
	forward relation = iota // the head descends from the base
	same
	older     // the base descends from the head
	rewritten // neither
)

// stretch is the commits that are new: those that the head reaches and the
// base does not, parents before children.
type stretch struct {
	relation relation
	commits  []*object
	in       map[string]int // index in commits
	reach    [][]uint64     // by index: the new commits in its history, as bits
}

const (
	fromHead = 1 << iota
	fromBase
)

// walk finds the new commits, as git rev-list base..head does: the newest
// commit first, until all that is left is reached by the base too.
func (r *reader) walk(ctx context.Context, base, head string) (*stretch, error) {
	out := &stretch{in: map[string]int{}}
	if base == head {
		out.relation = same
		return out, nil
	}
	w := walk{r: r, head: head, flags: map[string]int{}}
	if err := errors.Join(w.push(head, fromHead), w.push(base, fromBase)); err != nil {
		return nil, err
	}
	if err := w.run(ctx, base); err != nil {
		return nil, err
	}
	switch {
	case w.flags[base]&fromHead != 0:
	case w.flags[head]&fromBase != 0:
		out.relation = older
	default:
		out.relation = rewritten
	}
	out.commits = w.fresh()
	if len(out.commits) > maxRange {
		return nil, errTooLong
	}
	for i, o := range out.commits {
		out.in[o.sha] = i
	}
	return out, nil
}

type walk struct {
	r     *reader
	head  string
	flags map[string]int
	queue byTime
	open  int // commits in the queue that only the head reaches
}

// push adds a flag to a commit, and to the queue if that is news. A commit
// that the base reaches may be missing: the clone of a busy repository is
// shallow, and what lies below the base was judged once.
func (w *walk) push(sha string, flag int) error {
	before := w.flags[sha]
	after := before | flag
	if after == before {
		return nil
	}
	w.flags[sha] = after
	o, err := w.r.commit(sha)
	if err != nil {
		if missing(err) && after&fromBase != 0 {
			return nil
		}
		return err
	}
	heap.Push(&w.queue, queued{o, after})
	if after == fromHead {
		w.open++
	}
	return nil
}

func (w *walk) run(ctx context.Context, base string) error {
	var oldest time.Time // of the new commits that do not descend from the base
	settled := false
	for w.queue.Len() > 0 {
		if err := ctx.Err(); err != nil {
			return err
		}
		if w.open == 0 && !settled {
			var beside bool
			if oldest, beside = w.beside(base); !beside {
				return nil
			}
			settled = true
		}
		q := heap.Pop(&w.queue).(queued)
		if q.flags == fromHead {
			w.open--
		}
		if settled && q.o.committer.when.Before(oldest.Add(-clockSkew)) {
			return nil
		}
		for _, p := range q.o.parents {
			if err := w.push(p, w.flags[q.o.sha]); err != nil {
				return err
			}
		}
	}
	return nil
}

// beside says whether there are new commits that do not descend from the base,
// and how old they are: of these alone it is not known yet whether the base
// reaches them. When the head goes forward from the base there are mostly none,
// and nothing below the base needs to be read.
func (w *walk) beside(base string) (oldest time.Time, some bool) {
	descends := map[string]bool{base: true}
	for _, o := range w.fresh() {
		for _, p := range o.parents {
			descends[o.sha] = descends[o.sha] || descends[p]
		}
		if !descends[o.sha] && (!some || o.committer.when.Before(oldest)) {
			oldest, some = o.committer.when, true
		}
	}
	return oldest, some || w.flags[base]&fromHead == 0
}

// fresh lists the commits that only the head reaches, parents before children.
func (w *walk) fresh() []*object {
	type frame struct {
		o    *object
		next int
	}
	var out []*object
	visited := map[string]bool{}
	var stack []frame
	visit := func(sha string) {
		if o := w.r.seen[sha]; o != nil && w.flags[sha] == fromHead && !visited[sha] {
			visited[sha] = true
			stack = append(stack, frame{o: o})
		}
	}
	visit(w.head)
	for len(stack) > 0 {
		f := &stack[len(stack)-1]
		if f.next < len(f.o.parents) {
			f.next++
			visit(f.o.parents[f.next-1])
			continue
		}
		out = append(out, f.o)
		stack = stack[:len(stack)-1]
	}
	return out
}

// queued is a commit with the flags that it had when it was queued.
type queued struct {
	o     *object
	flags int
}

// byTime is a heap of commits, the newest first.
type byTime []queued

func (q byTime) Len() int           { return len(q) }
func (q byTime) Less(i, j int) bool { return q[i].o.committer.when.After(q[j].o.committer.when) }
func (q byTime) Swap(i, j int)      { q[i], q[j] = q[j], q[i] }
func (q *byTime) Push(x any)        { *q = append(*q, x.(queued)) }
func (q *byTime) Pop() any {
	last := (*q)[len(*q)-1]
	*q = (*q)[:len(*q)-1]
	return last
}

// missing says whether an error means that a file is not in a commit.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
