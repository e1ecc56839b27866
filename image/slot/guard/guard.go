// Package guard is what a machine does about its own root file system before it
// starts from it, so that one whose disk has lost a block does not start again for
// ever while the other slot holds a good version.
//
//	the top of the hash tree is wrong ────────────────┐
//	this start and the two before did not become well │
//	  └─> all of it is read ─┬─> sound: start, as ever │
//	                         └─> damaged <────────────┘
//	                               ├─> another version is whole: it takes over, restart
//	                               └─> none is: say what to do, start as ever
//
// It owns the note of the slot that starts, and the names of boot entries in the
// moment when one gives way. It promises that a machine goes back for a damaged
// root file system alone, and never because the power flaps or a server is away;
// that it goes to nothing that it has not read as a whole; that the power may fail
// at every write; and that a note or an EFI partition that cannot be read or
// written keeps nobody from starting.
package guard

import (
	"encoding/hex"
	"fmt"
	"io"
	"strings"

	"github.com/writ-os/writ/image/slot/boot"
	"github.com/writ-os/writ/image/slot/note"
	"github.com/writ-os/writ/image/verity"
)

// Slot is where a root file system and its hash tree lie.
type Slot struct {
	Root io.ReaderAt
	Tree note.Part
}

// Config is everything that a check needs from outside.
type Config struct {
	// RootHash is that of what starts, 64 hexadecimal digits, Slot where it lies.
	RootHash string
	Slot     Slot
	// Name is where the root file system is, for people.
	Name string
	// Other finds the slot on this disk that has a root hash, and closes it.
	Other func(rootHash string) (s Slot, done func(), err error)
	// ESP opens the EFI system partition, and closes it.
	ESP func() (e boot.ESP, done func(), err error)
	// Tell says a sentence to whoever stands before the machine, Log to the kernel's
	// log.
	Tell, Log func(format string, args ...any)
}

// Do is what a machine does next.
type Do string

// What there is to do.
const (
	// Start from the slot.
	Start Do = "Start"
	// Restart the machine: another version takes over.
	Restart Do = "Restart"
)

// Patience is how many starts in a row may not become well, the one under way
// among them, until all is read: as often as the loader starts a version on trial,
// so that one whose copy is damaged is known from one that is bad.
const Patience = boot.Tries

// count is the note of the start that begins, and whether to read all.
func count(n note.Note) (note.Note, bool) {
	if n.Starts < 1<<31 {
		n.Starts++
	}
	return n, n.Starts >= Patience
}

// judge is the note after all was read. What is sound begins anew: a machine that
// waits for a server reads its root every third start, and not every one.
func judge(n note.Note, damage string) note.Note {
	if n.Damage = damage; damage == "" {
		n.Starts = 0
	}
	return n
}

// Check counts a start, and says how it goes on. An error says what keeps the
// machine from starting, and that nothing can take over.
func Check(c Config) (Do, error) {
	b, err := hex.DecodeString(c.RootHash)
	if err != nil || len(b) != len(verity.Hash{}) {
		return "", fmt.Errorf("%q is no root hash", c.RootHash)
	}
	hash := verity.Hash(b)
	n, err := note.Read(c.Slot.Tree, c.Slot.Tree.Size(), c.RootHash)
	if err != nil {
		c.Log("the starts before are not known: %v", err)
	}
	before := n.Damage
	n, all := count(n)
	if err := verity.Top(c.Slot.Tree, hash); err != nil {
		n = judge(n, sentence(err))
		c.keep(n)
		if c.giveWay(n.Damage, before != "") {
			return Restart, nil
		}
		return "", fmt.Errorf("the root file system on %s is damaged: %s; %s", c.Name, n.Damage, advice)
	}
	c.keep(n)
	if !all {
		return Start, nil
	}
	c.Tell("The last %d starts of this machine did not become well: all of its root file system is read.", n.Starts-1)
	n = judge(n, sentence(verity.Verify(c.Slot.Root, c.Slot.Tree, hash)))
	c.keep(n)
	if n.Damage == "" {
		c.Tell("The root file system on %s is as it should be: the machine starts from it.", c.Name)
		return Start, nil
	}
	if c.giveWay(n.Damage, before != "") {
		return Restart, nil
	}
	// What is damaged may be what nobody reads.
	c.Tell("The root file system on %s is damaged: %s; %s. The machine starts from it as far as it comes.", c.Name, n.Damage, advice)
	return Start, nil
}

const advice = "no other version on this disk can take over: write the image to the disk again, or to another disk"

// sentence is an error of verity without what names the caller; "" of none.
func sentence(err error) string {
	if err == nil {
		return ""
	}
	return strings.TrimPrefix(err.Error(), "verify: ")
}

// keep writes the note. A disk that is not written to is no reason not to start
// from it.
func (c Config) keep(n note.Note) {
	if err := note.Write(c.Slot.Tree, n); err != nil {
		c.Log("this start is not counted: %v", err)
	}
}

// giveWay lets another version take over, where one is whole. Where it has done so
// before and this one was started again, it is not the loader that starts it, and
// no name helps.
func (c Config) giveWay(damage string, again bool) bool {
	esp, done, err := c.ESP()
	if err != nil {
		c.Tell("No other version can take over: %v.", err)
		return false
	}
	defer done()
	files, err := boot.Read(esp)
	if err != nil {
		c.Tell("No other version can take over: %v.", err)
		return false
	}
	for _, to := range boot.Alternatives(files, c.RootHash) {
		if err := c.whole(to.RootHash); err != nil {
			c.Tell("%s does not take over: %s.", to.Name, sentence(err))
			continue
		}
		steps := boot.GiveWay(files, c.RootHash, to)
		if again && len(steps) == 0 {
			c.Tell("%s does not take over: this version has given way, and was started all the same.", to.Name)
			return false
		}
		if err := c.rename(esp, steps); err != nil {
			c.Tell("%s does not take over: %v.", to.Name, err)
			return false
		}
		c.Tell("The root file system on %s is damaged: %s. Another version takes over, by %s.", c.Name, damage, to.Name)
		return true
	}
	return false
}

// whole says whether another slot holds all that its root hash stands for.
func (c Config) whole(rootHash string) error {
	b, err := hex.DecodeString(rootHash)
	if err != nil || len(b) != len(verity.Hash{}) {
		return fmt.Errorf("%q is no root hash", rootHash)
	}
	s, done, err := c.Other(rootHash)
	if err != nil {
		return err
	}
	defer done()
	return verity.Verify(s.Root, s.Tree, verity.Hash(b))
}

// rename carries the steps out, each on the disk before the next.
func (c Config) rename(esp boot.ESP, steps []boot.Rename) error {
	for _, s := range steps {
		if err := esp.Rename(s.From, s.To); err != nil {
			return fmt.Errorf("rename boot entry: %w", err)
		}
		if err := esp.Sync(); err != nil {
			return fmt.Errorf("rename boot entry: %w", err)
		}
	}
	return nil
}
