package slot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/slot"
	"github.com/writ-os/writ/image/slot/sim"
)

// From v4 to v5, and to a v6 that fails three times; back on v5 to v4 again,
// which has to be written anew, and to v5 once more, which has not.
func TestLife(t *testing.T) {
	v4, v5, v6 := version(t, "4.0.0"), version(t, "5.0.0"), version(t, "6.0.0")
	m := machine(t, v4)
	s := boots(t, m, v4)
	if p := slot.MakePlan(state(t, s), slot.Wanted{RootHash: v4.RootHash}); p.Do != slot.Nothing {
		t.Errorf("plan for what runs: %s", p)
	}
	if p := slot.MakePlan(state(t, s), slot.Wanted{}); p.String() != "install into slot B" {
		t.Errorf("plan for what is nowhere: %s", p)
	}
	install(t, s, v5)
	// Staged is not chosen: whoever reboots now stays.
	s = boots(t, m, v4)
	if st := state(t, s); len(st.Staged) != 1 || !st.Slots[1].Complete || st.Slots[1].Version != "5.0.0" {
		t.Errorf("staged: %+v", st)
	}
	if e := switchTo(t, s, v5, ""); e.Name != "writ_3+3.efi" {
		t.Errorf("entry %s", e)
	}
	if p := slot.MakePlan(state(t, s), slot.Wanted{RootHash: v5.RootHash}); p.Do != slot.Reboot {
		t.Errorf("plan after the switch: %s", p)
	}
	s = boots(t, m, v5)
	if st := state(t, s); !st.Trial() || st.Booted.Name != "writ_3+2-1.efi" {
		t.Errorf("on trial: %+v", st.Booted)
	}
	// Nothing is overwritten before v5 is good.
	if p := slot.MakePlan(state(t, s), slot.Wanted{}); p.Do != slot.Blocked || !strings.Contains(p.Why, "on trial") {
		t.Errorf("plan on trial: %s", p)
	}
	if err := s.Install(t.Context(), reader(t, v6), nil); err == nil {
		t.Error("installed while on trial")
	}
	bless(t, s)
	bless(t, s)
	if st := state(t, s); st.Trial() || st.Booted.Name != "writ_3.efi" {
		t.Errorf("blessed: %+v", st.Booted)
	}

	install(t, s, v6)
	switchTo(t, s, v6, "")
	for range 3 {
		boots(t, m, v6) // never blessed
	}
	s = boots(t, m, v5)
	st := state(t, s)
	if !slices.ContainsFunc(st.Entries, func(e slot.Entry) bool { return e.RootHash == v6.RootHash && e.Spent() }) || st.Next.RootHash != v5.RootHash {
		t.Errorf("after the fallback: %v, next %v", st.Entries, st.Next)
	}
	if p := slot.MakePlan(st, slot.Wanted{RootHash: v5.RootHash}); p.Do != slot.Nothing {
		t.Errorf("plan for what runs: %s", p)
	}

	install(t, s, v4)
	switchTo(t, s, v4, "")
	s = boots(t, m, v4)
	bless(t, s)
	// Back to v5, which the other slot has: a rename.
	p := slot.MakePlan(state(t, s), slot.Wanted{RootHash: v5.RootHash})
	if p.Do != slot.Switch || p.Copy || !strings.HasPrefix(p.String(), "switch to slot B: rename writ_3.efi to writ_") {
		t.Errorf("plan back: %s", p)
	}
	switchTo(t, s, v5, "")
	// Changing one's mind before the reboot.
	if p := slot.MakePlan(state(t, s), slot.Wanted{RootHash: v4.RootHash}); p.Do != slot.Switch || p.Slot != "A" {
		t.Errorf("plan to stay: %s", p)
	}
	switchTo(t, s, v4, "")
	s = boots(t, m, v4)
	switchTo(t, s, v5, "")
	bless(t, boots(t, m, v5))
}

// Who goes back in the middle of a trial has one system that is good all the
// time.
func TestBackFromTrial(t *testing.T) {
	v4, v5 := version(t, "4.0.0"), version(t, "5.0.0")
	m := machine(t, v4)
	s := boots(t, m, v4)
	install(t, s, v5)
	switchTo(t, s, v5, "")
	s = boots(t, m, v5)
	if e := switchTo(t, s, v4, ""); e.Name != "writ_4.efi" {
		t.Errorf("entry %s", e)
	}
	// And on again: from a good one, with a trial.
	s = boots(t, m, v4)
	if e := switchTo(t, s, v5, ""); e.Name != "writ_5+3.efi" {
		t.Errorf("entry %s", e)
	}
}

// A kernel that panics is given up by the loader alone.
func TestPanic(t *testing.T) {
	v4, v5 := version(t, "4.0.0"), version(t, "5.0.0")
	m := machine(t, v4)
	s := boots(t, m, v4)
	install(t, s, v5)
	switchTo(t, s, v5, "")
	m.Panics[v5.RootHash] = true
	boots(t, m, v4)
	if want := "[writ_1.efi writ_3+2-1.efi writ_3+1-2.efi writ_3+0-3.efi writ_1.efi]"; fmt.Sprint(m.Boots) != want {
		t.Errorf("boots %v, want %s", m.Boots, want)
	}
}

// Other kernel arguments are a trial of their own, with the old ones to fall
// back to.
func TestArguments(t *testing.T) {
	v4, v5 := version(t, "4.0.0"), version(t, "5.0.0")
	m := machine(t, v4)
	s := boots(t, m, v4)
	if e := switchTo(t, s, v4, "debug x=1"); e.Name != "writ_2+3.efi" {
		t.Errorf("entry %s", e)
	}
	for range 3 {
		if st := state(t, boots(t, m, v4)); st.Arguments != "debug x=1" || !st.Trial() || st.Booted.Seq != 2 {
			t.Fatalf("arguments %q of %v", st.Arguments, st.Booted)
		}
	}
	s = boots(t, m, v4)
	if st := state(t, s); st.Arguments != "" || st.Trial() || st.Booted.Name != "writ_1.efi" {
		t.Errorf("arguments %q of %v", st.Arguments, st.Booted)
	}
	switchTo(t, s, v4, "debug x=2")
	s = boots(t, m, v4)
	bless(t, s)
	if st := state(t, s); st.Arguments != "debug x=2" || slot.MakePlan(st, slot.Wanted{RootHash: v4.RootHash, Arguments: "debug x=2"}).Do != slot.Nothing {
		t.Errorf("arguments %q of %v", st.Arguments, st.Booted)
	}
	// They come along with a version, and go with it.
	install(t, s, v5)
	switchTo(t, s, v5, "debug x=3")
	s = boots(t, m, v5)
	bless(t, s)
	if st := state(t, s); st.Arguments != "debug x=3" {
		t.Errorf("arguments %q of %v", st.Arguments, st.Booted)
	}
	switchTo(t, s, v4, "")
	s = boots(t, m, v4)
	if st := state(t, s); st.Arguments != "" {
		t.Errorf("arguments %q of %v", st.Arguments, st.Booted)
	}
	names, _ := m.ESP.List()
	if dirs := slices.DeleteFunc(names, func(n string) bool { return !strings.Contains(n, "/") }); len(dirs) != 1 {
		t.Errorf("left over: %v", dirs)
	}
}

// What cannot be installed leaves the machine as it was, or the slot empty.
func TestInstallFails(t *testing.T) {
	v4, v5 := version(t, "4.0.0"), version(t, "5.0.0")
	broken := errors.New("input/output error")
	large, foreign := *v5, *v5
	large.Root = append(bytes.Clone(v5.Root), make([]byte, 64<<10)...)
	foreign.UKI = v4.UKI
	other := *v5
	other.RootHash = v4.RootHash[:32] + v5.RootHash[32:]
	for name, tt := range map[string]struct {
		v    *sim.Version
		fail func(*sim.Machine)
		want string
	}{
		"disk":      {v5, func(m *sim.Machine) { m.Disk.Fail(broken) }, "input/output error"},
		"too large": {&large, nil, "slot B: root.erofs of 5.0.0 has 102400 bytes, and the partition has room for 65536"},
		"root hash": {&other, nil, "is not what the root hash stands for"},
		"other UKI": {&foreign, nil, "the kernel of 5.0.0 is for the root hash"},
		"what runs": {v4, nil, "install 4.0.0: it is what runs"},
		"no UKI":    {func() *sim.Version { v := *v5; v.UKI = []byte("text"); return &v }(), nil, "the kernel of 5.0.0 is no PE file"},
		"cut UKI":   {func() *sim.Version { v := *v5; v.UKI = v.UKI[:5000]; return &v }(), nil, "the kernel of 5.0.0 is cut off"},
		"no command": {func() *sim.Version {
			v := *v5
			v.UKI = v.UKI[:1536]
			v.UKI = bytes.Replace(bytes.Clone(v.UKI), []byte(".cmdline"), []byte(".nothing"), 1)
			return &v
		}(), nil, "the kernel of 5.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			m := machine(t, v4)
			s := boots(t, m, v4)
			if tt.fail != nil {
				tt.fail(m)
			}
			err := s.Install(t.Context(), reader(t, tt.v), nil)
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v, want %q", err, tt.want)
			}
			m.Disk.Fail(nil)
			if st := state(t, s); st.Slots[1].Complete || len(st.Staged) > 0 || len(st.Entries) != 1 {
				t.Errorf("after it: %+v", st)
			}
			s = boots(t, m, v4)
			install(t, s, v5)
		})
	}
}

// A bundle that turns out to be false at its last byte is not staged.
func TestInstallDistrusted(t *testing.T) {
	v4, v5 := version(t, "4.0.0"), version(t, "5.0.0")
	m := machine(t, v4)
	s := boots(t, m, v4)
	b, err := v5.Bundle(nil)
	if err != nil {
		t.Fatal(err)
	}
	r, err := bundle.Read(bytes.NewReader(b), bundle.Trust{Digest: "sha256:" + strings.Repeat("00", 32)})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Install(t.Context(), r, nil); !bundle.Refused(err) {
		t.Errorf("%v", err)
	}
	if st := state(t, s); st.Slots[1].Complete || len(st.Staged) > 0 {
		t.Errorf("after it: %+v", st)
	}
	ctx, cancel := context.WithCancel(t.Context())
	err = s.Install(ctx, reader(t, v5), func(done, total int64) {
		if done > total/2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if st := state(t, s); st.Slots[1].Complete || len(st.Staged) > 0 {
		t.Errorf("after it: %+v", st)
	}
}

// A slot that has rotten is found out before it is booted.
func TestSwitchToDamaged(t *testing.T) {
	v4, v5 := version(t, "4.0.0"), version(t, "5.0.0")
	m := machine(t, v4)
	s := boots(t, m, v4)
	install(t, s, v5)
	m.Disk.Damage(bytesAt(t, m, v5.Root))
	_, err := s.Switch(slot.Wanted{RootHash: v5.RootHash})
	if !slot.Broken(err) || !strings.Contains(err.Error(), "slot B: block 3 of the root file system") {
		t.Errorf("%v", err)
	}
	if p := slot.MakePlan(state(t, s), slot.Wanted{RootHash: v5.RootHash}); p.Do != slot.Install {
		t.Errorf("plan: %s", p)
	}
	install(t, s, v5)
	switchTo(t, s, v5, "")
	boots(t, m, v5)
}

// bytesAt is a place in the middle of content that lies on the disk.
func bytesAt(t *testing.T, m *sim.Machine, content []byte) int64 {
	t.Helper()
	all, err := io.ReadAll(io.NewSectionReader(m.Disk, 0, m.Disk.Size()))
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(all, content)
	if at < 0 {
		t.Fatal("the content is not on the disk")
	}
	return int64(at) + 3*4096 + 17
}

func TestBlocked(t *testing.T) {
	v4, v5 := version(t, "4.0.0"), version(t, "5.0.0")
	m := machine(t, v4)
	for line, want := range map[string]string{
		"quiet":                   "has no root hash on its command line",
		"roothash=" + v5.RootHash: "is in neither slot",
	} {
		p := slot.MakePlan(state(t, m.Slots(slot.Booted{CommandLine: line})), slot.Wanted{})
		if p.Do != slot.Blocked || !strings.Contains(p.Why, want) {
			t.Errorf("%s: %s", line, p)
		}
	}
	if err := m.ESP.Remove("writ_1.efi"); err != nil {
		t.Fatal(err)
	}
	s := m.Slots(slot.Booted{CommandLine: "roothash=" + v4.RootHash})
	if p := slot.MakePlan(state(t, s), slot.Wanted{}); p.Do != slot.Blocked || !strings.Contains(p.Why, "has no boot entry") {
		t.Error(p)
	}
	if err := s.Bless(); err == nil {
		t.Error("blessed without an entry")
	}
}
