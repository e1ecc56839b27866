package controller

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// A key that asks for the next round at once, or for a time that is past, and
// does nothing, is called a few hundred times a day and counted; what it hears
// of is answered without delay.
func TestSpinIsHeldBack(t *testing.T) {
	for _, ask := range []time.Duration{-time.Hour, 1, 100 * time.Millisecond} {
		t.Run(ask.String(), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				reg := prometheus.NewRegistry()
				s := &spy{answer: func(int, schema.Key) (Result, error) { return Result{RequeueAfter: ask}, nil }}
				f, _ := run(t, s, Config{Metrics: NewMetrics(reg), Look: -1}, configMap("a"))
				time.Sleep(24 * time.Hour)
				n := len(s.seen())
				if n < 24*12 || n > 24*12+50 {
					t.Errorf("%d calls in a day, want one in five minutes", n)
				}
				if got := value(t, reg, "writ_loop_idle_wakes_total"); got < 24*12-10 {
					t.Errorf("%v counted", got)
				}
				f.Put(configMap("a"))
				synctest.Wait()
				time.Sleep(time.Millisecond)
				if len(s.seen()) == n {
					t.Error("an event waits")
				}
			})
		})
	}
}

// A key that does something in each round is not held back.
func TestWorkIsNotHeldBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := client.NewFake()
		c := Noting(f)
		done := 0
		s := &writer{do: func(ctx context.Context) (Result, error) {
			if done++; done > 500 {
				return Result{}, nil
			}
			_, err := client.Create(ctx, c, configMap(fmt.Sprint(done)), client.WriteOptions{})
			return Result{RequeueAfter: 10 * time.Millisecond}, err
		}}
		k := New(Config{Name: "test", Reconciler: s, Cache: f.Cache()})
		begin := time.Now()
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = k.Run(ctx) }()
		k.Enqueue(schema.Key{Name: "a"})
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if done != 501 {
			t.Errorf("%d rounds after %v", done, time.Since(begin))
		}
		cancel()
		synctest.Wait()
	})
}

type writer struct {
	do func(context.Context) (Result, error)
}

func (w *writer) Reconcile(ctx context.Context, _ schema.Key) (Result, error) { return w.do(ctx) }

// A key whose every round writes what wakes it writes once a second after a
// thousand rounds, and is counted.
func TestEndlessWorkIsSlowedDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reg := prometheus.NewRegistry()
		f := client.NewFake(configMap("a"))
		n := 0
		s := &writer{do: func(ctx context.Context) (Result, error) {
			n++
			o := configMap("a")
			o.Data = map[string]string{"n": fmt.Sprint(n)}
			_, err := client.Update(ctx, f, o, client.WriteOptions{})
			return Result{}, err
		}}
		k := New(Config{Name: "test", Reconciler: s, Cache: f.Cache(), Watches: []Watch{{Resource: maps}}, Metrics: NewMetrics(reg)})
		ctx, cancel := context.WithCancel(t.Context())
		go func() { _ = k.Run(ctx) }()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n < 3600 || n > 3600+1500 {
			t.Errorf("%d rounds in an hour", n)
		}
		if got := value(t, reg, "writ_loop_busy_rests_total"); got < 3000 {
			t.Errorf("%v counted", got)
		}
		cancel()
		synctest.Wait()
	})
}

// Every object is looked at two to three times in half an hour without any
// event, and that keeps nothing of the objects that are gone.
func TestSlowLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		objects := []schema.Object{}
		for i := range 200 {
			objects = append(objects, configMap(fmt.Sprint(i)))
		}
		s := &spy{}
		f, k := run(t, s, Config{}, objects...)
		time.Sleep(9 * time.Minute)
		if n := len(s.seen()); n != 200 {
			t.Errorf("%d calls at first", n)
		}
		time.Sleep(51 * time.Minute)
		if n := len(s.seen()); n < 200+3*200-200 || n > 200+6*200 {
			t.Errorf("%d calls in an hour", n)
		}
		for i := range 199 {
			if err := f.Delete(t.Context(), maps, schema.KeyOf(objects[i]), client.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		k.queue.mu.Lock()
		defer k.queue.mu.Unlock()
		if n := len(k.queue.loops); n > 1 {
			t.Errorf("%d loops known of one object", n)
		}
	})
}
