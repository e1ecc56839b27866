package sim

import (
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"strings"

	"github.com/writ-os/writ/image/gpt"
	"github.com/writ-os/writ/image/slot"
	"github.com/writ-os/writ/image/slot/boot"
	"github.com/writ-os/writ/image/slot/guard"
	"github.com/writ-os/writ/image/verity"
)

// Machine is a machine with two slots.
type Machine struct {
	Power *Power
	Disk  *Disk
	ESP   *ESP
	// Panics says which root hashes never get as far as user space.
	Panics map[string]bool
	// Unread says that what is damaged of the root file systems is never read.
	Unread bool
	// Direct is a root hash that is started without the loader; "" for none.
	Direct string
	// Said is what was said on the console.
	Said []string
	// Boots are the names of the entries that were started, after counting.
	Boots []string
}

// The layout, in sectors.
const (
	rootSectors   = 128 // 64 KiB
	verityLen     = 32
	espSectors    = 64
	firstSector   = 64
	totalSectors  = firstSector + espSectors + 2*(rootSectors+verityLen) + 64
	size          = totalSectors * gpt.SectorSize
	emptyName     = "_empty"
	entriesPath   = `\EFI\Linux\`
	maximumReboot = 20
)

// New is a machine that was flashed with a version: it is in slot A, and good.
func New(v *Version) (*Machine, error) {
	p := &Power{cut: -1}
	m := &Machine{
		Power: p, Panics: map[string]bool{},
		Disk: &Disk{power: p, view: make([]byte, size), lasting: make([]byte, size)},
		ESP:  &ESP{power: p, view: map[string][]byte{}, lasting: map[string][]byte{}},
	}
	hash, err := hex.DecodeString(v.RootHash)
	if err != nil {
		return nil, err
	}
	root, tree, err := gpt.VerityGUIDs(hash)
	if err != nil {
		return nil, err
	}
	at := uint64(firstSector)
	part := func(kind, id gpt.GUID, name string, sectors uint64) gpt.Partition {
		at += sectors
		return gpt.Partition{Type: kind, GUID: id, Name: name, First: at - sectors, Last: at - 1}
	}
	t := gpt.Table{DiskGUID: gpt.GUID{1}, Partitions: []gpt.Partition{
		part(gpt.TypeESP, gpt.GUID{2}, "esp", espSectors),
		part(gpt.TypeRootX8664, root, "root_"+v.Version, rootSectors),
		part(gpt.TypeRootX8664Verity, tree, "verity_"+v.Version, verityLen),
		part(gpt.TypeRootX8664, gpt.GUID{3}, emptyName, rootSectors),
		part(gpt.TypeRootX8664Verity, gpt.GUID{4}, emptyName, verityLen),
	}}
	if err := gpt.Write(m.Disk, t, size); err != nil {
		return nil, err
	}
	for i, b := range [][]byte{v.Root, v.Tree} {
		if _, err := m.Disk.WriteAt(b, t.Partitions[1+i].Offset()); err != nil {
			return nil, err
		}
	}
	if err := m.ESP.Create("writ_1.efi", bytes.NewReader(v.UKI)); err != nil {
		return nil, err
	}
	return m, errors.Join(m.Disk.Sync(), m.ESP.Sync())
}

// Clone is another machine with the same on its disks.
func (m *Machine) Clone() *Machine {
	p := &Power{cut: -1}
	return &Machine{
		Power: p, Panics: maps.Clone(m.Panics), Unread: m.Unread, Direct: m.Direct,
		Disk: &Disk{power: p, view: bytes.Clone(m.Disk.view), lasting: bytes.Clone(m.Disk.lasting)},
		ESP:  &ESP{power: p, view: maps.Clone(m.ESP.view), lasting: maps.Clone(m.ESP.lasting)},
	}
}

// Slots are those of the machine while a system runs.
func (m *Machine) Slots(b slot.Booted) *slot.Slots {
	return &slot.Slots{Device: m.Disk, ESP: m.ESP, Booted: b, Addon: Addon}
}

// PowerOn gives the machine its power back. Of what was not synced a share
// lasts, by chance.
func (m *Machine) PowerOn(seed uint64, share float64) {
	c := chance{rand.New(rand.NewPCG(seed, 1)), share}
	m.Disk.restart(c)
	m.ESP.restart(c)
	m.Power.on()
}

// Boot starts the machine until a system runs, as often as the loader needs. An
// error says that the machine is bricked.
func (m *Machine) Boot() (slot.Booted, error) {
	var last error
	for range maximumReboot {
		b, hash, err := m.load()
		if err != nil {
			return slot.Booted{}, err
		}
		do, err := m.guard(hash)
		if m.Power.isOff() {
			return slot.Booted{}, ErrPower // which keeps a guard from nothing
		}
		if err != nil || do == guard.Restart {
			last = err
			continue
		}
		if last = m.verify(hash); last == nil && !m.Panics[hash] {
			return b, nil
		}
	}
	return slot.Booted{}, fmt.Errorf("nothing boots: %w", last)
}

// guard is what the initrd does first.
func (m *Machine) guard(rootHash string) (guard.Do, error) {
	own, _, err := m.slot(rootHash)
	if err != nil {
		return "", err
	}
	say := func(format string, args ...any) { m.Said = append(m.Said, fmt.Sprintf(format, args...)) }
	return guard.Check(guard.Config{
		RootHash: rootHash, Slot: own, Name: "/dev/vda", Tell: say, Log: func(string, ...any) {},
		Other: func(rootHash string) (guard.Slot, func(), error) {
			s, _, err := m.slot(rootHash)
			return s, func() {}, err
		},
		ESP: func() (boot.ESP, func(), error) { return m.ESP, func() {}, nil },
	})
}

// verify is what the kernel does while the system starts: it stops at a block that
// is damaged, if that is read.
func (m *Machine) verify(rootHash string) error {
	if m.Unread {
		return nil
	}
	return m.Whole(rootHash)
}

// load does what systemd-boot and systemd-stub do.
func (m *Machine) load() (b slot.Booted, rootHash string, err error) {
	if m.Direct != "" {
		m.Boots = append(m.Boots, "")
		return slot.Booted{CommandLine: "roothash=" + m.Direct}, m.Direct, nil
	}
	var entries []slot.Entry
	names, err := m.ESP.List()
	if err != nil {
		return b, "", err
	}
	for _, n := range names {
		if e, ok := boot.ParseEntry(n); ok && m.line(n) != "" {
			entries = append(entries, e)
		}
	}
	e, name, ok := boot.Boot(entries)
	if !ok {
		return b, "", errors.New("the loader finds no entry")
	}
	b.Selected = e.Name
	if name != e.Name {
		if err := errors.Join(m.ESP.Rename(e.Name, name), m.ESP.Sync()); err != nil {
			return b, "", err
		}
		b.CountPath = entriesPath + name
	}
	m.Boots = append(m.Boots, name)
	b.CommandLine = m.line(name)
	if more := m.line(fmt.Sprintf("writ_%d.efi.extra.d/writ.addon.efi", e.Seq)); more != "" {
		b.CommandLine += " " + more
	}
	for a := range strings.FieldsSeq(b.CommandLine) {
		if hash, ok := strings.CutPrefix(a, "roothash="); ok {
			rootHash = hash
		}
	}
	return b, rootHash, nil
}

// line is the command line in a file of the ESP.
func (m *Machine) line(name string) string {
	f, err := m.ESP.Open(name)
	if err != nil {
		return ""
	}
	line, err := boot.CommandLine(f)
	if err != nil {
		return ""
	}
	return line
}

// Whole reads all that a root hash stands for.
func (m *Machine) Whole(rootHash string) error {
	s, hash, err := m.slot(rootHash)
	if err != nil {
		return err
	}
	return verity.Verify(s.Root, s.Tree, hash)
}

// slot does what the initrd does: it finds the partitions by the root hash.
func (m *Machine) slot(rootHash string) (guard.Slot, verity.Hash, error) {
	hash, err := hex.DecodeString(rootHash)
	if err != nil {
		return guard.Slot{}, verity.Hash{}, err
	}
	root, tree, err := gpt.VerityGUIDs(hash)
	if err != nil {
		return guard.Slot{}, verity.Hash{}, err
	}
	t, err := gpt.Parse(m.Disk, m.Disk.Size())
	if err != nil {
		return guard.Slot{}, verity.Hash{}, err
	}
	r, ok := t.ByGUID(root)
	v, ok2 := t.ByGUID(tree)
	if !ok || !ok2 {
		return guard.Slot{}, verity.Hash{}, fmt.Errorf("no partitions for root hash %.8s", rootHash)
	}
	part := func(n int) part {
		p := t.Partitions[n-1]
		return part{io.NewSectionReader(m.Disk, p.Offset(), p.Size()), io.NewOffsetWriter(m.Disk, p.Offset()), m.Disk}
	}
	return guard.Slot{Root: part(r), Tree: part(v)}, verity.Hash(hash), nil
}

// part is a partition of the disk.
type part struct {
	*io.SectionReader
	w    *io.OffsetWriter
	disk *Disk
}

func (p part) WriteAt(b []byte, off int64) (int, error) { return p.w.WriteAt(b, off) }
func (p part) Sync() error                              { return p.disk.Sync() }
