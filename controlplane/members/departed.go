package members

import (
	"slices"

	"github.com/writ-os/writ/controlplane/store"
)

// Sighting is what the server that leads knows of another one, or of itself.
type Sighting struct {
	store.Member
	// Live says that it has been heard of a moment ago.
	Live bool
	// HadNode says that its machine was a node of the cluster, and HasNode that it
	// is one now.
	HadNode, HasNode bool
}

// Departed returns the server that has left for good: its Node was deleted, and it
// does not answer, as people expect it of k3s. A server whose machine never was a
// node says nothing by having none. It is never the one that leads, nor one whose
// absence leaves those who answer without the majority, before or after; and one
// at a time, the first by name.
func Departed(all []Sighting) (gone store.Member, ok bool) {
	voters, live := 0, 0
	for _, s := range all {
		if !s.Learner {
			voters++
			if s.Live {
				live++
			}
		}
	}
	if 2*live <= voters { // then most of those who remain answer as well: they are no more than there were
		return gone, false
	}
	left := slices.DeleteFunc(slices.Clone(all), func(s Sighting) bool {
		return s.Name == "" || s.Self || s.Leader || s.Live || s.HasNode || !s.HadNode
	})
	if len(left) == 0 {
		return gone, false
	}
	return slices.MinFunc(left, func(a, b Sighting) int {
		if a.Name < b.Name {
			return -1
		}
		return 1
	}).Member, true
}
