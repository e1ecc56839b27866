package slot_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/writ-os/writ/image/slot"
	"github.com/writ-os/writ/image/slot/sim"
)

// reach does whatever is left to do until a system runs for good, as the node's
// agent would.
func reach(t testing.TB, m *sim.Machine, s *slot.Slots, v *sim.Version, arguments string) error {
	w := slot.Wanted{RootHash: v.RootHash, Arguments: arguments}
	for range 10 {
		st, err := s.State()
		if err != nil {
			return err
		}
		if st.Trial() {
			if err := s.Bless(); err != nil {
				return err
			}
			continue
		}
		switch p := slot.MakePlan(st, w); p.Do {
		case slot.Nothing:
			return nil
		case slot.Install:
			if err := s.Install(context.Background(), reader(t, v), nil); err != nil {
				return err
			}
		case slot.Switch:
			if _, err := s.Switch(w); err != nil {
				return err
			}
		case slot.Reboot:
			b, err := m.Boot()
			if err != nil {
				return err
			}
			s = m.Slots(b)
		default:
			return errors.New(p.String())
		}
	}
	return errors.New("no end")
}

// The power fails at every single write of a whole update, and of what was
// not synced then some is lost: one slot boots, and doing it again succeeds.
func TestPowerFailure(t *testing.T) {
	v4, v5, v6 := version(t, "4.0.0"), version(t, "5.0.0"), version(t, "6.0.0")
	updated := func(t testing.TB) *sim.Machine { // from v4 to v5
		m := machine(t, v4)
		if err := reach(t, m, boots(t, m, v4), v5, ""); err != nil {
			t.Fatal(err)
		}
		return m
	}
	failed := func(t testing.TB) *sim.Machine { // v6 over v4, which did not boot
		m := updated(t)
		s := boots(t, m, v5)
		install(t, s, v6)
		switchTo(t, s, v6, "")
		m.Panics[v6.RootHash] = true
		boots(t, m, v5)
		m.Panics = map[string]bool{}
		return m
	}
	for _, tt := range []struct {
		name  string
		make  func(testing.TB) *sim.Machine
		from  *sim.Version
		to    *sim.Version
		args  string
		steps int // at least
	}{
		{"first update", func(t testing.TB) *sim.Machine { return machine(t, v4) }, v4, v5, "", 30},
		{"over an old version", updated, v5, v6, "", 30},
		{"over a failed version", failed, v5, v4, "", 30},
		{"back", updated, v5, v4, "", 4},
		{"back, with arguments", updated, v5, v4, "debug", 6},
		{"arguments", updated, v5, v5, "debug", 10},
	} {
		t.Run(tt.name, func(t *testing.T) {
			steps, ready := 0, tt.make(t)
			for cut := 0; ; cut++ {
				done := false
				for seed, share := range []float64{0, 0.5, 0.9} {
					m := ready.Clone()
					s := boots(t, m, tt.from)
					m.Power.CutAfter(cut)
					err := reach(t, m, s, tt.to, tt.args)
					if done = err == nil; !done && !errors.Is(err, sim.ErrPower) {
						t.Fatalf("cut %d: %v", cut, err)
					}
					m.PowerOn(uint64(seed), share)
					if err := again(t, m, tt.from, tt.to, tt.args); err != nil {
						t.Fatalf("cut %d, share %v: %v (boots %v)", cut, share, err, m.Boots)
					}
				}
				if steps = cut; done {
					break
				}
			}
			if steps < tt.steps {
				t.Errorf("only %d steps", steps)
			}
			t.Logf("%d steps", steps)
		})
	}
}

// again is what happens when the power is back.
func again(t testing.TB, m *sim.Machine, from, to *sim.Version, arguments string) error {
	b, err := m.Boot()
	if err != nil {
		return fmt.Errorf("bricked: %w", err)
	}
	s := m.Slots(b)
	st, err := s.State()
	if err != nil {
		return err
	}
	if st.Running != from.RootHash && st.Running != to.RootHash || st.Current() == nil || st.Booted == nil {
		return fmt.Errorf("running %.8s of %+v", st.Running, st)
	}
	// Nothing that the loader sees, and nothing that says it is whole, is not.
	for _, sl := range st.Slots {
		if err := m.Whole(sl.RootHash); sl.Complete && err != nil {
			return fmt.Errorf("slot %s: %w", sl.Name, err)
		}
	}
	for _, e := range st.Entries {
		if err := m.Whole(e.RootHash); err != nil {
			return fmt.Errorf("entry %s: %w", e, err)
		}
	}
	if err := whole(m, st.Booted.Name, map[string]*sim.Version{from.RootHash: from, to.RootHash: to}[st.Running]); err != nil {
		return err
	}
	if err := reach(t, m, s, to, arguments); err != nil {
		return fmt.Errorf("second attempt: %w", err)
	}
	if b, err = m.Boot(); err != nil {
		return err
	}
	if st, err = m.Slots(b).State(); err != nil {
		return err
	}
	if st.Running != to.RootHash || st.Arguments != arguments || st.Trial() {
		return fmt.Errorf("after the second attempt: running %.8s with %q by %v", st.Running, st.Arguments, st.Booted)
	}
	return nil
}

// whole says whether a file is the UKI of a version, to the last byte: the
// loader reads only its headers.
func whole(m *sim.Machine, name string, v *sim.Version) error {
	f, err := m.ESP.Open(name)
	if err != nil {
		return err
	}
	defer f.Close()
	b, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
	if err == nil && !bytes.Equal(b, v.UKI) {
		err = fmt.Errorf("%s is not the UKI of %s", name, v.Version)
	}
	return err
}
