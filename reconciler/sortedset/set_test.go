package sortedset

import (
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
)

// TestVersionsAreApart: whatever is done to clones of clones, each set is what
// was done to it.
func TestVersionsAreApart(t *testing.T) {
	type version struct {
		set  *Set[int]
		want map[int]bool
	}
	rnd := rand.New(rand.NewPCG(1, 1))
	all := []version{{New(func(a, b int) bool { return a < b }), map[int]bool{}}}
	for range 300 {
		v := all[rnd.IntN(len(all))]
		next := version{v.set.Clone(), maps.Clone(v.want)}
		for range rnd.IntN(60) {
			if n := rnd.IntN(500); rnd.IntN(3) == 0 {
				if _, had := next.set.Delete(n); had != next.want[n] {
					t.Fatalf("deleting %d says %v", n, had)
				}
				delete(next.want, n)
			} else {
				next.set.Put(n)
				next.want[n] = true
			}
		}
		all = append(all, next)
	}
	for i, v := range all {
		want := slices.Sorted(maps.Keys(v.want))
		if got := slices.Collect(v.set.All()); !slices.Equal(got, want) {
			t.Fatalf("version %d is %v, want %v", i, got, want)
		}
		at := rnd.IntN(500)
		if got, want := slices.Collect(v.set.From(at)), slices.DeleteFunc(want, func(n int) bool { return n < at }); !slices.Equal(got, want) {
			t.Fatalf("version %d from %d is %v, want %v", i, at, got, want)
		}
	}
}

func TestNil(t *testing.T) {
	var s *Set[int]
	if _, ok := s.Get(1); ok || s.Len() != 0 || len(slices.Collect(s.All())) != 0 {
		t.Error("a nil set has something")
	}
}

// TestReadersAndClones is for the race detector.
func TestReadersAndClones(t *testing.T) {
	s := New(func(a, b int) bool { return a < b })
	for i := range 1000 {
		s.Put(i)
	}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range 50 {
				c := s.Clone()
				c.Put(2000 + i)
				if n := len(slices.Collect(s.All())); n != 1000 || c.Len() != 1001 {
					t.Errorf("%d and %d items", n, c.Len())
				}
			}
		})
	}
	wg.Wait()
}
