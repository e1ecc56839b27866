package killtest

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if c := Child(); c != nil {
		for n := 1; ; n++ {
			fmt.Println(c.Name, c.Dir, n)
			c.Step()
			time.Sleep(time.Millisecond)
		}
	}
	os.Exit(m.Run())
}

// TestPoints: a seed says when, all steps are reached, and all delays are
// within their bound.
func TestPoints(t *testing.T) {
	c := Config{Steps: 4, Delay: 10 * time.Millisecond}
	seen := map[int]int{}
	short := 0
	for round := range 1000 {
		p := c.point(7, round)
		if q := c.point(7, round); p != q {
			t.Fatalf("%v and %v are of the same seed and round", p, q)
		}
		if p.Delay < 0 || p.Delay > c.Delay || p.Steps > c.Steps {
			t.Fatalf("%v is out of bounds", p)
		}
		if seen[p.Steps]++; p.Steps > 0 && p.Delay < 100*time.Microsecond {
			short++
		}
	}
	if len(seen) != c.Steps+1 || short < 300 {
		t.Errorf("steps %v, %d short delays", seen, short)
	}
	if c.point(7, 1) == c.point(8, 1) {
		t.Error("two seeds give one point")
	}
}

// TestLive: a child dies after the steps of its point, and a moment.
func TestLive(t *testing.T) {
	dir := t.TempDir() + "/a b" // with a space
	for _, steps := range []int{1, 3} {
		last := ""
		Point{Steps: steps, Delay: time.Microsecond}.Live(t, "walker", dir, func(l string) { last = l })
		var n int
		if _, err := fmt.Sscanf(last, "walker "+dir+" %d", &n); err != nil || n < steps || n > steps+1000 {
			t.Errorf("the last words of a child of %d steps are %q", steps, last)
		}
	}
}
