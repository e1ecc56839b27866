package slot

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/gpt"
	"github.com/writ-os/writ/image/slot/boot"
	"github.com/writ-os/writ/image/slot/note"
	"github.com/writ-os/writ/image/verity"
)

// BrokenError says that a slot does not hold what it was thought to hold, or
// what was written to it.
type BrokenError struct {
	Slot string
	err  error
}

func (e *BrokenError) Error() string { return fmt.Sprintf("slot %s: %v", e.Slot, e.err) }
func (e *BrokenError) Unwrap() error { return e.err }

// blankGUIDs are what partitions of an empty slot are called: some GUIDs that no
// two partitions share.
func blankGUIDs(slot string) (root, verity gpt.GUID) {
	sum := sha256.Sum256([]byte("writ: slot " + slot + " is empty"))
	return gpt.GUID(sum[:16]), gpt.GUID(sum[16:])
}

// Install writes a bundle into the slot that does not run, and stages it. When
// it fails, or the power does, the slot is empty or what was in it before, and
// Install may be called again. progress is told how many bytes are written, of
// how many.
func (s *Slots) Install(ctx context.Context, b *bundle.Reader, progress func(done, total int64)) error {
	st, err := s.State()
	if err != nil {
		return err
	}
	m := b.Manifest()
	// That the bundle is on no slot is what its installation is for: a slot that
	// holds it by name is overwritten.
	if p := MakePlan(st, Wanted{}); p.Do != Install {
		return fmt.Errorf("install %s: %s", m.Version, p.Why)
	}
	if m.RootHash == st.Running {
		return fmt.Errorf("install %s: it is what runs", m.Version)
	}
	sl := st.Other()
	if err := fits(sl, m); err != nil {
		return err
	}
	if err := s.clear(st, sl); err != nil {
		return fmt.Errorf("clear slot %s: %w", sl.Name, err)
	}
	w := &work{ctx: ctx, total: m.Size(), progress: progress}
	err = b.Each(func(f bundle.File, r io.Reader) error {
		switch r := (reader{w, r}); f.Name {
		case bundle.Root:
			return s.write(sl.root, r)
		case bundle.Verity:
			return s.write(sl.verity, r)
		default:
			return s.ESP.Create(boot.TmpName(st.next), r)
		}
	})
	if err != nil {
		return fmt.Errorf("write %s into slot %s: %w", m.Version, sl.Name, err)
	}
	if err := s.proveAll(sl, m, boot.TmpName(st.next)); err != nil {
		return err
	}
	return s.commit(st, sl, m)
}

// fits refuses what a slot has no room for.
func fits(sl *Slot, m *bundle.Manifest) error {
	for i, p := range []partition{sl.root, sl.verity} {
		room := p.size
		if p == sl.verity {
			room -= note.Room
		}
		if f := m.Files[i]; f.Content() > room {
			return &BrokenError{sl.Name, fmt.Errorf("%s of %s has %d bytes, and the partition has room for %d", strings.TrimSuffix(f.Name, ".zst"), m.Version, f.Content(), room)}
		}
	}
	return nil
}

// clear makes a slot one that nothing leads to: first its entries go, so that
// the loader cannot come to it, then its names, then what it remembers of its
// starts: the next content is another copy.
func (s *Slots) clear(st *State, sl *Slot) error {
	for _, name := range st.files {
		if seq, ok := boot.SeqOf(name); ok && seq == st.Booted.Seq && (name == st.Booted.Name || name == boot.ArgumentsName(seq)) {
			continue
		}
		if err := s.ESP.Remove(name); err != nil {
			return err
		}
	}
	if err := s.ESP.Sync(); err != nil {
		return err
	}
	root, tree := blankGUIDs(sl.Name)
	if err := s.name(sl, root, tree, emptyLabel, emptyLabel); err != nil {
		return err
	}
	return note.Erase(treePart{s.Device, sl.verity})
}

func (s *Slots) name(sl *Slot, root, tree gpt.GUID, rootName, treeName string) error {
	return gpt.UpdatePartition(s.Device, s.Device.Size(),
		gpt.Change{Number: sl.root.number, GUID: root, Name: rootName}, gpt.Change{Number: sl.verity.number, GUID: tree, Name: treeName})
}

// write copies r to a partition. What is behind it there stays.
func (s *Slots) write(p partition, r io.Reader) error {
	_, err := io.CopyBuffer(struct{ io.Writer }{&cursor{s.Device, p.offset, p.size}}, r, make([]byte, 1<<20))
	return err
}

// cursor writes from an offset on, at most left bytes.
type cursor struct {
	w         io.WriterAt
	off, left int64
}

func (c *cursor) Write(p []byte) (int, error) {
	if int64(len(p)) > c.left {
		return 0, io.ErrShortWrite
	}
	n, err := c.w.WriteAt(p, c.off)
	c.off, c.left = c.off+int64(n), c.left-int64(n)
	return n, err
}

// proveAll reads back what was written.
func (s *Slots) proveAll(sl *Slot, m *bundle.Manifest, uki string) error {
	if err := s.Device.Sync(); err != nil {
		return fmt.Errorf("write %s into slot %s: %w", m.Version, sl.Name, err)
	}
	if err := s.prove(sl, m.RootHash); err != nil {
		return err
	}
	f, err := s.ESP.Open(uki)
	if err != nil {
		return fmt.Errorf("read back kernel: %w", err)
	}
	defer f.Close()
	kernel, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
	if err != nil {
		return fmt.Errorf("read back kernel: %w", err)
	}
	if sum := sha256.Sum256(kernel); hex.EncodeToString(sum[:]) != m.Files[2].SHA256 {
		return &BrokenError{sl.Name, errors.New("the kernel that was written to the EFI partition comes back as something else")}
	}
	line, err := boot.CommandLine(f)
	if err != nil {
		return &BrokenError{sl.Name, fmt.Errorf("the kernel of %s %w", m.Version, err)}
	}
	if got := boot.Argument(line, "roothash"); got != m.RootHash {
		return &BrokenError{sl.Name, fmt.Errorf("the kernel of %s is for the root hash %.12s, and its manifest says %.12s", m.Version, got, m.RootHash)}
	}
	if s.Accepts == nil {
		return nil
	}
	// Found out now, and not by a machine that does not come back.
	if err := s.Accepts(kernel); err != nil {
		return &BrokenError{sl.Name, fmt.Errorf("the kernel of %s: %w", m.Version, err)}
	}
	return nil
}

// prove reads a slot and says whether it is what the root hash stands for.
func (s *Slots) prove(sl *Slot, rootHash string) error {
	hash, err := hex.DecodeString(rootHash)
	if err != nil || len(hash) != len(verity.Hash{}) {
		return fmt.Errorf("verify slot %s: %q is no root hash", sl.Name, rootHash)
	}
	if err := verity.Verify(sl.root.section(s.Device), sl.verity.section(s.Device), verity.Hash(hash)); err != nil {
		return &BrokenError{sl.Name, err}
	}
	return nil
}

// commit gives the slot its name, and the UKI the one under which it is found.
func (s *Slots) commit(st *State, sl *Slot, m *bundle.Manifest) error {
	hash, err := hex.DecodeString(m.RootHash)
	if err != nil {
		return err
	}
	root, tree, err := gpt.VerityGUIDs(hash)
	if err != nil {
		return err
	}
	if err := s.name(sl, root, tree, rootLabel+m.Version, verityLabel+m.Version); err != nil {
		return fmt.Errorf("name slot %s: %w", sl.Name, err)
	}
	if err := s.ESP.Rename(boot.TmpName(st.next), boot.StagedName(st.next)); err != nil {
		return fmt.Errorf("stage %s: %w", m.Version, err)
	}
	if err := s.ESP.Sync(); err != nil {
		return fmt.Errorf("stage %s: %w", m.Version, err)
	}
	return nil
}

// work is what is told of while it lasts, and what a context ends.
type work struct {
	ctx         context.Context
	done, total int64
	progress    func(done, total int64)
}

type reader struct {
	*work
	r io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	n, err := r.r.Read(p)
	r.done += int64(n)
	if r.progress != nil {
		r.progress(r.done, r.total)
	}
	return n, err
}

// Broken says whether a slot was found to be damaged, or cannot hold what it
// is meant to.
func Broken(err error) bool {
	var b *BrokenError
	return errors.As(err, &b)
}
