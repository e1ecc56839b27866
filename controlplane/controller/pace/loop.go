package pace

import (
	"sync/atomic"
	"time"
)

// Loop guards one loop on both sides, and counts how often it was held back: it
// wakes itself by the clock without effect (Guard), or by events that it makes
// itself, round after round (Busy). The zero value is ready; all but Held is for
// one goroutine at a time.
type Loop struct {
	guard Guard
	busy  Busy
	held  atomic.Uint64
}

// Begin notes that a round begins, and returns how long it has to wait first:
// almost always 0.
func (l *Loop) Begin(now time.Time) (rest time.Duration) {
	if rest = max(l.busy.Rest(now), 0); rest > 0 {
		l.held.Add(1)
	}
	l.busy.Begin(now.Add(rest))
	return rest
}

// End notes that the round is over, and returns when the next may be; see
// Guard.Next.
func (l *Loop) End(now, want time.Time, effect bool) (wake time.Time, held bool) {
	l.busy.End(now)
	wake, held = l.guard.Next(now, want, effect)
	if held {
		l.held.Add(1)
	}
	return wake, held
}

// Held is how often the loop was held back so far. It may be called by several
// goroutines.
func (l *Loop) Held() uint64 { return l.held.Load() }
