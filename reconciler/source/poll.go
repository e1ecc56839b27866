package source

import (
	"context"
	"math/rand/v2"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
)

const (
	defaultInterval = 15 * time.Second
	localInterval   = time.Second // reading a ref from the disk costs next to nothing
	maxInterval     = 5 * time.Minute
	defaultTimeout  = time.Minute
	// pollTimeout bounds asking a remote for the head of the branch.
	pollTimeout = 30 * time.Second
)

// answer is what the repository said when it was asked last.
type answer struct {
	head   plumbing.Hash
	failed string // text of the error; "" when it answered
}

// note keeps an answer and says whether it is news.
func (s *Source) note(head plumbing.Hash, err error) bool {
	a := answer{head: head}
	if err != nil {
		a.failed = err.Error()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if a.failed != "" {
		a.head = s.seen.head
	}
	news := a != s.seen
	s.seen = a
	return news
}

// Changed delivers when the remote may have something new: after Notify, and
// when a poll in Run saw a new head or a new failure. It has room for one
// notice.
func (s *Source) Changed() <-chan struct{} { return s.changed }

// Notify says that the remote may have something new.
func (s *Source) Notify() {
	select {
	case s.changed <- struct{}{}:
	default: // a notice is waiting
	}
}

// Run polls the remote until ctx is done. Failures make the polls rarer; they
// are for Fetch to report.
func (s *Source) Run(ctx context.Context) error {
	if s.err != nil {
		<-ctx.Done() // Fetch says why
		return nil
	}
	defer s.repo.close()
	failures := 0
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(s.pause(failures, rand.Float64())):
		}
		if s.poll(ctx) {
			failures = 0
		} else {
			failures++
		}
	}
}

// poll asks once for the head of the branch and says whether there was an
// answer.
func (s *Source) poll(ctx context.Context) bool {
	asking, cancel := context.WithTimeout(ctx, pollTimeout)
	defer cancel()
	head, err := s.repo.head(asking)
	if ctx.Err() != nil {
		return true
	}
	if s.note(head, err) {
		s.Notify()
		return err == nil
	}
	if err != nil {
		return false
	}
	if err := s.repo.tidy(ctx); err != nil && ctx.Err() == nil {
		s.cfg.Log.WarnContext(ctx, "clone not renewed", "err", err)
	}
	return true
}

// pause is how long to wait for the next poll: the interval, doubled with each
// failure in a row, and a tenth more or less so that many clusters do not ask
// at once. random is in [0, 1).
func (s *Source) pause(failures int, random float64) time.Duration {
	d := s.cfg.Interval
	if d <= 0 {
		d = defaultInterval
		if _, ok := s.repo.(*local); ok && s.cfg.Builtin == "" {
			d = localInterval
		}
	}
	return Pause(d, failures, random)
}
