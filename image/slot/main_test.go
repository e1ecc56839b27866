package slot_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"testing"

	"go.uber.org/goleak"

	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/slot"
	"github.com/writ-os/writ/image/slot/sim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func version(t testing.TB, name string) *sim.Version {
	t.Helper()
	v, err := sim.NewVersion(name)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func machine(t testing.TB, v *sim.Version) *sim.Machine {
	t.Helper()
	m, err := sim.New(v)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// boots starts a machine, and expects a version to run.
func boots(t testing.TB, m *sim.Machine, want *sim.Version) *slot.Slots {
	t.Helper()
	b, err := m.Boot()
	if err != nil {
		t.Fatal(err)
	}
	s := m.Slots(b)
	if st := state(t, s); st.Running != want.RootHash || st.Current() == nil || st.Current().Version != want.Version {
		t.Fatalf("running %.8s in %+v, want %s %.8s (boots %v)", st.Running, st.Current(), want.Version, want.RootHash, m.Boots)
	}
	return s
}

func state(t testing.TB, s *slot.Slots) *slot.State {
	t.Helper()
	st, err := s.State()
	if err != nil {
		t.Fatal(err)
	}
	return st
}

// reader is a bundle of the version that is trusted.
func reader(t testing.TB, v *sim.Version) *bundle.Reader {
	t.Helper()
	b, err := v.Bundle(nil)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(b)
	r, err := bundle.Read(bytes.NewReader(b), bundle.Trust{Digest: "sha256:" + hex.EncodeToString(sum[:])})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func install(t testing.TB, s *slot.Slots, v *sim.Version) {
	t.Helper()
	if err := s.Install(context.Background(), reader(t, v), nil); err != nil {
		t.Fatal(err)
	}
}

func switchTo(t testing.TB, s *slot.Slots, v *sim.Version, arguments string) slot.Entry {
	t.Helper()
	e, err := s.Switch(slot.Wanted{RootHash: v.RootHash, Arguments: arguments})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

func bless(t testing.TB, s *slot.Slots) {
	t.Helper()
	if err := s.Bless(); err != nil {
		t.Fatal(err)
	}
}
