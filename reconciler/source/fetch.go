package source

import (
	"context"
)

// Fetch asks the remote for the commit of the target and brings its files
// here. When that fails, the commit beside the error is the last one that was
// fetched, Stale, if there is one: it is readable, also after a restart.
func (s *Source) Fetch(ctx context.Context) (Commit, error) {
	if s.err != nil {
		return Commit{}, s.err
	}
	s.fetching.Lock()
	defer s.fetching.Unlock()
	f, err := s.repo.fetch(ctx)
	if ctx.Err() == nil {
		s.note(f.want, err)
	}
	var c Commit
	if err == nil {
		c, err = s.read(f)
	}
	if err != nil {
		c, _ = s.last(ctx)
		return c, err
	}
	return c, nil
}

// Last returns the last commit that was fetched, also by an earlier process,
// without asking the remote. It is Stale; ErrMissing says that there is none.
func (s *Source) Last(ctx context.Context) (Commit, error) {
	if s.err != nil {
		return Commit{}, s.err
	}
	s.fetching.Lock()
	defer s.fetching.Unlock()
	return s.last(ctx)
}

func (s *Source) last(ctx context.Context) (Commit, error) {
	f, ok := s.repo.last(ctx)
	if !ok {
		return Commit{}, problem(ErrMissing, "nothing was fetched yet")
	}
	c, err := s.read(f)
	if err != nil {
		return Commit{}, err
	}
	c.Stale = true
	return c, nil
}

// read makes a Commit of what was found; it must have the folder to follow.
func (s *Source) read(f found) (Commit, error) {
	c, err := s.repo.objects().commit(f.head)
	if err != nil {
		return Commit{}, err
	}
	if err := s.checkPath(f.head); err != nil {
		return Commit{}, err
	}
	out := commitOf(c)
	out.Rewritten, out.Tag = f.rewritten, f.tag
	if f.want != f.head {
		out.TagObject = f.want.String()
	}
	return out, nil
}
