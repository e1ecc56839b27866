package webhook

import (
	"sync"
	"time"

	"golang.org/x/time/rate"
)

// maxKeys bounds the clients and deliveries that are remembered: what is over
// it is forgotten, the oldest half first.
const maxKeys = 10_000

// limiters are the rates of many clients or repositories.
type limiters struct {
	rate  rate.Limit
	burst int

	mu   sync.Mutex
	now  map[string]*rate.Limiter
	last map[string]*rate.Limiter // of the time before
}

func newLimiters(r rate.Limit, burst int) *limiters {
	return &limiters{rate: r, burst: burst, now: make(map[string]*rate.Limiter)}
}

func (l *limiters) allow(key string, at time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	lim, ok := l.now[key]
	if !ok {
		if lim, ok = l.last[key]; !ok {
			lim = rate.NewLimiter(l.rate, l.burst)
		}
		if len(l.now) >= maxKeys/2 {
			l.now, l.last = make(map[string]*rate.Limiter), l.now
		}
		l.now[key] = lim
	}
	return lim.AllowN(at, 1)
}

// remembered is how long a delivery is known again, at least as long as a
// signed time may be off.
const remembered = 2 * maxAge

// deliveries are the ids of what was heard, against replays.
type deliveries struct {
	mu        sync.Mutex
	now, last map[string]bool
	since     time.Time
}

func newDeliveries() *deliveries { return &deliveries{now: make(map[string]bool)} }

// first says whether a delivery is heard for the first time.
func (d *deliveries) first(id string, at time.Time) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if at.Sub(d.since) > remembered || len(d.now) >= maxKeys/2 {
		d.now, d.last, d.since = make(map[string]bool), d.now, at
	}
	if d.now[id] || d.last[id] {
		return false
	}
	d.now[id] = true
	return true
}
