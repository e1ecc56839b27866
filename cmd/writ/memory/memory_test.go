package memory

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const mib = 1 << 20

func TestWorthwhile(t *testing.T) {
	for _, tt := range []struct {
		name        string
		before, now Counters
		since       time.Duration
		want        bool
	}{
		{"quiet after a burst", Counters{Allocated: 900 * mib}, Counters{Allocated: 901 * mib, Objects: 190 * mib, Live: 100 * mib}, time.Second, true},
		{"still at work", Counters{Allocated: 900 * mib}, Counters{Allocated: 950 * mib, Objects: 190 * mib, Live: 100 * mib}, time.Second, false},
		{"a little work after a burst", Counters{Allocated: 900 * mib}, Counters{Allocated: 910 * mib, Objects: 150 * mib, Live: 100 * mib, Free: 200 * mib}, time.Second, true},
		{"the same, given back a moment ago", Counters{Allocated: 900 * mib}, Counters{Allocated: 910 * mib, Objects: 190 * mib, Live: 100 * mib, Free: 10 * mib}, time.Second, false},
		{"the same, a minute ago", Counters{Allocated: 900 * mib}, Counters{Allocated: 910 * mib, Objects: 190 * mib, Live: 100 * mib, Free: 20 * mib}, time.Minute, true},
		{"a minute ago, and less is spare than lives", Counters{Allocated: 900 * mib}, Counters{Allocated: 910 * mib, Objects: 180 * mib, Live: 100 * mib, Free: 10 * mib}, time.Hour, false},
		{"a minute ago, and hard at work", Counters{Allocated: 900 * mib}, Counters{Allocated: 980 * mib, Objects: 190 * mib, Live: 100 * mib, Free: 20 * mib}, time.Hour, false},
		{"quiet and clean", Counters{Allocated: 900 * mib}, Counters{Allocated: 901 * mib, Objects: 105 * mib, Live: 100 * mib}, time.Second, false},
		{"freed and not given back", Counters{Allocated: 900 * mib}, Counters{Allocated: 901 * mib, Objects: 101 * mib, Live: 100 * mib, Free: 60 * mib}, time.Second, true},
		{"small", Counters{Allocated: 9 * mib}, Counters{Allocated: 9 * mib, Objects: 9 * mib, Live: 4 * mib}, time.Second, false},
		{"collected meanwhile", Counters{Allocated: 9 * mib}, Counters{Allocated: 9 * mib, Objects: 30 * mib, Live: 40 * mib}, time.Second, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := worthwhile(tt.before, tt.now, tt.since); got != tt.want {
				t.Errorf("got %v", got)
			}
		})
	}
}

// TestKeeper has a burst end: memory is collected once, and not again.
func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c, collected := Counters{Live: 50 * mib, Objects: 60 * mib}, 0
		end := time.Now().Add(time.Minute)
		ctx, cancel := context.WithCancel(t.Context())
		k := New(Config{
			Read: func() Counters {
				if time.Now().Before(end) {
					c.Allocated += 100 * mib
					c.Objects = 95 * mib
				}
				return c
			},
			Collect: func() {
				if time.Now().Before(end) {
					t.Error("collected in the middle of work")
				}
				collected++
				c.Objects, c.Live = 51*mib, 51*mib
			},
		})
		done := make(chan error, 1)
		go func() { done <- k.Run(ctx) }()
		time.Sleep(10 * time.Minute)
		cancel()
		if err := <-done; err != nil || collected != 1 {
			t.Errorf("collected %d times, %v", collected, err)
		}
	})
}

func TestRead(t *testing.T) {
	before := read()
	held := make([]byte, 32*mib)
	now := read()
	if grown := now.Allocated - before.Allocated; grown < 32*mib || now.Objects < 32*mib {
		t.Errorf("32 MiB allocated: the counters show %d and %d", grown, now.Objects)
	}
	runtime.KeepAlive(held)
}
