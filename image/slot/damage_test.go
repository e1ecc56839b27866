package slot_test

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/writ-os/writ/image/slot"
	"github.com/writ-os/writ/image/slot/guard"
	"github.com/writ-os/writ/image/slot/sim"
)

// placeOf is where content lies on the disk.
func placeOf(t testing.TB, m *sim.Machine, content []byte) int64 {
	t.Helper()
	all, err := io.ReadAll(io.NewSectionReader(m.Disk, 0, m.Disk.Size()))
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(all, content)
	if at < 0 {
		t.Fatal("the content is not on the disk")
	}
	return int64(at)
}

// updated runs v5 from slot B, and has v4 in slot A; both are good.
func updated(t testing.TB, v4, v5 *sim.Version) *sim.Machine {
	t.Helper()
	m := machine(t, v4)
	if err := reach(t, m, boots(t, m, v4), v5, ""); err != nil {
		t.Fatal(err)
	}
	s := boots(t, m, v5)
	if err := s.Well(); err != nil {
		t.Fatal(err)
	}
	m.Boots = nil
	return m
}

// What becomes of a machine that runs v5, by what is damaged.
func TestDamaged(t *testing.T) {
	v4, v5, v6 := version(t, "4.0.0"), version(t, "5.0.0"), version(t, "6.0.0")
	data := func(v *sim.Version, off int64) func(testing.TB, *sim.Machine) {
		return func(t testing.TB, m *sim.Machine) { m.Disk.Damage(placeOf(t, m, v.Root) + off) }
	}
	tree := func(v *sim.Version, off int64) func(testing.TB, *sim.Machine) {
		return func(t testing.TB, m *sim.Machine) { m.Disk.Damage(placeOf(t, m, v.Tree) + off) }
	}
	const bad = " is not what the root hash stands for"
	for _, tt := range []struct {
		name   string
		do     []func(testing.TB, *sim.Machine)
		runs   *sim.Version // nil: nothing
		boots  string
		said   string
		damage string // of slot B
	}{
		{"nothing", nil, v5, "writ_3.efi", "", ""},
		{"a block", []func(testing.TB, *sim.Machine){data(v5, 12345)}, v4, "writ_3.efi writ_3.efi writ_3.efi writ_1.efi",
			"damaged: block 3 of the root file system" + bad + ". Another version takes over, by writ_1.efi.", "block 3 of the root file system" + bad},
		{"the top of the tree", []func(testing.TB, *sim.Machine){tree(v5, 4100)}, v4, "writ_3.efi writ_1.efi", "block 1 of the hash tree" + bad, "block 1 of the hash tree" + bad},
		{"the superblock", []func(testing.TB, *sim.Machine){tree(v5, 0)}, v4, "writ_3.efi writ_1.efi", "read verity superblock: there is none", "read verity superblock: there is none"},
		{"a block that is not read", []func(testing.TB, *sim.Machine){data(v5, 12345), unread}, v5, "writ_3.efi", "", ""},
		{"both versions", []func(testing.TB, *sim.Machine){data(v5, 12345), data(v4, 1)}, nil, "", "no other version on this disk can take over: write the image to the disk again", ""},
		{"the other version, and this one is well", []func(testing.TB, *sim.Machine){data(v4, 1)}, v5, "writ_3.efi", "", ""},
		{"a block, and the other one is only staged", []func(testing.TB, *sim.Machine){func(t testing.TB, m *sim.Machine) {
			install(t, boots(t, m, v5), v6)
			m.Boots = nil
		}, data(v5, 12345)}, v6, "writ_3.efi writ_3.efi writ_4+2-1.efi", "by writ_4.staged", ""},
		{"a block, and there is nothing else", []func(testing.TB, *sim.Machine){func(t testing.TB, m *sim.Machine) {
			if err := m.ESP.Remove("writ_1.efi"); err != nil {
				t.Fatal(err)
			}
		}, data(v5, 12345)}, nil, "", "no other version on this disk can take over", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			m := updated(t, v4, v5)
			for _, do := range tt.do {
				do(t, m)
			}
			b, err := m.Boot()
			said := strings.Join(m.Said, "\n")
			if !strings.Contains(said, tt.said) || (tt.said == "") != (said == "") || strings.Contains(said, "%!") {
				t.Errorf("said %q, want %q", said, tt.said)
			}
			if tt.runs == nil {
				if err == nil {
					t.Errorf("it starts: %+v", b)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			st := state(t, m.Slots(b))
			if got := strings.Join(m.Boots, " "); st.Running != tt.runs.RootHash || got != tt.boots {
				t.Errorf("running %.8s after %s, want %s", st.Running, got, tt.boots)
			}
			if tt.runs == v4 && (st.Other().Damage != tt.damage || st.Next.RootHash != v4.RootHash) {
				t.Errorf("%+v, next %v", st.Other(), st.Next)
			}
		})
	}
}

func unread(_ testing.TB, m *sim.Machine) { m.Unread = true }

// Where something else than the loader starts a version, it cannot give way, and
// starts as far as it comes.
func TestDamagedWithoutLoader(t *testing.T) {
	v4, v5 := version(t, "4.0.0"), version(t, "5.0.0")
	m := updated(t, v4, v5)
	m.Disk.Damage(placeOf(t, m, v5.Root) + 5)
	m.Direct, m.Unread = v5.RootHash, true
	for range 4 {
		boots(t, m, v5)
	}
	if len(m.Boots) != 5 || !strings.Contains(strings.Join(m.Said, "\n"), "writ_1.efi does not take over: this version has given way, and was started all the same.") {
		t.Errorf("boots %v, said %q", m.Boots, m.Said)
	}
}

// A damaged copy is written again, and has then no past.
func TestRepair(t *testing.T) {
	v4, v5 := version(t, "4.0.0"), version(t, "5.0.0")
	m := updated(t, v4, v5)
	for range 3 {
		m.Disk.Damage(placeOf(t, m, v5.Root) + 5)
		s := boots(t, m, v4)
		if p := slot.MakePlan(state(t, s), slot.Wanted{RootHash: v5.RootHash}); p.Do != slot.Install {
			t.Fatalf("plan: %s", p)
		}
		if err := reach(t, m, s, v5, ""); err != nil {
			t.Fatal(err)
		}
		if sl := state(t, boots(t, m, v5)).Slots[1]; sl.Damage != "" || sl.Starts == 0 || sl.Starts > 2 {
			t.Errorf("%+v", sl)
		}
	}
}

// A machine whose root file system is sound never goes back, however often it starts
// and does not become well; it reads all of it every third time.
func TestFlapping(t *testing.T) {
	v4, v5 := version(t, "4.0.0"), version(t, "5.0.0")
	m := updated(t, v4, v5)
	for range 12 {
		boots(t, m, v5)
	}
	if len(m.Said) != 2*12/guard.Patience {
		t.Errorf("said %q", m.Said)
	}
	m.Said = nil
	for range 12 {
		if err := boots(t, m, v5).Well(); err != nil {
			t.Fatal(err)
		}
	}
	if len(m.Said) != 0 {
		t.Errorf("said %q", m.Said)
	}
	// What is damaged and not read does not end a machine that has nothing else.
	m.Disk.Damage(placeOf(t, m, v5.Root) + 5)
	m.Disk.Damage(placeOf(t, m, v4.Root) + 5)
	m.Unread = true
	for range 7 {
		boots(t, m, v5)
	}
	s := boots(t, m, v5)
	if err := s.Well(); err != nil {
		t.Fatal(err)
	}
	if sl := state(t, s).Current(); sl.Starts != 0 || !strings.HasPrefix(sl.Damage, "block 0 ") {
		t.Errorf("%+v", sl)
	}
}

// The power fails at every single write of a machine that finds its root file
// system damaged, gives way, and writes another copy: one slot boots, and the rest is
// done after that.
func TestDamagedPowerFailure(t *testing.T) {
	v4, v5, v6 := version(t, "4.0.0"), version(t, "5.0.0"), version(t, "6.0.0")
	for _, tt := range []struct {
		name  string
		ready func(testing.TB) *sim.Machine
		steps int
	}{
		{"to the version before", func(t testing.TB) *sim.Machine { return updated(t, v4, v5) }, 40},
		{"to one that is staged", func(t testing.TB) *sim.Machine {
			m := updated(t, v4, v5)
			install(t, boots(t, m, v5), v6)
			return m
		}, 40},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ready := tt.ready(t)
			ready.Disk.Damage(placeOf(t, ready, v5.Root) + 5)
			steps := 0
			for done := false; !done; steps++ {
				for seed, share := range []float64{0, 0.5, 0.9} {
					m := ready.Clone()
					m.Power.CutAfter(steps)
					err := repairs(t, m, v5)
					if done = err == nil; !done && !errors.Is(err, sim.ErrPower) {
						t.Fatalf("cut %d: %v", steps, err)
					}
					m.PowerOn(uint64(seed), share)
					if err := repairs(t, m, v5); err != nil {
						t.Fatalf("cut %d, share %v: %v (boots %v)", steps, share, err, m.Boots)
					}
					b, err := m.Boot()
					if err != nil {
						t.Fatalf("cut %d: %v", steps, err)
					}
					if st := state(t, m.Slots(b)); st.Running != v5.RootHash || st.Current().Damage != "" {
						t.Fatalf("cut %d: %+v", steps, st)
					}
				}
			}
			if steps < tt.steps {
				t.Errorf("only %d steps", steps)
			}
			t.Logf("%d steps", steps)
		})
	}
}

// repairs starts a machine and brings it to a version.
func repairs(t testing.TB, m *sim.Machine, v *sim.Version) error {
	b, err := m.Boot()
	if err != nil {
		return err
	}
	return reach(t, m, m.Slots(b), v, "")
}
