package members

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/writ-os/writ/controlplane/store"
)

// sighted reads servers from letters: L leads, l is live, d is dead, x is dead and
// its Node was deleted, X lives and its Node was deleted, n is dead and never was
// a node, j joins and lives, k joins, is dead, and its Node was deleted.
func sighted(text string) []Sighting {
	var out []Sighting
	for i, c := range text {
		s := Sighting{Member: store.Member{ID: store.MemberID(i + 1), Name: fmt.Sprintf("s%d", i)}, HadNode: true, HasNode: true}
		switch c {
		case 'L':
			s.Leader, s.Self, s.Live = true, true, true
		case 'l':
			s.Live = true
		case 'x':
			s.HasNode = false
		case 'X':
			s.Live, s.HasNode = true, false
		case 'n':
			s.HadNode, s.HasNode = false, false
		case 'j':
			s.Learner, s.Live = true, true
		case 'k':
			s.Learner, s.HasNode = true, false
		}
		out = append(out, s)
	}
	return out
}

func TestDeparted(t *testing.T) {
	for _, c := range []struct{ servers, gone string }{
		{"L", ""},      // the last
		{"Lx", ""},     // one of two is not most of them
		{"Llx", "s2"},  // as `kubectl delete node` means it
		{"Lld", ""},    // it may come back
		{"LlX", ""},    // it answers
		{"Lln", ""},    // it never was a node
		{"Lxx", ""},    // no majority
		{"Lxd", ""},    // no majority
		{"Llxl", "s2"}, // of four
		{"Llxd", ""},   // two of four
		{"Lxxll", "s1"},
		{"Lllxd", "s3"},
		{"Lxddl", ""},
		{"Lk", "s1"}, // one that joins has no vote
		{"Llxj", "s2"},
		{"jLlx", "s3"},
		{"Lxj", ""},
	} {
		gone, ok := Departed(sighted(c.servers))
		if gone.Name != c.gone || ok != (c.gone != "") {
			t.Errorf("%s: %q, %v, want %q", c.servers, gone.Name, ok, c.gone)
		}
	}
	if gone, ok := Departed(nil); ok {
		t.Errorf("of none: %+v", gone)
	}
	unnamed := sighted("Llx")
	unnamed[2].Name = ""
	if gone, ok := Departed(unnamed); ok {
		t.Errorf("one that has not started: %+v", gone)
	}
}

// TestDepartedProperty: whatever the servers are, who goes is dead, was deleted and
// does not lead; those who answer are most before and after; and it ends with
// nobody left to go.
func TestDepartedProperty(t *testing.T) {
	seed := rand.Uint64()
	rnd := rand.New(rand.NewPCG(seed, 0))
	majority := func(all []Sighting) bool {
		voters, live := 0, 0
		for _, s := range all {
			if !s.Learner {
				voters++
				if s.Live {
					live++
				}
			}
		}
		return 2*live > voters
	}
	for range 20_000 {
		text := "L"
		for range rnd.IntN(7) {
			text += string("lxXdnjk"[rnd.IntN(7)])
		}
		all := sighted(text)
		rnd.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
		for range len(text) {
			gone, ok := Departed(all)
			if !ok {
				break
			}
			var left []Sighting
			for _, s := range all {
				if s.ID != gone.ID {
					left = append(left, s)
				} else if s.Live || s.Leader || s.Self || s.HasNode || !s.HadNode {
					t.Fatalf("seed %d, %s: %+v goes", seed, text, s)
				}
			}
			if !majority(all) || !majority(left) || len(left) != len(all)-1 {
				t.Fatalf("seed %d, %s: %s goes, and %d are left", seed, text, gone.Name, len(left))
			}
			all = left
		}
		if gone, ok := Departed(all); ok {
			t.Fatalf("seed %d, %s: %s is left to go", seed, text, gone.Name)
		}
	}
}
