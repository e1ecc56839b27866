package controllers

import (
	"context"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller"
	"github.com/writ-os/writ/schema"
)

// looks is how often a key is looked at in a month at most, without any event.
const looks = 30 * 24 * 6

// month is what a controller may do in 30 days of a world in which nothing
// happens, beyond its first day.
type month struct {
	// every is how often it looks by itself at a key that is in keys, or at each of
	// its keys where that is nil; 0: never.
	every time.Duration
	keys  []string
	// writes and events are all that it stores after the first day.
	writes, events int
}

// months are the controllers that do something in a world where nothing
// happens. All others look at their objects now and then and write nothing.
var months = map[string]month{
	// One starts a Job each hour in the place of the last, which nobody runs, one
	// would if it might, and one has a schedule that nobody can read, which is said
	// at each look.
	"cronjob": {every: 15 * time.Minute, keys: []string{"default/hourly", "default/forbids"}, writes: 3 * 24 * 29, events: 2*24*29 + looks},
	// One cannot be counted, and is tried again for ever.
	"poddisruption":      {every: 1000 * time.Second, keys: []string{"default/unknown"}},
	"podgc":              {every: 20 * time.Second, keys: []string{"pods"}},
	"resourcequota":      {every: 5 * time.Minute},
	"namespace":          {every: time.Minute, keys: []string{"going"}}, // one that something holds
	"legacytokencleaner": {every: 24 * time.Hour},
}

// most is how often a key may be looked at.
func (m month) most(key string) int {
	n := looks + 100 // what happens on the first day
	if m.every > 0 && (m.keys == nil || slices.Contains(m.keys, key)) {
		n += int(30 * 24 * time.Hour / m.every)
	}
	return n
}

// rounds counts how often each key is looked at.
type rounds struct {
	controller.Reconciler
	mu sync.Mutex
	of map[string]int
}

func (r *rounds) Reconcile(ctx context.Context, key schema.Key) (controller.Result, error) {
	r.mu.Lock()
	r.of[key.String()]++
	r.mu.Unlock()
	return r.Reconciler.Reconcile(ctx, key)
}

// Every controller runs alone for 30 days over a world with objects in all
// states. None spins, none writes what is there already, and none is held back.
func TestQuietMonth(t *testing.T) {
	if testing.Short() {
		t.Skip("takes half a minute")
	}
	for _, name := range names(t) {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { quietMonth(t, name) })
		})
	}
}

func names(t *testing.T) (out []string) {
	synctest.Test(t, func(t *testing.T) {
		for _, r := range all(monthConfig(client.NewFake(), nil)).runners {
			out = append(out, r.Name())
		}
	})
	return out
}

func quietMonth(t *testing.T, name string) {
	f := client.NewFake(world(time.Now())...)
	reg := prometheus.NewRegistry()
	counted := &rounds{of: map[string]int{}}
	cfg := monthConfig(f, reg)
	cfg.wrap = func(n string, r controller.Reconciler) controller.Reconciler {
		if n != name {
			return r
		}
		counted.Reconciler = r
		return counted
	}
	s := all(cfg)
	ctx, cancel := context.WithCancel(t.Context())
	defer func() { cancel(); synctest.Wait() }()
	for _, r := range s.recorders {
		go func() { _ = r.Run(ctx) }()
	}
	i := slices.IndexFunc(s.runners, func(c *controller.Controller) bool { return c.Name() == name })
	go func() { _ = s.runners[i].Run(ctx) }()
	time.Sleep(24 * time.Hour)
	synctest.Wait()
	writes, events := f.Writes(), eventWrites(t, f)
	writes -= events
	time.Sleep(29 * 24 * time.Hour)
	synctest.Wait()
	moreEvents := eventWrites(t, f) - events
	moreWrites := f.Writes() - writes - events - moreEvents

	may := months[name]
	sumOf, busiest := 0, ""
	for key, n := range counted.of {
		if n > may.most(key) {
			t.Errorf("%s: %d rounds, want at most %d", key, n, may.most(key))
		}
		if sumOf += n; n > counted.of[busiest] {
			busiest = key
		}
	}
	if moreWrites > may.writes || moreEvents > may.events {
		t.Errorf("%d writes and %d of events after the first day, want at most %d and %d", moreWrites, moreEvents, may.writes, may.events)
	}
	for _, metric := range []string{"writ_loop_idle_wakes_total", "writ_loop_busy_rests_total", "controller_runtime_reconcile_panics_total"} {
		if n := sum(t, reg, metric, name); n > 0 {
			t.Errorf("%s is %v", metric, n)
		}
	}
	t.Logf("%d rounds of %d keys, at most %d (%s), %d writes, %d writes of events", sumOf, len(counted.of), counted.of[busiest], busiest, moreWrites, moreEvents)
}

// eventWrites counts how often events were stored.
func eventWrites(t *testing.T, f *client.Fake) (n int) {
	t.Helper()
	for _, e := range client.CachedList[*corev1.Event](f.Cache(), "") {
		n += int(max(e.Count, 1))
	}
	return n
}

// sum adds up the series of a metric that are of a controller.
func sum(t *testing.T, reg *prometheus.Registry, metric, name string) (n float64) {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range all {
		if f.GetName() != metric {
			continue
		}
		for _, m := range f.GetMetric() {
			for _, l := range m.GetLabel() {
				if l.GetValue() == name {
					n += m.GetCounter().GetValue()
				}
			}
		}
	}
	return n
}
