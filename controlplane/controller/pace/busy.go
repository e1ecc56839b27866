package pace

import "time"

// What a loop may do whose every round has an effect. Two that undo each other's
// work, or one that writes something else each time, wake themselves by real
// events; nobody can tell them from work, but no work needs so many rounds.
const (
	// BusyFree is how many rounds may follow each other without a pause of Near.
	BusyFree = 1000
	// BusyStep is after how many more rounds the rest between two doubles.
	BusyStep     = 100
	RestShortest = 100 * time.Millisecond
	RestLongest  = time.Second
)

// Busy counts the rounds of one loop that follow each other without a pause. The
// zero value is ready; it is for one goroutine at a time.
type Busy struct {
	rounds int
	ended  time.Time // of the last round; zero while there was none
}

// Begin notes that a round begins.
func (b *Busy) Begin(now time.Time) {
	if b.Quiet(now) {
		b.rounds = 0
	}
	b.rounds++
}

// End notes that it is over.
func (b *Busy) End(now time.Time) { b.ended = now }

// Rest is how long the next round has to wait still; none for 0 or less.
func (b *Busy) Rest(now time.Time) time.Duration { return b.pause() - now.Sub(b.ended) }

// Quiet says that the last round is so long ago that it counts no more.
func (b *Busy) Quiet(now time.Time) bool { return now.Sub(b.ended) >= Near+b.pause() }

// pause is what must lie between the last round and the next.
func (b *Busy) pause() time.Duration {
	if b.rounds < BusyFree {
		return 0
	}
	return min(RestShortest<<min((b.rounds-BusyFree)/BusyStep, 10), RestLongest)
}
