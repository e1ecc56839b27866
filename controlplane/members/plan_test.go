package members

import (
	"fmt"
	"maps"
	"testing"

	"github.com/writ-os/writ/controlplane/store"
)

// others reads members from letters: L leads, f follows, j joins, n has not started.
func others(text string) []store.Member {
	var out []store.Member
	for i, c := range text {
		m := store.Member{ID: store.MemberID(i + 1), Name: fmt.Sprintf("s%d", i), Leader: c == 'L', Learner: c == 'j'}
		if c == 'n' {
			m.Name, m.Learner = "", true
		}
		out = append(out, m)
	}
	return out
}

func TestNext(t *testing.T) {
	one, two := map[string]string{"main": "1"}, map[string]string{"main": "2"}
	lacks := []string{"2"}
	for _, c := range []struct {
		name string
		k    Known
		want Step
	}{
		{"alone of several, for the first time", Known{Leads: true}, Step{Do: Begin}},
		{"a follower of who has not begun", Known{Others: others("L")}, Step{Do: Rest}},
		{"a leader that has all", Known{Leads: true, Stored: two, Here: one}, Step{Do: Adopt}},
		{"a leader whose branches were all deleted", Known{Leads: true, Stored: map[string]string{}, Here: one}, Step{Do: Adopt}},
		{"a leader that serves", Known{Leads: true, Serving: true, Stored: one, Here: two}, Step{Do: Rest}},
		{"a leader that lacks something", Known{Leads: true, Stored: two, Here: one, Missing: lacks, Others: others("ff")}, Step{Do: Fetch, From: "s0"}},
		{"the first lacks it too", Known{Leads: true, Stored: two, Here: one, Missing: lacks, Others: others("ff"), Said: map[string]Said{"s0": Lacks}}, Step{Do: Fetch, From: "s1"}},
		{"one is silent", Known{Leads: true, Stored: two, Here: one, Missing: lacks, Others: others("ff"), Said: map[string]Said{"s0": Silent, "s1": Lacks}}, Step{Do: Wait}},
		{"nobody has it", Known{Leads: true, Stored: two, Here: one, Missing: lacks, Others: others("fn"), Said: map[string]Said{"s0": Lacks}}, Step{Do: GiveUp, Refs: one}},
		{"nobody is left", Known{Leads: true, Stored: two, Here: one, Missing: lacks}, Step{Do: GiveUp, Refs: one}},
		{"a follower in step", Known{Stored: one, Here: one, Others: others("L")}, Step{Do: Rest}},
		{"a follower behind", Known{Stored: two, Here: one, Missing: lacks, Others: others("fL")}, Step{Do: Fetch, From: "s1"}},
		{"a follower that was brought more", Known{Stored: one, Here: two, Brought: true, Others: others("L")}, Step{Do: Rest}},
		{"a follower that lacks what is stored", Known{Stored: two, Here: one, Missing: lacks, Brought: true, Others: others("L")}, Step{Do: Fetch, From: "s0"}},
		{"a follower of a push that came to nothing", Known{Stored: one, Here: two, Others: others("L")}, Step{Do: Fetch, From: "s0"}},
		{"a follower, and nobody leads", Known{Stored: two, Here: one, Missing: lacks, Others: others("ff")}, Step{Do: Wait}},
	} {
		if got := Next(c.k); got.Do != c.want.Do || got.From != c.want.From || !maps.Equal(got.Refs, c.want.Refs) {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
	}
}

func TestLeft(t *testing.T) {
	for _, c := range []struct{ refs, here, want map[string]string }{
		{map[string]string{"main": "new"}, map[string]string{"main": "old"}, map[string]string{"main": "old"}},
		{map[string]string{"main": "new"}, nil, map[string]string{}},
		{map[string]string{"main": "kept", "x": "new"}, map[string]string{"main": "old", "y": "old"}, map[string]string{"main": "kept"}},
		{map[string]string{"a/b": "kept", "a": "new"}, map[string]string{"a": "old"}, map[string]string{"a/b": "kept"}},
		{map[string]string{"a": "kept", "a/b": "new"}, map[string]string{"a/b": "old"}, map[string]string{"a": "kept"}},
	} {
		if got := left(c.refs, c.here, []string{"new"}); !maps.Equal(got, c.want) {
			t.Errorf("%v with %v here: %v, want %v", c.refs, c.here, got, c.want)
		}
	}
}

func TestKeepers(t *testing.T) {
	for _, c := range []struct {
		servers   string // the first is this one
		there     string // of which leases are known
		ask, need int
	}{
		{"L", "0", 0, 0},
		{"Lf", "01", 1, 1},
		{"Lff", "012", 2, 1},
		{"Lff", "0", 0, 1},
		{"Lffff", "01234", 4, 2},
		{"Lfj", "012", 1, 1},
		{"Lfn", "01", 1, 1},
	} {
		all, there := others(c.servers), map[string]Presence{}
		all[0].Self = true
		for _, i := range c.there {
			there[fmt.Sprintf("s%c", i)] = Presence{}
		}
		if ask, need := Keepers(all, there); len(ask) != c.ask || need != c.need {
			t.Errorf("%s, %s there: %v of which %d", c.servers, c.there, ask, need)
		}
	}
}
