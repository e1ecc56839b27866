package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/schema"
)

// others are the members besides one.
func (c *cluster) others(i int) []int {
	var out []int
	for j := range c.runs {
		if j != i {
			out = append(out, j)
		}
	}
	return out
}

// put writes a value over whatever is there, until the store takes it.
func put(t testing.TB, s *Store, name, value string) {
	t.Helper()
	eventually(t, 30*time.Second, func() error {
		_, err := s.Txn(t.Context(), []Write{{
			Resource: configMaps, Key: key("default", name), Object: configMap("default", name, value), Unconditional: true,
		}})
		return err
	})
}

func value(s *Store, name string) string {
	it := s.Get(configMaps, key("default", name))
	if it == nil {
		return ""
	}
	return it.Object.(*corev1.ConfigMap).Data["v"]
}

// TestPartition: who is cut off from the majority stops leading, and refuses
// writes and reads of the newest state with a word that says why; the others go
// on; and when it is back it serves again, without a start.
func TestPartition(t *testing.T) {
	c := newCluster(t, 3, nil)
	election := c.cfg[0].rules().election
	for round := range 2 {
		lost := c.leader()
		if round == 1 {
			lost = c.others(lost)[0] // a follower this time
		}
		t.Logf("member %d is cut off", lost)
		put(t, c.runs[lost].Store, "before", fmt.Sprint(round))
		cut := time.Now()
		c.net.isolate(lost)
		alone, leads := c.runs[lost].Store, c.leader(c.others(lost)...)
		took := time.Since(cut)
		if alone.IsLeader() {
			t.Errorf("two lead, %v after the cut", took)
		}
		put(t, c.runs[leads].Store, "during", fmt.Sprint(round))
		t.Logf("another leads and has written after %v", time.Since(cut))

		// The first request may have met the old leader: nobody knows what became
		// of it. Later ones are refused.
		began := time.Now()
		_, err := alone.Txn(t.Context(), []Write{{Resource: configMaps, Key: key("default", "lost"), Object: configMap("default", "lost", "x")}})
		if !errors.Is(err, ErrUnavailable) && !errors.Is(err, ErrUnknownOutcome) {
			t.Errorf("a write without the majority: %v", err)
		}
		if err = alone.Current(t.Context()); !errors.Is(err, ErrUnavailable) {
			t.Errorf("a read without the majority: %v", err)
		}
		if took := time.Since(began); took > 15*election {
			t.Errorf("it took %v to refuse", took)
		}
		began = time.Now()
		_, err = alone.Txn(t.Context(), []Write{{Resource: configMaps, Key: key("default", "lost"), Object: configMap("default", "lost", "x")}})
		if !errors.Is(err, ErrUnavailable) || !strings.Contains(err.Error(), "no leader") || time.Since(began) > election {
			t.Errorf("another write without the majority, after %v: %v", time.Since(began), err)
		}
		if value(alone, "before") != fmt.Sprint(round) { // old, and still there
			t.Error("the copy of who is cut off is gone")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
		if err := alone.Current(ctx); !errors.Is(err, ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a read with little time: %v", err)
		}
		cancel()

		c.net.heal()
		healed := time.Now()
		eventually(t, 30*time.Second, func() error { return alone.Current(t.Context()) })
		if value(alone, "during") != fmt.Sprint(round) {
			t.Errorf("who is back reads %q", value(alone, "during"))
		}
		put(t, alone, "after", fmt.Sprint(round))
		t.Logf("back after %v", time.Since(healed))
	}
	c.agree()
}

// TestCurrent: a read on any member sees every write that ended before it began.
func TestCurrent(t *testing.T) {
	c := newCluster(t, 3, nil)
	c.leader()
	for n := range 60 {
		if n == 30 {
			c.net.slow(2, 10*time.Millisecond)
		}
		want := fmt.Sprint(n)
		put(t, c.runs[n%3].Store, "x", want)
		var wg sync.WaitGroup
		for i, r := range c.runs {
			wg.Go(func() {
				if err := r.Current(t.Context()); err != nil {
					t.Error(err)
				}
				if got := value(r.Store, "x"); got != want {
					t.Errorf("member %d reads %q after %q was written on %d", i, got, want, n%3)
				}
			})
		}
		wg.Wait()
	}
}

// TestOneLeads: while members are cut off one after the other, no two lead at
// the same time, and WhileLeading runs what it runs on the one that leads.
func TestOneLeads(t *testing.T) {
	c := newCluster(t, 3, nil)
	ctx, cancel := context.WithCancel(t.Context())
	var mu sync.Mutex
	at, terms := -1, 0
	var wg sync.WaitGroup
	for i, r := range c.runs {
		wg.Go(func() {
			err := r.WhileLeading(ctx, func(ctx context.Context) error {
				mu.Lock()
				if at >= 0 {
					t.Errorf("member %d begins to lead, and %d has not ended", i, at)
				}
				at, terms = i, terms+1
				mu.Unlock()
				<-ctx.Done()
				mu.Lock()
				at = -1
				mu.Unlock()
				return ctx.Err()
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	for range 4 {
		was := c.leader()
		c.net.isolate(was)
		c.leader(c.others(was)...)
		c.net.heal()
		time.Sleep(c.cfg[0].rules().election / 2)
	}
	cancel()
	wg.Wait()
	if terms < 5 {
		t.Errorf("%d began to lead, want 5 at least", terms)
	}
}

// TestLeadRules: what follows from the leader that etcd names.
func TestLeadRules(t *testing.T) {
	r := Config{Tick: 100 * time.Millisecond}.rules()
	t0 := time.Unix(100, 0)
	known := lead{leader: 1, since: t0}
	for _, tt := range []struct {
		name   string
		was    lead
		after  time.Duration
		leader MemberID
		rivals bool
		asked  time.Duration // the majority, before now
		leads  bool
		since  time.Duration
	}{
		{name: "alone", was: lead{}, leader: 1, leads: true},
		{name: "just elected", was: lead{leader: 2, since: t0}, after: time.Hour, leader: 1, rivals: true, since: time.Hour},
		{name: "elected, and the one before may not know", was: known, after: time.Second, leader: 1, rivals: true},
		{name: "elected, and the one before has stepped down", was: known, after: 1300 * time.Millisecond, leader: 1, rivals: true, leads: true},
		{name: "has not heard from the majority", was: known, after: time.Hour, leader: 1, rivals: true, asked: 2 * time.Second},
		{name: "another", was: known, after: time.Hour, leader: 2, rivals: true, since: time.Hour},
		{name: "nobody", was: lead{leader: 1, since: t0, leads: true}, after: time.Hour, rivals: true, since: time.Hour},
	} {
		t.Run(tt.name, func(t *testing.T) {
			is := r.next(tt.was, t0.Add(tt.after), tt.leader, 1, tt.rivals, true, t0.Add(tt.after-tt.asked))
			if is.leads != tt.leads || is.leader != tt.leader || !is.since.Equal(t0.Add(tt.since)) {
				t.Errorf("got %+v", is)
			}
		})
	}
}

// TestFarBehind: a member that was away while the log and the history of what
// it missed were dropped gets a snapshot and loads its copy again. Its watches
// end, and those of Follow end with what the store holds.
func TestFarBehind(t *testing.T) {
	for _, compacted := range []bool{false, true} {
		t.Run(fmt.Sprintf("compacted=%v", compacted), func(t *testing.T) {
			c := newCluster(t, 3, nil)
			away := c.others(c.leader())[0]
			s := c.runs[away].Store
			commit(t, s, manyConfigMaps(50)...)
			watch, err := s.Watch(configMaps, s.Version())
			if err != nil {
				t.Fatal(err)
			}
			defer watch.Stop()
			kept, err := s.Follow(configMaps, s.Version())
			if err != nil {
				t.Fatal(err)
			}
			defer kept.Stop()
			state := contents(s)
			at := s.Version()

			c.net.isolate(away)
			leads := c.runs[c.leader(c.others(away)...)].Store
			for n := range 1200 { // more than the log keeps
				put(t, leads, fmt.Sprintf("n-%d", n%20), fmt.Sprint(n))
			}
			commit(t, leads, Write{Resource: configMaps, Key: key("default", "cm-00007"), Unconditional: true})
			if compacted {
				if err := leads.compact(t.Context(), leads.Version().Main()); err != nil {
					t.Fatal(err)
				}
			}
			put(t, leads, "n-0", "last")
			c.net.heal()
			eventually(t, time.Minute, func() error { return s.Current(t.Context()) })
			c.agree()
			put(t, s, "afterwards", "x") // and it goes on
			want := contents(s)

			events := 0
			for end := time.After(20 * time.Second); kept.Progress() < s.Version(); {
				select {
				case b := <-kept.Events():
					for _, e := range b {
						if events++; e.Version() <= at {
							t.Errorf("%v comes after %v", e.Version(), at)
						}
						follow(t, state, e)
						at = e.Version()
					}
				case <-time.After(time.Millisecond):
				case <-end:
					t.Fatal("Follow does not come to an end")
				}
			}
			for k, v := range want {
				if state[k] != v {
					t.Errorf("Follow ends with %v at %v, the store has %v", k, state[k], v)
				}
			}
			if len(state) != len(want) {
				t.Errorf("Follow ends with %d objects, the store has %d", len(state), len(want))
			}
			var last schema.ResourceVersion
			ended := false
			for end := time.After(20 * time.Second); !ended && last < s.Version(); {
				select {
				case b, ok := <-watch.Events():
					if ended = !ok; ok {
						last = b[len(b)-1].Version()
					}
				case <-end:
					t.Fatal("a watch neither ends nor goes on")
				}
			}
			if compacted != (ended && errors.Is(watch.Err(), ErrExpired)) {
				t.Errorf("the watch ended: %v, %v, after %v", ended, watch.Err(), last)
			}
			if !compacted && events < 1200 {
				t.Errorf("%d events, want all", events)
			}
		})
	}
}
