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
)

const (
	// fetchTimeout bounds bringing objects here.
	fetchTimeout = 10 * time.Minute
	// Each fetch adds a pack. Past the first bound the clone is made anew when
	// there is nothing else to do, past the second at once.
	softPacks, hardPacks = 50, 500
	// growth is how many times its first size a clone may have, and spare what
	// it may have in any case.
	growth, spare = 4, 64 << 20
)

// clone is a shallow copy of one branch of a remote, kept on the disk.
//
//	none ──first fetch──> whole ──fetch: delta──> whole
//	                        │ too many packs, broken: again from nothing,
//	                        └ beside the old one, which is read until then
//
// The first fetch brings the head alone; later ones what came since. The
// remote is told where the history that is here ends, else it would leave out
// files of older commits, which it takes for known.
type clone struct {
	dir    cloneDir
	remote *remote
	objs   *objects
	log    *slog.Logger
	broken atomic.Bool

	mu     sync.Mutex
	opened bool
	state  state
}

// newClone returns a clone that reads the disk with the first fetch. notify is
// called when it finds that it must be fetched again.
func newClone(cfg Config, r *remote, notify func()) *clone {
	c := &clone{dir: cloneDir{cfg.Dir}, remote: r, log: cfg.Log}
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

// head implements repository.
func (c *clone) head(ctx context.Context) (plumbing.Hash, error) {
	ctx, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	s, _, h, err := c.remote.ask(ctx)
	if err != nil {
		return plumbing.ZeroHash, err
	}
	_ = s.Close() // nothing was begun
	return h, nil
}

// fetch implements repository.
func (c *clone) fetch(ctx context.Context) (plumbing.Hash, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.open(ctx); err != nil {
		return plumbing.ZeroHash, false, err
	}
	s, refs, head, err := c.remote.ask(ctx)
	if err != nil {
		return plumbing.ZeroHash, false, err
	}
	defer s.Close()
	switch was := c.state; {
	case was.head().IsZero():
		err = c.renew(ctx, s, refs, head)
	case was.head() == head:
	default:
		err = c.update(ctx, s, refs, head)
	}
	return head, c.state.Rewritten, err
}

// open reads what an earlier process left. A clone that is not whole, or is of
// something else, is thrown away.
func (c *clone) open(ctx context.Context) error {
	if c.broken.Swap(false) {
		c.log.WarnContext(ctx, "clone is damaged, fetching it again", "repository", c.remote.loc.name)
		c.opened, c.state = true, state{}
	}
	if c.opened {
		return nil
	}
	st, err := c.dir.load(c.remote.loc.name, c.remote.branch)
	if err == nil && !st.head().IsZero() {
		err = c.objs.whole(plumbing.ZeroHash, st.head())
	}
	c.broken.Store(false)
	if err != nil {
		c.log.WarnContext(ctx, "clone is not whole, fetching it again", "repository", c.remote.loc.name, "err", err)
		st = state{}
	}
	c.opened, c.state = true, st
	return nil
}

// renew makes the clone from nothing, beside the one that is read.
func (c *clone) renew(ctx context.Context, s session, refs *packp.AdvRefs, head plumbing.Hash) error {
	if err := c.dir.begin(); err != nil {
		return err
	}
	shallow, err := c.receive(ctx, s, c.dir.next(), request(refs, head, state{}))
	if err != nil {
		return err
	}
	next := state{URL: c.remote.loc.name, Branch: c.remote.branch, Head: head.String(), Shallow: shallow}
	if next.Head == c.state.Head {
		next.Rewritten = c.state.Rewritten
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
	if err := c.objs.whole(plumbing.ZeroHash, head); err != nil {
		return fmt.Errorf("check clone of %s: %w", c.remote.loc.name, err)
	}
	c.state = next
	return nil
}

// update brings what is new. If the remote left out something that is not
// here, the head is fetched whole.
func (c *clone) update(ctx context.Context, s session, refs *packp.AdvRefs, head plumbing.Hash) error {
	was, next := c.state, c.state
	_, err := c.receive(ctx, s, c.dir.repo(), request(refs, head, was))
	if err != nil {
		return err
	}
	_ = c.objs.close() // it does not know of the pack yet
	if err := c.objs.whole(was.head(), head); err != nil {
		if !errors.Is(err, ErrMissing) {
			return fmt.Errorf("check clone of %s: %w", c.remote.loc.name, err)
		}
		if err := c.complete(ctx, head, &next); err != nil {
			return err
		}
	}
	at, err := c.objs.commit(head)
	if err != nil {
		return err
	}
	next.Head, next.Rewritten = head.String(), !c.objs.descends(at, was.head())
	if err := c.dir.save(c.dir.repo(), next); err != nil {
		return err
	}
	c.state = next
	if c.grown(hardPacks) {
		return c.again(ctx)
	}
	return nil
}

// complete fetches a head without telling what is here.
func (c *clone) complete(ctx context.Context, head plumbing.Hash, next *state) error {
	s, refs, now, err := c.remote.ask(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if now != head {
		return problem(ErrUnreachable, "branch %s of %s moves while it is read: it is tried again", c.remote.branch, c.remote.loc.name)
	}
	shallow, err := c.receive(ctx, s, c.dir.repo(), request(refs, head, state{}))
	if err != nil {
		return err
	}
	next.Shallow = append(next.Shallow, shallow...)
	_ = c.objs.close()
	if err := c.objs.whole(plumbing.ZeroHash, head); err != nil {
		return fmt.Errorf("check clone of %s: %w", c.remote.loc.name, err)
	}
	return nil
}

// tidy implements repository: it renews a clone that has grown.
func (c *clone) tidy(ctx context.Context) error {
	if !c.mu.TryLock() {
		return nil // a fetch is under way
	}
	defer c.mu.Unlock()
	if !c.opened || c.state.head().IsZero() || !c.grown(softPacks) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	return c.again(ctx)
}

// again renews the clone at the head that it has. If the branch has moved
// meanwhile it is left for later: that fetch must see both heads.
func (c *clone) again(ctx context.Context) error {
	s, refs, head, err := c.remote.ask(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if head != c.state.head() {
		return nil
	}
	return c.renew(ctx, s, refs, head)
}

func (c *clone) grown(most int) bool {
	size, n, err := packs(c.dir.repo())
	return err == nil && (n > most || size > growth*c.state.Size+spare)
}
