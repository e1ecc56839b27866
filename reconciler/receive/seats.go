package receive

import (
	"context"
	"sync"
	"time"
)

// Exchanges that move packs cost memory and processor: so many run at once, in all
// and of one user, and others wait for a seat.
const (
	maxSeats     = 6
	maxUserSeats = 2
	maxWaiting   = 64 // beyond them nobody waits
	waitFor      = 30 * time.Second
)

// seats are those of one kind of exchange. Who asked first is let in first, unless
// the user has as many as one may.
type seats struct {
	mu      sync.Mutex
	taken   int
	of      map[string]int
	waiting []*waiter
}

// waiter is an exchange that waits for its turn.
type waiter struct {
	user string
	in   chan struct{} // closed when it is let in
}

// acquire takes a seat, which release gives back; false when there is none in time.
func (s *seats) acquire(ctx context.Context, user string) (release func(), ok bool) {
	s.mu.Lock()
	if len(s.waiting) >= maxWaiting {
		s.mu.Unlock()
		return nil, false
	}
	w := &waiter{user: user, in: make(chan struct{})}
	s.waiting = append(s.waiting, w)
	s.admit()
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, waitFor)
	defer cancel()
	select {
	case <-w.in:
		return func() { s.release(user) }, true
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, other := range s.waiting {
		if other == w {
			s.waiting = append(s.waiting[:i], s.waiting[i+1:]...)
			return nil, false
		}
	}
	return func() { s.release(user) }, true // let in at the last moment
}

// admit lets in who may be. The caller holds mu.
func (s *seats) admit() {
	if s.of == nil {
		s.of = map[string]int{}
	}
	left := s.waiting[:0]
	for _, w := range s.waiting {
		if s.taken < maxSeats && s.of[w.user] < maxUserSeats {
			s.taken++
			s.of[w.user]++
			close(w.in)
			continue
		}
		left = append(left, w)
	}
	clear(s.waiting[len(left):])
	s.waiting = left
}

func (s *seats) release(user string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken--
	if s.of[user]--; s.of[user] == 0 {
		delete(s.of, user)
	}
	s.admit()
}
