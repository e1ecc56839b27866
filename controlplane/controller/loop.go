package controller

import (
	"time"

	"github.com/writ-os/writ/controlplane/controller/pace"
	"github.com/writ-os/writ/schema"
)

// loop is what the queue knows of the past rounds of one key.
type loop struct {
	guard pace.Guard // of rounds without effect
	busy  pace.Busy  // of the others
}

// rest is how long the key has to wait still.
func (l *loop) rest(now time.Time) time.Duration {
	if l == nil {
		return 0
	}
	return l.busy.Rest(now)
}

func (q *queue) loop(key schema.Key) *loop {
	l := q.loops[key]
	if l == nil {
		l = &loop{}
		q.loops[key] = l
	}
	return l
}

// tidy forgets the rounds of keys that have been quiet.
func (q *queue) tidy() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for key, l := range q.loops {
		_, active := q.active[key]
		if !active && l.guard == (pace.Guard{}) && l.busy.Quiet(now) {
			delete(q.loops, key)
		}
	}
}
