package controllers

import (
	"cmp"
	"context"
	"slices"
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
	// every is how often it looks by itself, each of its keys; 0: never.
	every time.Duration
	keys  int
	// writes and events are all that it stores after the first day.
	writes, events int
	// rest is how long the month is after its first day, for those that look
	// every few seconds. Default 29 days.
	rest time.Duration
}

// months are the controllers that do something in a world where nothing
// happens. All others look at their objects now and then and write nothing.
var months = map[string]month{
	// One starts a Job each hour, which nobody runs, one would if it might, and
	// one has a schedule that nobody can read, which is said at each look.
	"cronjob":            {every: time.Hour, keys: 2, writes: 2 * 24 * 5, events: 5*24*5 + looks/6, rest: 5 * 24 * time.Hour},
	"podgc":              {every: 20 * time.Second, keys: 1, rest: 5 * 24 * time.Hour},
	"nodelifecycle":      {every: 5 * time.Second, keys: 3, rest: 24 * time.Hour},
	"resourcequota":      {every: 5 * time.Minute, keys: 1},
	"namespace":          {every: time.Second, keys: 1, rest: 24 * time.Hour}, // one that something holds
	"legacytokencleaner": {every: 24 * time.Hour, keys: 1},
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
	s := all(monthConfig(f, reg))
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
	time.Sleep(cmp.Or(months[name].rest, 29*24*time.Hour))
	synctest.Wait()
	moreEvents := eventWrites(t, f) - events
	moreWrites := f.Writes() - writes - events - moreEvents

	may := months[name]
	rounds := sum(t, reg, "controller_runtime_reconcile_total", name)
	most := float64(looks*objects(f) + 2000)
	if may.every > 0 {
		most += float64(may.keys) * float64(30*24*time.Hour/may.every) * 1.1
	}
	if rounds > most {
		t.Errorf("%v rounds, want at most %v", rounds, most)
	}
	if moreWrites > may.writes || moreEvents > may.events {
		t.Errorf("%d writes and %d of events after the first day, want at most %d and %d", moreWrites, moreEvents, may.writes, may.events)
	}
	for _, metric := range []string{"writ_loop_idle_wakes_total", "writ_loop_busy_rests_total", "controller_runtime_reconcile_panics_total"} {
		if n := sum(t, reg, metric, name); n > 0 {
			t.Errorf("%s is %v", metric, n)
		}
	}
	t.Logf("%v rounds, %d writes, %d writes of events", rounds, moreWrites, moreEvents)
}

// objects is how many keys a look at everything has.
func objects(f *client.Fake) int {
	n := 0
	for _, r := range schema.Builtin.Stored() {
		n = max(n, len(f.Cache().List(r, "")))
	}
	return n
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
