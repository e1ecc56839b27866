package slot

import (
	"encoding/hex"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"

	"github.com/writ-os/writ/image/gpt"
	"github.com/writ-os/writ/image/slot/boot"
	"github.com/writ-os/writ/image/slot/note"
)

// Names of partitions.
const (
	rootLabel   = "root_"
	verityLabel = "verity_"
	emptyLabel  = "_empty"
)

// Slot is one of the two.
type Slot struct {
	Name string // A or B
	// Complete says that it holds Version and RootHash: they are set when the
	// data was read back against the root hash, and blanked before it is written.
	Complete          bool
	Version, RootHash string
	// Starts are those in a row that did not become well, with the one under way;
	// Damage is what was wrong with the root file system when a start read all of
	// it, "" where nothing was. Both are of the slot's note; see package guard.
	Starts int
	Damage string

	// The numbers of its partitions, from 1, and where they lie on the disk.
	root, verity partition
}

type partition struct {
	number       int
	offset, size int64 // in bytes
}

func (p partition) section(r io.ReaderAt) *io.SectionReader {
	return io.NewSectionReader(r, p.offset, p.size)
}

// State is what the disk says.
type State struct {
	// Running is the root hash of the system that runs, "" where it has none.
	Running string
	// Arguments are the kernel arguments that it was given besides.
	Arguments string
	// Booted is the entry that it was started by; nil where that cannot be told.
	Booted *Entry
	Slots  [2]Slot
	// Entries are those of the loader, in its order.
	Entries []Entry
	// Staged are UKIs that wait, newest first, with the name that they have now.
	Staged []Entry
	// Next is the entry that the loader would start now; nil where there is none.
	Next *Entry

	next  uint64 // the first number that no file has
	files []string
}

// Current is the slot that runs; nil where it is neither.
func (s *State) Current() *Slot { return s.holding(s.Running) }

// Other is the slot that does not run; nil where neither does.
func (s *State) Other() *Slot {
	switch cur := s.Current(); cur {
	case nil:
		return nil
	case &s.Slots[0]:
		return &s.Slots[1]
	}
	return &s.Slots[0]
}

// holding is the complete slot with the root hash.
func (s *State) holding(rootHash string) *Slot {
	for i := range s.Slots {
		if sl := &s.Slots[i]; rootHash != "" && sl.Complete && sl.RootHash == rootHash {
			return sl
		}
	}
	return nil
}

// Trial says whether the system that runs was not found good yet.
func (s *State) Trial() bool { return s.Booted != nil && !s.Booted.Good }

// State reads the disk. What it cannot make sense of it leaves out: an
// installation that was interrupted leaves such things behind, and the next one
// puts them right.
func (s *Slots) State() (*State, error) {
	st := &State{Running: boot.Argument(s.Booted.CommandLine, "roothash")}
	t, err := gpt.Parse(s.Device, s.Device.Size())
	if err != nil {
		return nil, err
	}
	if st.Slots, err = slotsOf(t); err != nil {
		return nil, err
	}
	for i := range st.Slots {
		s.remembers(&st.Slots[i])
	}
	f, err := boot.Read(s.ESP)
	if err != nil {
		return nil, err
	}
	st.files, st.Entries, st.Staged, st.next = f.Names, f.Entries, f.Staged, f.Next
	st.Booted = st.booted(s.Booted)
	if e := st.Booted; e != nil && e.Arguments != "" && strings.Contains(" "+s.Booted.CommandLine+" ", " "+e.Arguments+" ") {
		st.Arguments = e.Arguments
	}
	// The loader leaves out what is no UKI.
	if e, _, ok := boot.Boot(slices.DeleteFunc(slices.Clone(st.Entries), func(e Entry) bool { return e.RootHash == "" })); ok {
		st.Next = &e
	}
	return st, nil
}

// remembers reads the note of a slot. One that cannot be read says nothing.
func (s *Slots) remembers(sl *Slot) {
	if !sl.Complete {
		return
	}
	if n, err := note.Read(sl.verity.section(s.Device), sl.verity.size, sl.RootHash); err == nil {
		sl.Starts, sl.Damage = int(n.Starts), n.Damage
	}
}

// slotsOf finds the slots in a table.
func slotsOf(t gpt.Table) ([2]Slot, error) {
	slots := [2]Slot{{Name: "A"}, {Name: "B"}}
	var roots, trees []int
	for i, p := range t.Partitions {
		switch p.Type {
		case gpt.TypeRootX8664:
			roots = append(roots, i)
		case gpt.TypeRootX8664Verity:
			trees = append(trees, i)
		}
	}
	if len(roots) != 2 || len(trees) != 2 {
		return slots, fmt.Errorf("the disk has %d root and %d verity partitions, and two slots need two each", len(roots), len(trees))
	}
	for i := range slots {
		r, v := t.Partitions[roots[i]], t.Partitions[trees[i]]
		sl := &slots[i]
		sl.root = partition{roots[i] + 1, r.Offset(), r.Size()}
		sl.verity = partition{trees[i] + 1, v.Offset(), v.Size()}
		version, isRoot := strings.CutPrefix(r.Name, rootLabel)
		tree, isTree := strings.CutPrefix(v.Name, verityLabel)
		if isRoot && isTree && version != "" && version == tree {
			sl.Complete, sl.Version = true, version
			sl.RootHash = hex.EncodeToString(r.GUID[:]) + hex.EncodeToString(v.GUID[:])
		}
	}
	return slots, nil
}

// booted finds the entry that the running system was started by: as the loader
// says, or, where it says nothing, the first one with the system's root hash.
func (s *State) booted(b Booted) *Entry {
	for _, said := range []string{b.CountPath, b.Selected} {
		seq, ok := boot.SeqOf(path.Base(strings.ReplaceAll(said, `\`, "/")))
		for i := range s.Entries {
			if e := &s.Entries[i]; ok && e.Seq == seq && e.RootHash == s.Running {
				return e
			}
		}
	}
	for i := range s.Entries {
		if e := &s.Entries[i]; s.Running != "" && e.RootHash == s.Running {
			return e
		}
	}
	return nil
}
