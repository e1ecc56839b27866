package store

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// measure calls f b.N times from several goroutines and reports how long a call
// takes.
func measure(b *testing.B, goroutines int, f func(n int64) error) {
	b.Helper()
	var next atomic.Int64
	var mu sync.Mutex
	var took []time.Duration
	var wg sync.WaitGroup
	c := cpu()
	b.ResetTimer()
	for range goroutines {
		wg.Go(func() {
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				began := time.Now()
				if err := f(n); err != nil {
					b.Error(err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(began))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	b.StopTimer()
	b.ReportMetric(float64((cpu()-c).Microseconds())/float64(b.N), "cpu-us/op")
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "op/s")
	slices.Sort(took)
	if len(took) > 0 {
		b.ReportMetric(float64(took[len(took)/2].Microseconds()), "p50-us")
		b.ReportMetric(float64(took[len(took)*99/100].Microseconds()), "p99-us")
	}
}

// BenchmarkMembers compares three members on one machine, which share its disk
// and cores, with one that is alone.
func BenchmarkMembers(b *testing.B) {
	var id atomic.Int64
	run := func(name string, s *Store) {
		for _, writers := range []int{1, 16} {
			b.Run(fmt.Sprintf("txn/%s/writers=%d", name, writers), func(b *testing.B) {
				measure(b, writers, func(int64) error {
					o := configMap("default", fmt.Sprintf("c-%d", id.Add(1)), "some value that a person wrote")
					_, err := s.Txn(context.Background(), []Write{create(o)})
					return err
				})
			})
			b.Run(fmt.Sprintf("current/%s/readers=%d", name, writers), func(b *testing.B) {
				measure(b, writers, func(int64) error { return s.Current(context.Background()) })
			})
		}
	}
	alone, stop := open(b, Config{Tick: 20 * time.Millisecond})
	run("alone", alone)
	stop()
	c := newCluster(b, 3, func(cfg *Config) { cfg.Tick = 100 * time.Millisecond })
	leads := c.leader()
	run("leader", c.runs[leads].Store)
	run("follower", c.runs[c.others(leads)[0]].Store)
}
