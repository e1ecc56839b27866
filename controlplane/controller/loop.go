package controller

import (
	"time"

	"github.com/writ-os/writ/controlplane/controller/pace"
	"github.com/writ-os/writ/schema"
)

// What a key may do whose every round has an effect. Two controllers that undo
// each other's work, or one that writes something else each time, wake
// themselves by real events; nobody can tell them from work, but no work needs
// so many rounds.
const (
	// busyFree is how many rounds may follow each other without a pause of
	// pace.Near.
	busyFree = 1000
	// busyStep is after how many more rounds the rest between two doubles.
	busyStep     = 100
	restShortest = 100 * time.Millisecond
	restLongest  = time.Second
)

// loop is what the queue knows of the past rounds of one key.
type loop struct {
	guard  pace.Guard // of rounds without effect
	rounds int        // one after the other without a pause
	ended  time.Time  // of the last one; zero while there was none
}

// begin notes that a round begins.
func (l *loop) begin(now time.Time) {
	if now.Sub(l.ended) >= pace.Near+l.pause() {
		l.rounds = 0
	}
	l.rounds++
}

// pause is what must lie between the last round and the next.
func (l *loop) pause() time.Duration {
	if l.rounds < busyFree {
		return 0
	}
	return min(restShortest<<min((l.rounds-busyFree)/busyStep, 10), restLongest)
}

// rest is how long the key has to wait still.
func (l *loop) rest(now time.Time) time.Duration {
	if l == nil {
		return 0
	}
	return l.pause() - now.Sub(l.ended)
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
		if !active && l.guard == (pace.Guard{}) && now.Sub(l.ended) >= pace.Near+l.pause() {
			delete(q.loops, key)
		}
	}
}
