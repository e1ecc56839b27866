package source

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"

	"github.com/writ-os/writ/reconciler/sandbox"
)

const (
	// Each fetch adds a pack. Past the first bound the clone is made anew when
	// there is nothing else to do, past the second at once.
	softPacks, hardPacks = 50, 500
	// growth is how many times its first size a clone may have, and spare what
	// it may have in any case.
	growth, spare = 4, 64 << 20
)

// clone is a shallow copy of one target of a remote, kept on the disk.
//
//	none ──first fetch──> whole ──fetch: delta──> whole
//	                        │ too many packs, broken: again from nothing,
//	                        └ beside the old one, which is read until then
//
// The first fetch brings the head alone; later ones what came since. The
// remote is told where the history that is here ends, else it would leave out
// files of older commits, which it takes for known.
type clone struct {
	dir     cloneDir
	remote  *remote
	objs    *objects
	limits  Limits
	timeout time.Duration
	log     *slog.Logger
	sandbox *sandbox.Sandbox
	broken  atomic.Bool

	mu     sync.Mutex
	opened bool
	state  state
}

// newClone returns a clone that reads the disk with the first fetch. notify is
// called when it finds that it must be fetched again.
func newClone(cfg Config, r *remote, notify func()) *clone {
	c := &clone{dir: cloneDir{cfg.Dir}, remote: r, limits: cfg.Limits, timeout: cfg.Timeout, log: cfg.Log, sandbox: cfg.Sandbox}
	c.objs = newObjects(c.dir.repo())
	c.objs.broken = func(error) {
		c.broken.Store(true)
		notify()
	}
	return c
}

func (c *clone) objects() *objects { return c.objs }

func (c *clone) close() error {
	c.remote.idle()
	return c.objs.close()
}

// head implements repository. A commit that is named by its SHA is asked for
// until it is here.
func (c *clone) head(ctx context.Context) (plumbing.Hash, error) {
	if h, ok := c.pinned(); ok {
		return h, nil
	}
	ctx, cancel := context.WithTimeout(ctx, min(c.timeout, pollTimeout))
	defer cancel()
	s, _, ch, err := c.remote.ask(ctx)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	_ = s.Close() // nothing was begun
	return ch.want, nil
}

// pinned is the one commit of the target, when it is here.
func (c *clone) pinned() (plumbing.Hash, bool) {
	if c.remote.target.kind != toCommit || !c.mu.TryLock() {
		return plumbing.ZeroHash, false
	}
	defer c.mu.Unlock()
	return c.state.head(), !c.state.head().IsZero()
}

// fetch implements repository.
func (c *clone) fetch(ctx context.Context) (found, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open(ctx)
	pin := c.remote.target.kind == toCommit
	if pin && !c.state.head().IsZero() {
		return c.state.found(), nil
	}
	s, refs, ch, err := c.remote.ask(ctx)
	if err != nil {
		return found{}, err
	}
	defer s.Close()
	switch {
	case pin:
		err = c.pin(ctx, s, refs, ch)
	case c.state.head().IsZero():
		err = c.renew(ctx, s, refs, ch, ask{wants: []plumbing.Hash{ch.want}, depth: 1})
	case c.state.at(ch):
	default:
		err = c.update(ctx, s, refs, ch)
	}
	if errors.Is(err, ErrMissing) && errors.Is(context.Cause(ctx), context.DeadlineExceeded) {
		// An answer that was cut off can look like a whole one without objects.
		return found{}, problem(ErrUnreachable, "%s does not answer in time: check the network and the host", c.remote.loc.name)
	}
	if err != nil {
		return found{}, err
	}
	return c.state.found(), nil
}

// last implements repository.
func (c *clone) last(ctx context.Context) (found, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open(ctx)
	return c.state.found(), !c.state.head().IsZero()
}

// open reads what an earlier process left. A clone that is not whole, or is of
// something else, is thrown away.
func (c *clone) open(ctx context.Context) {
	if c.broken.Swap(false) {
		c.log.WarnContext(ctx, "clone is damaged, fetching it again", "repository", c.remote.loc.name)
		c.opened, c.state = true, state{}
	}
	if c.opened {
		return
	}
	st, err := c.dir.load(c.remote.loc.name, c.remote.target.key())
	if st.Largest != 0 && st.Largest != c.limits.FileSize {
		st = state{} // files of another length were left out
	}
	c.objs.setAbsent(st.Absent)
	if err == nil && !st.head().IsZero() {
		err = c.objs.whole(plumbing.ZeroHash, st.head(), false)
	}
	c.broken.Store(false)
	if err != nil {
		c.log.WarnContext(ctx, "clone is not whole, fetching it again", "repository", c.remote.loc.name, "err", err)
		st = state{}
	}
	c.opened, c.state = true, st
}

// renew makes the clone from nothing, beside the one that is read.
func (c *clone) renew(ctx context.Context, s session, refs *packp.AdvRefs, ch choice, a ask) error {
	if err := c.dir.begin(c.dir.next()); err != nil {
		return err
	}
	a.largest = c.limits.FileSize
	got, err := c.receive(ctx, s, c.dir.next(), a.request(refs))
	if err != nil {
		return err
	}
	next := state{URL: c.remote.loc.name, Branch: c.remote.target.key(), Shallow: got.shallow, Depth: a.depth, Largest: c.largest(refs)}
	objs := newObjects(c.dir.next())
	defer objs.close()
	if err := c.name(&next, objs, ch); err != nil {
		return err
	}
	if err := objs.whole(plumbing.ZeroHash, next.head(), next.Largest > 0); err != nil {
		return fmt.Errorf("check clone of %s: %w", c.remote.loc.name, err)
	}
	next.Absent = objs.absentList()
	if next.Head == c.state.Head && next.Tag == c.state.Tag {
		next.Rewritten = c.state.Rewritten
	} else if !c.state.head().IsZero() {
		next.Rewritten = c.state.Tag != "" && next.Tag == c.state.Tag
	}
	if next.Size, _, err = packs(c.dir.next()); err != nil {
		return err
	}
	if err := c.dir.save(c.dir.next(), next); err != nil {
		return err
	}
	c.objs.mu.Lock()
	_ = c.objs.closeLocked()
	err = c.dir.swap()
	c.objs.mu.Unlock()
	if err != nil {
		return err
	}
	c.objs.setAbsent(next.Absent)
	c.state = next
	return nil
}

// largest is the longest file that the remote sends when it is asked to leave
// out others; 0 when it cannot be asked.
func (c *clone) largest(refs *packp.AdvRefs) int64 {
	if refs.Capabilities.Supports(capability.Filter) {
		return c.limits.FileSize
	}
	return 0
}

// name puts into a state what a choice is, now that its objects are here.
func (c *clone) name(st *state, objs *objects, ch choice) error {
	head := ch.commit
	if c.remote.target.kind != toCommit {
		var err error
		if head, err = objs.peel(ch.want, c.remote.target); err != nil {
			return err
		}
	}
	st.Head, st.Tag, st.TagObject = head.String(), ch.tag, ""
	if ch.tag != "" && ch.want != head {
		st.TagObject = ch.want.String()
	}
	return nil
}
