package sandbox

import (
	"cmp"
	"context"
	"slices"
	"time"
)

// Warm starts a child of a pool where none waits or works, so that the next call
// has one. It returns when that is ready; what is wrong the next call says.
func (s *Sandbox) Warm(ctx context.Context, pool string) {
	if s == nil {
		return
	}
	places := s.slotsOf(pool)
	select {
	case places <- struct{}{}:
		<-places
	default:
		return // all that there may be are at work
	}
	if c := s.take(pool); c != nil {
		s.keep(c) // for as long as if it had worked
		return
	}
	ready := make(chan struct{})
	defer close(ready)
	s.mu.Lock()
	_, others := s.warm[pool]
	if !others {
		s.warm[pool] = ready
	}
	s.mu.Unlock()
	if others {
		return
	}
	c, err := s.start(ctx, pool)
	if err == nil {
		s.keep(c)
	}
	s.mu.Lock()
	delete(s.warm, pool)
	s.mu.Unlock()
}

// warmed waits for the child that Warm starts, if it does.
func (s *Sandbox) warmed(ctx context.Context, pool string) bool {
	s.mu.Lock()
	ready := s.warm[pool]
	s.mu.Unlock()
	if ready == nil {
		return false
	}
	select {
	case <-ready:
	case <-ctx.Done():
	}
	return true
}

// take takes the child of a pool that was used last: its memory is warm, and
// others may end.
func (s *Sandbox) take(pool string) *child {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, c := range slices.Backward(s.idle) {
		if c.pool == pool {
			s.idle = slices.Delete(s.idle, i, i+1)
			c.expiry.Stop()
			return c
		}
	}
	return nil
}

func (s *Sandbox) keep(c *child) {
	s.mu.Lock()
	defer s.mu.Unlock()
	waiting := 0
	for _, other := range s.idle {
		if other.pool == c.pool {
			waiting++
		}
	}
	if s.closed || waiting == slots {
		go c.stop()
		return
	}
	s.idle = append(s.idle, c)
	idle := cmp.Or(s.cfg.Idle, keepIdle)
	if c.pool != "" {
		idle = cmp.Or(s.cfg.Idle, keepPool)
	}
	c.expiry = time.AfterFunc(idle, func() { s.expire(c) })
}

func (s *Sandbox) expire(c *child) {
	s.mu.Lock()
	i := slices.Index(s.idle, c)
	if i >= 0 {
		s.idle = slices.Delete(s.idle, i, i+1)
	}
	s.mu.Unlock()
	if i >= 0 {
		c.stop()
	}
}

// Close ends the children that wait; those that work end with their calls.
func (s *Sandbox) Close() {
	s.mu.Lock()
	s.closed = true
	idle := s.idle
	s.idle = nil
	s.mu.Unlock()
	for _, c := range idle {
		c.expiry.Stop()
		c.stop()
	}
}
