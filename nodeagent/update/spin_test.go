package update

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/writ-os/writ/schema/v1alpha1"
)

// turns counts those of an agent; ask changes what it asks for.
func (c *computer) turns(ask func(time.Duration) time.Duration) *int {
	n := new(int)
	c.asked = func(wait time.Duration) time.Duration {
		*n++
		return ask(wait)
	}
	return n
}

// In every state in which a machine may stay for weeks the loop looks as often
// as it means to, and no more.
func TestQuietWeek(t *testing.T) {
	const week = 7 * 24 * time.Hour
	for name, tt := range map[string]struct {
		begin func(*world, *computer)
		most  int
	}{
		"idle":                       {func(w *world, _ *computer) { w.await(v1alpha1.UpdateIdle, "4.0.0") }, int(week / look)},
		"staged":                     {func(w *world, _ *computer) { w.order("v5", ""); w.await(v1alpha1.UpdateStaged, "4.0.0") }, int(week / look)},
		"a source that is away":      {func(w *world, c *computer) { delete(c.source.files, "/v5"); w.order("v5", "") }, 5 * int(week/retryLast)}, // each try begins, ends, and is told of,
		"an image that nobody knows": {func(w *world, _ *computer) { w.order("v9", "") }, int(week / look)},
		"on trial, and not well yet": {func(w *world, c *computer) {
			w.order("v5", "")
			w.await(v1alpha1.UpdateStaged, "4.0.0")
			c.well = func(version string) error {
				if version == "5.0.0" {
					return errors.New("the API server does not answer")
				}
				return nil
			}
			w.reboot("v5")
		}, int(week / look)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := newComputer(w)
				n := c.turns(func(wait time.Duration) time.Duration { return wait })
				c.bounds(0, 0)
				run(t, c.life)
				tt.begin(w, c)
				time.Sleep(week)
				synctest.Wait()
				if *n > tt.most+1000 { // the way there
					t.Errorf("%d turns in a week, want at most %d", *n, tt.most)
				}
			})
		})
	}
}

// A loop that wants to wake at once, again and again, does not spin, and is
// counted.
func TestSpinningLoopIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := newComputer(w)
		n := c.turns(func(time.Duration) time.Duration { return -time.Hour })
		c.bounds(200, 24*12+50)
		run(t, c.life)
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if *n > 24*12+50 {
			t.Errorf("%d turns in a day", *n)
		}
	})
}

// A loop whose every turn wakes it is slowed down to a turn a second, and is
// counted.
func TestLoopThatWakesItselfIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := newComputer(w)
		k := 0
		n := c.turns(func(time.Duration) time.Duration {
			k++
			w.annotate("other", fmt.Sprint(k))
			return look
		})
		c.bounds(3000, 5000)
		run(t, c.life)
		time.Sleep(time.Hour)
		synctest.Wait()
		if *n > 3600+1500 || *n < 3600 {
			t.Errorf("%d turns in an hour", *n)
		}
	})
}
