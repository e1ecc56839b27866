package source

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp"
	"github.com/go-git/go-git/v5/plumbing/protocol/packp/capability"
)

// tidy implements repository: it renews a clone that has grown.
func (c *clone) tidy(ctx context.Context) error {
	if !c.mu.TryLock() {
		return nil // a fetch is under way
	}
	defer c.mu.Unlock()
	if !c.opened || c.state.head().IsZero() || c.remote.target.kind == toCommit || !c.grown(softPacks) {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	return c.again(ctx)
}

// again renews the clone at the head that it has. If the target has moved
// meanwhile it is left for later: that fetch must see both heads.
func (c *clone) again(ctx context.Context) error {
	s, refs, ch, err := c.remote.ask(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	if !c.state.at(ch) {
		return nil
	}
	return c.renew(ctx, s, refs, ch, ask{wants: []plumbing.Hash{ch.want}, depth: 1})
}

func (c *clone) grown(most int) bool {
	size, n, err := packs(c.dir.repo())
	return err == nil && (n > most || size > growth*c.state.Size+spare)
}

// depths are how deep the history is asked for, one after the other.
var depths = [...]int{50, 500, 5_000, 50_000}

// deepen implements repository.
func (c *clone) deepen(ctx context.Context) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open(ctx)
	if len(c.state.Shallow) == 0 || c.state.head().IsZero() {
		return false, nil
	}
	i := slices.IndexFunc(depths[:], func(d int) bool { return d > c.state.Depth })
	if i < 0 {
		return false, nil
	}
	s, refs, ch, err := c.remote.ask(ctx)
	if err != nil {
		return false, err
	}
	defer s.Close()
	if !refs.Capabilities.Supports(capability.Shallow) {
		return false, nil
	}
	a := ask{wants: []plumbing.Hash{ch.want}, has: c.state, depth: depths[i], largest: c.state.Largest}
	return true, c.more(ctx, s, refs, a)
}

// more takes in what a request for an older part of the history brings.
func (c *clone) more(ctx context.Context, s session, refs *packp.AdvRefs, a ask) error {
	got, err := c.receive(ctx, s, c.dir.repo(), a.request(refs))
	if err != nil {
		return err
	}
	_ = c.objs.close()
	next := c.state
	next.Depth = max(next.Depth, a.depth)
	next.Shallow = slices.DeleteFunc(slices.Concat(next.Shallow, got.shallow), func(h string) bool { return slices.Contains(got.unshallow, h) })
	slices.Sort(next.Shallow)
	next.Shallow = slices.Compact(next.Shallow)
	if next.Size, _, err = packs(c.dir.repo()); err != nil {
		return err
	}
	if err := c.dir.save(c.dir.repo(), next); err != nil {
		return err
	}
	c.state = next
	return nil
}

// bring implements repository: by its SHA where the remote gives commits out
// so, else by deepening the history until it is there.
func (c *clone) bring(ctx context.Context, h plumbing.Hash) error {
	if c.objs.whole(plumbing.ZeroHash, h, false) == nil {
		return nil
	}
	if err := c.bringBySHA(ctx, h); err == nil {
		return nil
	}
	for {
		more, err := c.deepen(ctx)
		if err != nil {
			return err
		}
		if c.checkBrought(h) == nil {
			return nil
		}
		if !more {
			return problem(ErrMissing, "commit %s is not in the history of %s of %s, as far as that is read", h, c.remote.target, c.remote.loc.name)
		}
	}
}

func (c *clone) bringBySHA(ctx context.Context, h plumbing.Hash) error {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	c.mu.Lock()
	c.open(ctx)
	s, refs, _, err := c.remote.ask(ctx)
	if err == nil {
		a := ask{wants: []plumbing.Hash{h}, depth: 1, largest: c.state.Largest}
		depth := c.state.Depth
		err = errors.Join(c.more(ctx, s, refs, a), s.Close())
		c.state.Depth = depth
	}
	c.mu.Unlock()
	if err != nil {
		return err
	}
	return c.checkBrought(h)
}

// checkBrought says whether an older commit is here whole, and remembers what
// of it was left out.
func (c *clone) checkBrought(h plumbing.Hash) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.objs.whole(plumbing.ZeroHash, h, c.state.Largest > 0); err != nil {
		return err
	}
	c.state.Absent = c.objs.absentList()
	return c.dir.save(c.dir.repo(), c.state)
}

// pin brings the one commit of the target here. It must be in a branch or a
// tag: forges give out by their SHA also commits that are in none, such as
// those of anyone's fork.
func (c *clone) pin(ctx context.Context, s session, refs *packp.AdvRefs, ch choice) error {
	if ref, ok := tipOf(refs, ch.commit); ok {
		return c.renew(ctx, s, refs, ch, ask{wants: []plumbing.Hash{ref}, depth: 1})
	}
	defer os.RemoveAll(c.dir.probe())
	tip, steps, err := c.find(ctx, s, refs, ch.commit)
	if err != nil {
		return err
	}
	// One request by SHA; a remote that gives out none gets one by its tip.
	for _, a := range []ask{{wants: []plumbing.Hash{ch.commit}, depth: 1}, {wants: []plumbing.Hash{tip}, depth: steps + 1}} {
		again, now, _, aerr := c.remote.ask(ctx)
		if aerr != nil {
			return aerr
		}
		err = c.renew(ctx, again, now, ch, a)
		_ = again.Close()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
	return err
}

// tipOf is the ref that is of a commit.
func tipOf(refs *packp.AdvRefs, h plumbing.Hash) (plumbing.Hash, bool) {
	for _, of := range refs.References {
		if of == h {
			return of, true
		}
	}
	for name, of := range refs.Peeled {
		if of == h {
			return refs.References[name], true
		}
	}
	return plumbing.ZeroHash, false
}

// maxTips bounds the refs whose history a pinned commit is looked for in.
const maxTips = 1000

// find looks for a commit in the history of every branch and tag, of which it
// reads the commits alone where the remote can leave out the files. It returns
// the ref whose history has it and how many commits lie between.
func (c *clone) find(ctx context.Context, s session, refs *packp.AdvRefs, h plumbing.Hash) (tip plumbing.Hash, steps int, err error) {
	if err := c.dir.begin(c.dir.probe()); err != nil {
		return tip, 0, err
	}
	a := ask{largest: -1}
	for _, name := range slices.Concat(names(refs.References, "refs/heads/"), names(refs.References, "refs/tags/")) {
		for _, prefix := range []string{"refs/heads/", "refs/tags/"} {
			if of, ok := refs.References[prefix+name]; ok && !slices.Contains(a.wants, of) && len(a.wants) < maxTips {
				a.wants = append(a.wants, of)
			}
		}
	}
	if _, err := c.receive(ctx, s, c.dir.probe(), a.request(refs)); err != nil {
		return tip, 0, err
	}
	objs := newObjects(c.dir.probe())
	defer objs.close()
	for _, want := range a.wants {
		at, err := objs.peel(want, c.remote.target)
		if err != nil {
			continue // a tag of something else
		}
		if n, ok := objs.path([]plumbing.Hash{at}, h); ok {
			return want, n, nil
		}
	}
	return tip, 0, noCommit(h, c.remote.loc.name)
}
