// Package pace keeps a loop that wakes itself from spinning.
//
// A loop that asks to be called again "at T" is one mistake away from asking
// for a time that is past, again and again: it does nothing, as fast as the
// machine allows. A Guard stands between what the loop asks for and its timer.
// It lets through what a sound loop asks for, unchanged, and holds back a loop
// whose rounds have no effect and that wants the next one at once.
//
// Busy stands before a loop whose every round has an effect, and slows it down
// after more rounds than any work needs.
//
// It watches nothing, has no clock and imports nothing of ours: the worker of a
// pod and the queue of a controller both use it. It promises that rounds
// without effect come at most once in Longest in the long run, and that the
// first round after an effect is not late.
package pace

import "time"

// What a Guard allows.
const (
	// Near is the least time to the next wake that no guard objects to. A loop
	// that looks at something every second does so on purpose, also when now is
	// taken a little after the time from which it reckoned.
	Near = 500 * time.Millisecond
	// Free is how many rounds without effect in a row may be followed at once:
	// a timer that fires a little early, or two deadlines that meet, are not
	// worth a pause.
	Free = 3
	// Shortest and Longest are the pauses: 1, 2, 4, ... seconds up to 5 minutes.
	Shortest = time.Second
	Longest  = 5 * time.Minute
)

// Guard guards one loop, or one key of a queue. The zero value is ready; it is
// for one goroutine at a time.
type Guard struct{ idle int }

// Next returns when the loop may wake itself, now that a round is over.
//
// want is what the round has asked for; a time that is past means at once, and
// the zero time that the loop waits for an event. effect says whether the round
// changed anything that can change what the next one sees: it wrote, began or
// finished something, or answered an event from outside. A failed attempt that
// the loop itself backs off from is an effect.
//
// held says that the loop asked for less than it gets: it spun. Callers count
// that, as writ_loop_idle_wakes_total with the loop's name: on a sound system
// it stays zero.
func (g *Guard) Next(now, want time.Time, effect bool) (wake time.Time, held bool) {
	if effect || want.IsZero() || !want.Before(now.Add(Near)) {
		g.idle = 0
		return want, false
	}
	if g.idle < Free {
		g.idle++
		return want, false
	}
	pause := min(Shortest<<(g.idle-Free), Longest)
	if pause < Longest {
		g.idle++
	}
	return now.Add(pause), true
}

// Idle says whether the loop is held back at present.
func (g *Guard) Idle() bool { return g.idle > Free }
