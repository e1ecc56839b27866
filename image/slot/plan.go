package slot

import (
	"fmt"

	"github.com/writ-os/writ/image/slot/boot"
)

// Do is what a Plan does.
type Do string

// What there is to do.
const (
	// Nothing: the wanted system runs, and the loader comes to it again.
	Nothing Do = "Nothing"
	// Reboot: the loader comes to the wanted system when the machine reboots.
	Reboot Do = "Reboot"
	// Switch: the wanted system is on the disk, and the loader must be told.
	Switch Do = "Switch"
	// Install: it is not on the disk.
	Install Do = "Install"
	// Blocked: it cannot be now. Why says why not.
	Blocked Do = "Blocked"
)

// Wanted is the system that shall run.
type Wanted struct {
	// RootHash of it; "" where it is on no slot.
	RootHash string
	// Arguments are kernel arguments besides its own, joined by spaces.
	Arguments string
}

// Plan is the way from a State to what is wanted.
type Plan struct {
	Do   Do
	Slot string // that is switched to, or installed into: A or B
	// From is the file of a Switch, To the name of the entry that it becomes.
	From, To string
	// Copy leaves From where it is, so that the loader can fall back to it.
	Copy bool
	// Arguments that the entry To is given.
	Arguments string
	Why       string

	seq uint64
}

func (p Plan) String() string {
	switch p.Do {
	case Switch:
		verb := "rename"
		if p.Copy {
			verb = "copy"
		}
		s := fmt.Sprintf("switch to slot %s: %s %s to %s", p.Slot, verb, p.From, p.To)
		if p.Arguments != "" {
			s += fmt.Sprintf(", with the kernel arguments %q", p.Arguments)
		}
		return s
	case Install:
		return "install into slot " + p.Slot
	case Blocked:
		return "blocked: " + p.Why
	case Reboot:
		return "reboot into slot " + p.Slot
	}
	return "nothing"
}

// MakePlan says what comes next on the way to w. Install ends with a version
// that is staged, after which the plan is Switch; Switch ends with Reboot.
func MakePlan(s *State, w Wanted) Plan {
	cur := s.Current()
	switch {
	case s.Running == "":
		return blocked("the running system has no root hash on its command line: it was not started from a slot")
	case cur == nil:
		return blocked("the running system is in neither slot: its root hash is %.12s", s.Running)
	case s.Booted == nil:
		return blocked("the running system has no boot entry: another version would have nothing to fall back to")
	}
	target := s.holding(w.RootHash)
	if target != cur && target != nil && target.Damage != "" {
		target = nil // another copy is needed
	}
	switch {
	case target == cur && w.Arguments == s.Arguments:
		return keep(s, cur, w)
	case target == nil || target != cur && s.source(target) == nil:
		if s.Trial() {
			return blocked("the running system is on trial: nothing is overwritten before it is found good, or given up")
		}
		return Plan{Do: Install, Slot: s.Other().Name}
	}
	if e := s.Next; e != nil && e.RootHash == target.RootHash && e.Arguments == w.Arguments && !e.Spent() && (target != cur || e.Seq != s.Booted.Seq) {
		return Plan{Do: Reboot, Slot: target.Name}
	}
	p := Plan{Do: Switch, Slot: target.Name, From: s.Booted.Name, To: boot.TrialName(s.next), Copy: target == cur, Arguments: w.Arguments, seq: s.next}
	if target != cur {
		from := s.source(target)
		p.From = from.Name
		// One of the two must be good. Going back from a trial needs no trial.
		if from.Good && s.Trial() {
			p.To = boot.GoodName(s.next)
		}
	}
	return p
}

// keep lets the loader come to the running system again, where something else
// was chosen before.
func keep(s *State, cur *Slot, w Wanted) Plan {
	b := s.Booted
	if s.Next.Seq == b.Seq {
		return Plan{Do: Nothing}
	}
	if b.Spent() {
		return blocked("the running system is on its last trial")
	}
	to := boot.GoodName(s.next)
	if !b.Good {
		to = boot.CountedName(Entry{Seq: s.next, Left: b.Left, Done: b.Done})
	}
	return Plan{Do: Switch, Slot: cur.Name, From: b.Name, To: to, Arguments: w.Arguments, seq: s.next}
}

// source is the UKI of a slot: the one that is staged, or the entry that the
// loader would take first.
func (s *State) source(sl *Slot) *Entry {
	for _, list := range [][]Entry{s.Staged, s.Entries} {
		for i := range list {
			if list[i].RootHash == sl.RootHash {
				return &list[i]
			}
		}
	}
	return nil
}

func blocked(format string, args ...any) Plan {
	return Plan{Do: Blocked, Why: fmt.Sprintf(format, args...)}
}
