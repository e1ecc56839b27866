package settings

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// turns runs an agent for a time and returns how often it looked, and how often
// it was held back. ask changes what a turn asks for.
func (w *world) turns(span time.Duration, ask func(time.Duration) time.Duration) (n int, held uint64) {
	w.t.Helper()
	s := w.settings()
	s.cfg.asked = func(wait time.Duration) time.Duration {
		n++
		return ask(wait)
	}
	ctx, cancel := context.WithCancel(w.t.Context())
	w.end = ctx.Done()
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	pass(span)
	cancel()
	if err := <-done; err != nil {
		w.t.Error(err)
	}
	return n, s.Held()
}

// In every state in which a node may stay for a month the loop looks as often as
// it means to, and no more.
func TestQuietMonth(t *testing.T) {
	const month = 30 * 24 * time.Hour
	unknown := full()
	unknown.Sysctls["net.nobody.knows"] = "1"
	for name, tt := range map[string]struct {
		spec *v1alpha1.NodePoolSpec
		bad  bool
		span time.Duration
		most int
	}{
		"no pool":                      {nil, false, month, 10},
		"a pool that asks for nothing": {&v1alpha1.NodePoolSpec{}, false, month, 10},
		"settings":                     {full(), false, month, int(month/look) + 10},
		"a sysctl that is not there":   {unknown, false, month, int(month/retryLast) + 20},
		"a unit that does not start":   {full(), true, 2 * 24 * time.Hour, 2*24*12 + 20}, // each try writes to the disk,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := plain(t)
				w.bad.Store(tt.bad)
				if tt.spec != nil {
					w.pool(tt.spec)
				}
				n, held := w.turns(tt.span, func(wait time.Duration) time.Duration { return wait })
				if n > tt.most || held > 0 {
					t.Errorf("%d turns in %v, want at most %d; held back %d times", n, tt.span, tt.most, held)
				}
			})
		})
	}
}

// A loop that wants to wake at once, again and again, does not spin, and is
// counted.
func TestSpinningLoopIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t)
		w.pool(full())
		n, held := w.turns(24*time.Hour, func(time.Duration) time.Duration { return time.Nanosecond })
		if n > 24*12+50 {
			t.Errorf("%d turns in a day", n)
		}
		if held < 200 {
			t.Errorf("%d wakes were counted", held)
		}
	})
}

// A loop whose every turn wakes it, as one that tells something else each time, is
// slowed down to a turn a second, and is counted.
func TestLoopThatWakesItselfIsHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t)
		k := 0
		n, held := w.turns(time.Hour, func(time.Duration) time.Duration {
			k++
			n, _ := client.Cached[*corev1.Node](w.api.Cache(), schema.Key{Name: "n1"})
			n = n.DeepCopy()
			n.Annotations = map[string]string{"told": fmt.Sprint(k)}
			w.api.Put(n)
			return look
		})
		if n > 3600+1500 || n < 3600 {
			t.Errorf("%d turns in an hour", n)
		}
		if held < 3000 {
			t.Errorf("%d were counted", held)
		}
	})
}
