package members

import (
	"maps"
	"slices"
	"strings"

	"github.com/writ-os/writ/controlplane/store"
)

// Known is what a server knows of the repository when it decides what to do next.
type Known struct {
	// Leads says that it leads, and Serving that its repository is open to others
	// because it has done all that follows from that.
	Leads, Serving bool
	// Stored are the refs that the store has, nil when it has none yet; Here those
	// of the copy of this server.
	Stored, Here map[string]string
	// Missing are the objects of Stored that are not here.
	Missing []string
	// Brought says that a leader has brought something here a moment ago that the
	// store may not have yet.
	Brought bool
	// Others are the other members, and Said what they have answered since this
	// server began to ask for what is missing.
	Others []store.Member
	Said   map[string]Said
}

// Said is the answer of a server that was asked for what is missing.
type Said int

// The answers.
const (
	Unasked Said = iota
	Lacks        // it answers, and does not have it
	Silent       // it does not answer
)

// Do is what a server does next.
type Do int

// What there is to do.
const (
	Rest   Do = iota // until something changes
	Begin            // with what is here: the store knows of no refs
	Adopt            // the refs of the store: all that they lead to is here
	Fetch            // what is missing, and then adopt
	GiveUp           // what no server of the cluster has any more
	Wait             // for others to answer
)

// Step is what to do, and with whom.
type Step struct {
	Do   Do
	From string            // of Fetch
	Refs map[string]string // of GiveUp: those that are left
}

// Next says what follows from what is known.
//
// A server that begins to lead takes the refs of the store, with what it lacks of
// them from any other, before it serves. It gives up what is missing only when
// every member has answered that it does not have it. One that does not lead
// follows the one that does, and lets be what that has just brought.
func Next(k Known) Step {
	switch {
	case k.Serving || k.Stored == nil && !k.Leads:
		return Step{Do: Rest}
	case k.Stored == nil:
		return Step{Do: Begin}
	case k.Leads:
		return begin(k)
	}
	return follow(k)
}

func begin(k Known) Step {
	if len(k.Missing) == 0 {
		return Step{Do: Adopt}
	}
	silent := false
	for _, m := range k.Others {
		switch {
		case m.Name == "": // it has not started, and has nothing
		case k.Said[m.Name] == Unasked:
			return Step{Do: Fetch, From: m.Name}
		case k.Said[m.Name] == Silent:
			silent = true
		}
	}
	if silent {
		return Step{Do: Wait}
	}
	return Step{Do: GiveUp, Refs: left(k.Stored, k.Here, k.Missing)}
}

func follow(k Known) Step {
	if maps.Equal(k.Stored, k.Here) {
		return Step{Do: Rest}
	}
	if k.Brought && len(k.Missing) == 0 {
		return Step{Do: Rest} // what was brought must stay referred to until the store has decided
	}
	i := slices.IndexFunc(k.Others, func(m store.Member) bool { return m.Leader })
	if i < 0 || k.Others[i].Name == "" || k.Said[k.Others[i].Name] != Unasked {
		return Step{Do: Wait}
	}
	return Step{Do: Fetch, From: k.Others[i].Name}
}

// left are the refs when objects are missing that nobody has any more: each ref
// that leads to one is what it is here, or gone.
func left(refs, here map[string]string, missing []string) map[string]string {
	out := map[string]string{}
	for ref, sha := range refs {
		if !slices.Contains(missing, sha) {
			out[ref] = sha
		}
	}
	for ref, sha := range refs {
		if old := here[ref]; slices.Contains(missing, sha) && old != "" && !inTheWay(ref, out) {
			out[ref] = old
		}
	}
	return out
}

// inTheWay says whether a ref cannot be beside others: a branch a beside a/b.
func inTheWay(ref string, others map[string]string) bool {
	for other := range others {
		if strings.HasPrefix(other, ref+"/") || strings.HasPrefix(ref, other+"/") {
			return true
		}
	}
	return false
}

// Keepers are the servers that are asked to keep a push, of which need must do so:
// with this one they are most of those who vote.
func Keepers(all []store.Member, there map[string]Presence) (ask []string, need int) {
	voters := 0
	for _, m := range all {
		if m.Learner {
			continue
		}
		voters++
		if _, ok := there[m.Name]; ok && !m.Self {
			ask = append(ask, m.Name)
		}
	}
	return ask, voters / 2
}
