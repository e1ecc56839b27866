package update

import (
	"fmt"

	"github.com/writ-os/writ/image/slot"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// copies is how many copies of one version are found damaged on this node's disk
// before the disk is taken to be bad.
const copies = 3

// Damage is a version of which this node's copy was found damaged, so that another
// version runs. It says nothing of the image: other nodes have other copies.
type Damage struct {
	RootHash, Version string
	// Found is what was wrong.
	Found string
	// Times is how many copies of it were damaged.
	Times int
	// Open says that the copy is there still, or was not written anew as a whole.
	Open bool `json:",omitempty"`
	// Told says that it was damaged too often, and that this was said to whoever
	// ordered it.
	Told bool `json:",omitempty"`
}

// isNew says whether the damage of a slot is not noted yet.
func (d *Damage) isNew(sl *slot.Slot) bool { return d == nil || !d.Open || d.RootHash != sl.RootHash }

// next is the damage that a slot has, after the one before.
func (d *Damage) next(sl *slot.Slot) *Damage {
	n := &Damage{RootHash: sl.RootHash, Version: sl.Version, Found: sl.Damage, Times: 1, Open: true}
	if d != nil && d.RootHash == sl.RootHash {
		n.Times += d.Times
	}
	return n
}

// damaged notes what the last start has found, before anything else: what was
// tried is then no failure of the image. nil where there is nothing new.
func damaged(o Observed) *Action {
	other := o.State.Other()
	if other == nil || other.Damage == "" || !o.Record.Damaged.isNew(other) {
		return nil
	}
	return &Action{Do: Note, Phase: v1alpha1.UpdateIdle, Message: runs(o)}
}

// repair is the damage of the image that is ordered, until there is another copy;
// nil where there is none.
func repair(o Observed) *Damage {
	if d := o.Record.Damaged; d != nil && d.Open && d.Version == o.Image.Version {
		return d
	}
	return nil
}

// exhausted gives the disk up, not the image.
func exhausted(o Observed, d *Damage) Action {
	a := Action{Do: Nothing, Phase: v1alpha1.UpdateFailed, Message: fmt.Sprintf("%s was damaged on the disk of this node %d times, now %s; %s runs: look after the disk of this node, then order %s again",
		d.Version, d.Times, d.Found, runningName(o.State), d.Version)}
	if !d.Told {
		a.Do = Tell
	}
	return a
}

// runs says what runs, and what is wrong with the copies on this node's disk.
func runs(o Observed) string {
	text := runningName(o.State) + " runs"
	if s := o.State.Current(); s != nil && s.Damage != "" {
		text += fmt.Sprintf("; its copy in slot %s is damaged on the disk of this node (%s): run another version", s.Name, s.Damage)
	}
	if s := o.State.Other(); s != nil && s.Damage != "" {
		text += fmt.Sprintf(", since the copy of %s in slot %s is damaged on the disk of this node (%s)", s.Version, s.Name, s.Damage)
	}
	return text
}

// well notes that the start which is under way became well. It waits for whatever
// else there is to do.
func well(o Observed, a Action) Action {
	if cur := o.State.Current(); a.Do == Nothing && o.Health.Settled && cur != nil && cur.Starts > 0 {
		a.Do = Well
	}
	return a
}
