package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/schema"
)

// TestBetween: the events up to a state that the copy has are there at once,
// whatever the last event of the resource is and whoever else writes.
func TestBetween(t *testing.T) {
	s, _ := open(t, Config{})
	maps, secrets := schema.ResourceFor[*corev1.ConfigMap](), schema.ResourceFor[*corev1.Secret]()
	begin := s.Version()
	var others sync.WaitGroup
	stop := make(chan struct{})
	others.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				put(t, s, fmt.Sprintf("b%d", i%3), fmt.Sprint(i))
			}
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	last := 0
	for range 3_000 {
		snap := s.Snapshot(maps)
		events, err := s.Between(ctx, maps, begin, snap.Version())
		if errors.Is(err, ErrExpired) {
			begin, last = snap.Version(), 0
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if len(events) < last {
			t.Fatalf("%d events, and %d before", len(events), last)
		}
		last = len(events)
		for _, e := range events {
			if e.Version() <= begin || e.Version() > snap.Version() {
				t.Fatalf("an event of %v between %v and %v", e.Version(), begin, snap.Version())
			}
		}
		if none, err := s.Between(ctx, secrets, begin, snap.Version()); err != nil || len(none) > 0 {
			t.Fatalf("%d events of secrets, %v", len(none), err)
		}
	}
	close(stop)
	others.Wait()
}
