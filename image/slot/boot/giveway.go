package boot

import "slices"

// Rename gives a file another name.
type Rename struct{ From, To string }

// Alternatives are what a machine may start instead of content that is damaged,
// the best one first: what the loader would come to next, and then what is staged,
// which nobody has started yet, but which was verified when it was written. What
// was given up after its trial is none. That each is whole is for others to see.
func Alternatives(f Files, damaged string) []Entry {
	return slices.DeleteFunc(slices.Concat(f.Entries, f.Staged), func(e Entry) bool {
		staged := e.Name == StagedName(e.Seq)
		return e.RootHash == "" || e.RootHash == damaged || !staged && e.Spent()
	})
}

// GiveWay is how all entries of damaged content give way to another: they become
// ones that were tried as often as they may be. The other one is made visible
// first, so that an interruption leaves more to start, and not less; doing it again
// finishes it.
func GiveWay(f Files, damaged string, to Entry) []Rename {
	var steps []Rename
	if to.Name == StagedName(to.Seq) {
		steps = append(steps, Rename{to.Name, TrialName(to.Seq)})
	}
	for _, e := range f.Entries {
		if e.RootHash != damaged || e.Spent() {
			continue
		}
		spent := e
		spent.Left, spent.Done = 0, max(e.Done, Tries)
		steps = append(steps, Rename{e.Name, CountedName(spent)})
	}
	return steps
}
