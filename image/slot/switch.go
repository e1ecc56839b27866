package slot

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/writ-os/writ/image/slot/boot"
	"github.com/writ-os/writ/image/slot/note"
)

// Switch makes the wanted system what the loader starts next, and returns the
// entry that leads to it. It must be on the disk: where the plan is Install, or
// Blocked, Switch fails. A system that is there already is a success.
//
// The other slot is read as a whole before it is switched to; where it is
// damaged it is emptied, so that the plan is Install from then on, and the error
// is one for which Broken holds.
func (s *Slots) Switch(w Wanted) (Entry, error) {
	st, err := s.State()
	if err != nil {
		return Entry{}, err
	}
	p := MakePlan(st, w)
	switch p.Do {
	case Nothing, Reboot:
		return *st.Next, nil
	case Switch:
	default:
		return Entry{}, fmt.Errorf("switch to %.12s: %s", w.RootHash, p)
	}
	if sl := st.Other(); sl.RootHash == w.RootHash {
		if err := s.prove(sl, w.RootHash); err != nil {
			if Broken(err) {
				if err := s.clear(st, sl); err != nil {
					return Entry{}, fmt.Errorf("clear slot %s: %w", sl.Name, err)
				}
			}
			return Entry{}, err
		}
	}
	if err := s.carry(st, p); err != nil {
		return Entry{}, fmt.Errorf("switch to slot %s: %w", p.Slot, err)
	}
	if st, err = s.State(); err != nil {
		return Entry{}, err
	}
	if st.Next == nil || st.Next.Name != p.To {
		return Entry{}, fmt.Errorf("switch to slot %s: the loader would start %v", p.Slot, st.Next)
	}
	return *st.Next, nil
}

// carry carries a Switch out. The name that the loader sees comes last.
func (s *Slots) carry(st *State, p Plan) error {
	if p.Arguments != "" {
		b, err := s.Addon(p.Arguments)
		if err != nil {
			return fmt.Errorf("make kernel arguments: %w", err)
		}
		if err := s.ESP.Create(boot.ArgumentsName(p.seq), bytes.NewReader(b)); err != nil {
			return fmt.Errorf("write kernel arguments: %w", err)
		}
	}
	from := p.From
	if p.Copy {
		from = boot.TmpName(p.seq)
		if err := s.copy(p.From, from); err != nil {
			return err
		}
	}
	if err := s.ESP.Sync(); err != nil {
		return err
	}
	if err := s.ESP.Rename(from, p.To); err != nil {
		return err
	}
	if err := s.ESP.Sync(); err != nil {
		return err
	}
	return s.sweep(st, p)
}

func (s *Slots) copy(from, to string) error {
	f, err := s.ESP.Open(from)
	if err != nil {
		return err
	}
	defer f.Close()
	return s.ESP.Create(to, io.NewSectionReader(f, 0, f.Size()))
}

// sweep removes what belongs to no entry any more. The next switch would do
// it too; the room on the ESP is wanted sooner.
func (s *Slots) sweep(st *State, p Plan) error {
	entries := map[uint64]bool{p.seq: true}
	for _, e := range st.Entries {
		entries[e.Seq] = p.Copy || e.Name != p.From
	}
	for _, name := range st.files {
		seq, _ := boot.SeqOf(name)
		if orphan := boot.DirOf(name) != "" && !entries[seq]; !orphan && !strings.HasSuffix(name, boot.TmpSuffix) {
			continue
		}
		if err := s.ESP.Remove(name); err != nil {
			return err
		}
	}
	return s.ESP.Sync()
}

// Well forgets the starts of the running system that did not become well: this one
// did. What was found damaged stays so: it was not read since.
func (s *Slots) Well() error {
	st, err := s.State()
	if err != nil {
		return err
	}
	cur := st.Current()
	if cur == nil {
		return fmt.Errorf("note that the start was well: the running system is in neither slot")
	}
	return note.Write(treePart{s.Device, cur.verity}, note.Note{RootHash: cur.RootHash, Damage: cur.Damage})
}

// Bless takes the counter off the entry that the running system was started by,
// so that the loader starts it for good. It is a success where it has none.
func (s *Slots) Bless() error {
	st, err := s.State()
	if err != nil {
		return err
	}
	switch b := st.Booted; {
	case b == nil:
		return fmt.Errorf("bless the running system: it has no boot entry")
	case b.Good:
		return nil
	default:
		if err := s.ESP.Rename(b.Name, boot.GoodName(b.Seq)); err != nil {
			return fmt.Errorf("bless %s: %w", b.Name, err)
		}
	}
	if err := s.ESP.Sync(); err != nil {
		return fmt.Errorf("bless the running system: %w", err)
	}
	return nil
}
