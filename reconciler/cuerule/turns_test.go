package cuerule

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

func sleep(d time.Duration) func(context.Context) int {
	return func(context.Context) int {
		time.Sleep(d)
		return 1
	}
}

// TestOneAtATime: everybody gets a turn, whatever the turns of all take together.
func TestOneAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &Turns{Limit: time.Second}
		var inside, most atomic.Int32
		var all sync.WaitGroup
		for range 16 {
			all.Go(func() {
				v, err := Take(t.Context(), turns, func(context.Context) int32 {
					n := inside.Add(1)
					most.Store(max(most.Load(), n))
					time.Sleep(900 * time.Millisecond)
					return -inside.Add(-1) + 7
				})
				if v != 7 || err != nil {
					t.Error(v, err)
				}
			})
		}
		all.Wait()
		if most.Load() != 1 {
			t.Errorf("%d evaluated at once", most.Load())
		}
	})
}

// TestLate: nobody waits longer than the limit behind an evaluation that takes
// long, none is begun before that ends, and then they are again.
func TestLate(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns, begin := &Turns{Limit: time.Second}, time.Now()
		var all sync.WaitGroup
		for range 4 {
			all.Go(func() {
				if v, err := Take(t.Context(), turns, sleep(time.Minute)); v != 0 || !errors.Is(err, ErrLate) || time.Since(begin) != time.Second {
					t.Error(v, err, time.Since(begin))
				}
			})
		}
		all.Wait()
		if _, err := Take(t.Context(), turns, sleep(0)); !errors.Is(err, ErrLate) || time.Since(begin) != time.Second {
			t.Error(err, time.Since(begin))
		}
		time.Sleep(time.Minute)
		if v, err := Take(t.Context(), turns, sleep(0)); v != 1 || err != nil {
			t.Error(v, err)
		}
	})
}

// TestPart: what is cut short by the limit is nobody's result.
func TestPart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		v, err := Take(t.Context(), &Turns{Limit: time.Second}, func(ctx context.Context) int {
			<-ctx.Done()
			return 1
		})
		if v != 0 || !errors.Is(err, ErrLate) {
			t.Error(v, err)
		}
	})
}

// TestGone: one who no longer waits does not make the next late.
func TestGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := &Turns{Limit: time.Second}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		defer cancel()
		for range 2 { // one in its turn, one waiting for it
			if _, err := Take(ctx, turns, sleep(time.Second/2)); !errors.Is(err, context.DeadlineExceeded) {
				t.Error(err)
			}
		}
		if v, err := Take(t.Context(), turns, sleep(0)); v != 1 || err != nil {
			t.Error(v, err)
		}
	})
}
