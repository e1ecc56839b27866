package source

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
)

// update brings what is new. If the remote left out something that is not
// here, the head is fetched whole.
func (c *clone) update(ctx context.Context, s session, refs *packp.AdvRefs, ch choice) error {
	was, next := c.state, c.state
	a := ask{wants: []plumbing.Hash{ch.want}, has: was, largest: was.Largest}
	if _, err := c.receive(ctx, s, c.dir.repo(), a.request(refs)); err != nil {
		return err
	}
	_ = c.objs.close() // it does not know of the pack yet
	if err := c.name(&next, c.objs, ch); err != nil {
		return err
	}
	if err := c.objs.whole(was.head(), next.head(), false); err != nil {
		if !errors.Is(err, ErrMissing) {
			return fmt.Errorf("check clone of %s: %w", c.remote.loc.name, err)
		}
		if err := c.complete(ctx, ch, &next); err != nil {
			return err
		}
	}
	var err error
	if next.Rewritten, err = c.remote.target.rewritten(c.objs, was.found(), next.found()); err != nil {
		return err
	}
	if next.Head == was.Head && next.Tag == was.Tag {
		next.Rewritten = was.Rewritten
	}
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
func (c *clone) complete(ctx context.Context, ch choice, next *state) error {
	s, refs, now, err := c.remote.ask(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if now != ch {
		return problem(ErrUnreachable, "%s of %s moves while it is read: it is tried again", c.remote.target, c.remote.loc.name)
	}
	a := ask{wants: []plumbing.Hash{ch.want}, depth: 1, largest: next.Largest}
	got, err := c.receive(ctx, s, c.dir.repo(), a.request(refs))
	if err != nil {
		return err
	}
	next.Shallow = append(next.Shallow, got.shallow...)
	_ = c.objs.close()
	if err := c.objs.whole(plumbing.ZeroHash, next.head(), next.Largest > 0); err != nil {
		return fmt.Errorf("check clone of %s: %w", c.remote.loc.name, err)
	}
	next.Absent = c.objs.absentList()
	return nil
}
