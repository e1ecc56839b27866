package update

import (
	"fmt"

	"github.com/writ-os/writ/image/slot"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Do is what an Action does.
type Do string

// What there is to do.
const (
	// Nothing: what can be done is done.
	Nothing Do = "Nothing"
	// Fetch the bundle of the image.
	Fetch Do = "Fetch"
	// Stage it: write the bundle that is there into the other slot.
	Stage Do = "Stage"
	// Reboot: let the loader come to the image, and reboot.
	Reboot Do = "Reboot"
	// Keep: let the loader come to the running system again.
	Keep Do = "Keep"
	// Bless the running system: it is well.
	Bless Do = "Bless"
	// GiveUp the running system: it does not become well. Reboot, so that the
	// loader counts.
	GiveUp Do = "GiveUp"
	// Fail: remember that the image failed, and tell.
	Fail Do = "Fail"
	// Settle: what was tried runs, and is good. There is nothing to remember.
	Settle Do = "Settle"
	// Forget what was tried, what failed, and what was fetched.
	Forget Do = "Forget"
	// Well: note that this start became well, and that those before do not count.
	Well Do = "Well"
	// Note that this node's copy of a version is damaged.
	Note Do = "Note"
	// Tell that it was damaged too often, once.
	Tell Do = "Tell"
)

// Order is what the Node's annotations ask for.
type Order struct {
	Image     string // name of a NodeImage
	Arguments string // kernel arguments besides
	Reboot    string // name of the NodeImage to reboot into now
}

// Health is how the node has been since it was started.
type Health struct {
	// Why it is not well; "" when it is.
	Why string
	// Settled: it has been well for long enough. Late: it had time enough.
	Settled, Late bool
}

// Observed is all that a decision depends on.
type Observed struct {
	Order Order
	// Image is the one that the order names; ImageWhy says why it is not known.
	Image    Image
	ImageWhy string
	Arch     string // of this machine
	State    *slot.State
	Record   Record
	// Fetched says that the bundle of the image is there as a whole.
	Fetched bool
	Health  Health
}

// Action is what comes next, and what is told meanwhile.
type Action struct {
	Do      Do
	Phase   v1alpha1.UpdatePhase
	Message string
	// Wanted is the system that a Reboot leads to.
	Wanted slot.Wanted
	// Failure is that of Fail.
	Failure *Failure
}

func (a Action) String() string { return fmt.Sprintf("%s (%s): %s", a.Do, a.Phase, a.Message) }

// Decide says what comes next.
func Decide(o Observed) Action {
	if o.State.Trial() {
		return trial(o)
	}
	if a := damaged(o); a != nil {
		return *a
	}
	if a := outcome(o); a != nil {
		return *a
	}
	return well(o, order(o))
}

// order follows the order, if there is one.
func order(o Observed) Action {
	if o.Order.Image == "" {
		return unordered(o)
	}
	if r := o.Order.Reboot; r != "" && r != o.Order.Image {
		return fail(Failure{Image: r, Reason: fmt.Sprintf("asked to reboot into %s, while %s is to be staged", r, o.Order.Image)}, o)
	}
	if o.ImageWhy != "" {
		return Action{Do: Nothing, Phase: v1alpha1.UpdateIdle, Message: o.ImageWhy}
	}
	if a := o.Image.Arch; a != "" && a != o.Arch {
		return fail(Failure{Image: o.Image.Name, Digest: o.Image.Digest, Arguments: o.Order.Arguments, Reason: fmt.Sprintf("%s is for %s, and this machine is %s", o.Image.Version, a, o.Arch)}, o)
	}
	if f := o.Record.Failed; f.is(o.Image, o.Order.Arguments) {
		return failed(f)
	}
	return ordered(o)
}

// trial waits until it is known whether the running system is well. Nothing
// else happens before.
func trial(o Observed) Action {
	a := Action{Do: Nothing, Phase: v1alpha1.UpdateTrying}
	left := fmt.Sprintf("%s is on trial, %d more to go", runningName(o.State), o.State.Booted.Left)
	switch {
	case o.Health.Settled:
		a.Do, a.Message = Bless, fmt.Sprintf("%s is well", runningName(o.State))
	case o.Health.Why == "":
		a.Message = left + ": well so far"
	case o.Health.Late && fallback(o.State):
		a.Do, a.Message = GiveUp, fmt.Sprintf("%s did not become well in time: %s", runningName(o.State), o.Health.Why)
	case o.Health.Late:
		a.Message = fmt.Sprintf("%s: %s; there is no other version to go back to", left, o.Health.Why)
	default:
		a.Message = fmt.Sprintf("%s: %s", left, o.Health.Why)
	}
	return a
}

// fallback says whether the loader has another system to come to.
func fallback(s *slot.State) bool {
	for _, e := range s.Entries {
		for _, sl := range s.Slots {
			if e.Seq != s.Booted.Seq && !e.Spent() && sl.Complete && sl.RootHash == e.RootHash {
				return true
			}
		}
	}
	return false
}

// outcome is how the last reboot went; nil where there was none, or it is
// still to come.
func outcome(o Observed) *Action {
	t := o.Record.Tried
	if t == nil {
		return nil
	}
	f := Failure{Image: t.Image, Digest: t.Digest, Arguments: t.Arguments}
	if b := o.State.Booted; o.State.Running == t.RootHash && b != nil && b.Arguments == t.Arguments {
		if t.Arguments != o.State.Arguments {
			f.Reason = fmt.Sprintf("%s runs without the kernel arguments %q: the firmware did not take them, as it does with Secure Boot when they are not signed", t.Version, t.Arguments)
			a := fail(f, o)
			return &a
		}
		return &Action{Do: Settle, Phase: v1alpha1.UpdateIdle, Message: runningName(o.State) + " runs"}
	}
	for _, e := range o.State.Entries {
		if e.RootHash != t.RootHash || e.Arguments != t.Arguments {
			continue
		}
		if !e.Spent() {
			return nil
		}
		why := "it never came as far as its node agent"
		if t.Reason != "" {
			why = t.Reason
		}
		f.Reason = fmt.Sprintf("%s was started %d times and did not become well, so %s runs again: %s", t.Version, e.Done, runningName(o.State), why)
		a := fail(f, o)
		return &a
	}
	return nil
}

// unordered keeps what runs, and forgets the rest. What a slot holds stays there:
// nothing leads to it, and should it be ordered again it need not be fetched.
func unordered(o Observed) Action {
	a := Action{Do: Nothing, Phase: v1alpha1.UpdateIdle, Message: runs(o)}
	d := o.Record.Damaged
	switch {
	case slot.MakePlan(o.State, running(o.State)).Do == slot.Switch:
		a.Do = Keep
	case o.Record.Tried != nil || o.Record.Failed != nil || o.Fetched || d != nil && d.Told:
		a.Do = Forget
	}
	return a
}

// ordered goes on towards the image.
func ordered(o Observed) Action {
	w := slot.Wanted{RootHash: o.Record.rootHash(o.State, o.Image), Arguments: o.Order.Arguments}
	now := o.Order.Reboot != ""
	f := Failure{Image: o.Image.Name, Digest: o.Image.Digest, Arguments: w.Arguments}
	switch p := slot.MakePlan(o.State, w); p.Do {
	case slot.Nothing:
		a := Action{Do: Nothing, Phase: v1alpha1.UpdateIdle, Message: runs(o)}
		if o.Record.Failed != nil || o.Fetched {
			a.Do = Forget
		}
		return a
	case slot.Install:
		again, d := "", repair(o)
		if d != nil {
			again = fmt.Sprintf(" again, since the copy that was there is damaged on the disk of this node (%s)", d.Found)
		}
		switch {
		case d != nil && d.Times >= copies:
			return exhausted(o, d)
		case now && d == nil:
			f.Reason = fmt.Sprintf("asked to reboot into %s, which is not staged", o.Image.Version)
			return fail(f, o)
		case o.Fetched:
			return Action{Do: Stage, Phase: v1alpha1.UpdateWriting, Message: fmt.Sprintf("writing %s into slot %s%s", o.Image.Version, p.Slot, again)}
		}
		return Action{Do: Fetch, Phase: v1alpha1.UpdateDownloading, Message: "fetching " + o.Image.Version + again}
	case slot.Blocked:
		f.Reason = fmt.Sprintf("%s cannot be staged: %s", o.Image.Version, p.Why)
		return fail(f, o)
	case slot.Switch, slot.Reboot:
		if now {
			return Action{Do: Reboot, Phase: v1alpha1.UpdateRebooting, Message: fmt.Sprintf("rebooting into %s", o.Image.Version), Wanted: w}
		}
		a := Action{Do: Nothing, Phase: v1alpha1.UpdateStaged, Message: fmt.Sprintf("%s is staged in slot %s", o.Image.Version, p.Slot)}
		if p.Do == slot.Reboot {
			a.Do = Keep // the order to reboot was taken back
		}
		return a
	}
	return Action{Do: Nothing, Phase: v1alpha1.UpdateIdle}
}

// fail tells of a failure, once.
func fail(f Failure, o Observed) Action {
	a := failed(&f)
	if o.Record.Failed == nil || *o.Record.Failed != f || o.Record.Tried != nil {
		a.Do = Fail
	}
	return a
}

func failed(f *Failure) Action {
	return Action{Do: Nothing, Phase: v1alpha1.UpdateFailed, Message: f.Reason, Failure: f}
}

// running is the system that runs, as something to be wanted.
func running(s *slot.State) slot.Wanted {
	return slot.Wanted{RootHash: s.Running, Arguments: s.Arguments}
}

func runningName(s *slot.State) string {
	if c := s.Current(); c != nil {
		return c.Version
	}
	return "a system of neither slot"
}
