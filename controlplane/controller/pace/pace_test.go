package pace

import (
	"testing"
	"time"
)

// spin runs a loop for a span of time; each round takes a millisecond and asks
// for what ask returns.
func spin(g *Guard, span time.Duration, ask func(now time.Time) (time.Time, bool)) (rounds, held int) {
	now := time.Unix(0, 0)
	for end := now.Add(span); now.Before(end); rounds++ {
		now = now.Add(time.Millisecond)
		want, effect := ask(now)
		wake, h := g.Next(now, want, effect)
		if h {
			held++
		}
		if wake.IsZero() {
			return rounds + 1, held
		}
		if wake.After(now) {
			now = wake
		}
	}
	return rounds, held
}

func TestSpinningLoopIsHeld(t *testing.T) {
	for name, ask := range map[string]func(time.Time) (time.Time, bool){
		"a time that is past":     func(time.Time) (time.Time, bool) { return time.Unix(1, 0), false },
		"now":                     func(now time.Time) (time.Time, bool) { return now, false },
		"a millisecond from now":  func(now time.Time) (time.Time, bool) { return now.Add(time.Millisecond), false },
		"200 ms again and again":  func(now time.Time) (time.Time, bool) { return now.Add(200 * time.Millisecond), false },
		"just under what is near": func(now time.Time) (time.Time, bool) { return now.Add(Near - 1), false },
	} {
		t.Run(name, func(t *testing.T) {
			rounds, held := spin(&Guard{}, 24*time.Hour, ask)
			if rounds > 24*12+20 {
				t.Errorf("%d rounds in a day", rounds)
			}
			if held < rounds-Free-1 {
				t.Errorf("%d of %d rounds counted", held, rounds)
			}
		})
	}
}

func TestSoundLoopIsLeftAlone(t *testing.T) {
	n := 0
	for name, c := range map[string]struct {
		ask    func(time.Time) (time.Time, bool)
		rounds int
	}{
		"a look every second":         {func(now time.Time) (time.Time, bool) { return now.Add(time.Second), false }, 3600},
		"work as fast as it comes":    {func(now time.Time) (time.Time, bool) { return now.Add(10 * time.Millisecond), true }, 3600 * 90},
		"nothing to wait for":         {func(time.Time) (time.Time, bool) { return time.Time{}, false }, 1},
		"a few at once, then an hour": {func(now time.Time) (time.Time, bool) { n++; return now.Add(time.Duration(n/3) * time.Hour), false }, 3},
	} {
		t.Run(name, func(t *testing.T) {
			rounds, held := spin(&Guard{}, time.Hour, c.ask)
			if held != 0 || rounds < c.rounds-5 {
				t.Errorf("%d rounds, %d held", rounds, held)
			}
		})
	}
}

func TestEffectEndsThePause(t *testing.T) {
	g, now := &Guard{}, time.Unix(0, 0)
	for range 20 {
		g.Next(now, now, false)
	}
	if wake, held := g.Next(now, now, false); !held || !g.Idle() || wake.Sub(now) != Longest {
		t.Fatalf("after 20 idle rounds: %v %v", wake.Sub(now), held)
	}
	want := now.Add(50 * time.Millisecond)
	if wake, held := g.Next(now, want, true); held || g.Idle() || wake != want {
		t.Errorf("after an effect: %v %v", wake, held)
	}
	if wake, held := g.Next(now, want, false); held || wake != want {
		t.Errorf("the first idle round after it: %v %v", wake, held)
	}
}

// A loop that is woken by what it does itself has a thousand rounds free, and one a
// second from then on; a pause begins anew.
func TestBusyLoopIsSlowedDown(t *testing.T) {
	var l Loop
	now := time.Unix(0, 0)
	rounds := 0
	for end := now.Add(time.Hour); now.Before(end); rounds++ {
		now = now.Add(l.Begin(now)).Add(time.Millisecond)
		if _, held := l.End(now, time.Time{}, true); held {
			t.Fatal("the guard held what waits for events")
		}
	}
	if rounds < 3600 || rounds > 3600+1500 {
		t.Errorf("%d rounds in an hour", rounds)
	}
	if n := l.Held(); n < 3000 || n > uint64(rounds) {
		t.Errorf("%d counted", n)
	}
	now = now.Add(10 * time.Second)
	for range BusyFree {
		if rest := l.Begin(now); rest > 0 {
			t.Fatalf("after a pause it rests for %v", rest)
		}
		l.End(now, time.Time{}, true)
	}
}
