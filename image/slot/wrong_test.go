package slot_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/image/slot"
	"github.com/writ-os/writ/image/slot/sim"
)

// An EFI partition without room for a second kernel refuses it, and what runs keeps
// its entry. When there is room again the same installation succeeds.
func TestFullESP(t *testing.T) {
	v4, v5 := version(t, "4.0.0"), version(t, "5.0.0")
	mount := t.TempDir()
	if err := unix.Mount("tmpfs", mount, "tmpfs", 0, "size=64k"); err != nil {
		t.Skipf("mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(mount, unix.MNT_DETACH) })
	if err := os.MkdirAll(filepath.Join(mount, "EFI", "Linux"), 0o700); err != nil {
		t.Fatal(err)
	}
	esp, err := slot.OpenDir(mount)
	if err != nil {
		t.Fatal(err)
	}
	defer esp.Close()
	if err := esp.Create("writ_1.efi", bytes.NewReader(v4.UKI)); err != nil {
		t.Fatal(err)
	}
	filler := filepath.Join(mount, "filler")
	if err := os.WriteFile(filler, make([]byte, 1<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Fatalf("it is not full: %v", err)
	}
	m := machine(t, v4)
	s := &slot.Slots{Device: m.Disk, ESP: esp, Booted: slot.Booted{CommandLine: "roothash=" + v4.RootHash}, Addon: sim.Addon}
	for range 3 {
		err = s.Install(t.Context(), reader(t, v5), nil)
		if !errors.Is(err, unix.ENOSPC) || !strings.Contains(err.Error(), "write 5.0.0 into slot B: the EFI partition is full: remove from it what is not of Writ (") || strings.Contains(err.Error(), "\n") {
			t.Errorf("%v", err)
		}
		if names, _ := esp.List(); len(names) != 1 {
			t.Errorf("left over: %v", names)
		}
		st := state(t, s)
		if st.Slots[1].Complete || len(st.Staged) > 0 || len(st.Entries) != 1 || st.Next.RootHash != v4.RootHash {
			t.Errorf("after it: %+v", st)
		}
	}
	t.Log(err)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	install(t, s, v5)
	if st := state(t, s); len(st.Staged) != 1 || st.Next.RootHash != v4.RootHash {
		t.Errorf("after it: %+v", st)
	}
}

// A kernel that is there only half is no entry: the version is installed again.
func TestHalfAKernel(t *testing.T) {
	v4, v5 := version(t, "4.0.0"), version(t, "5.0.0")
	m := machine(t, v4)
	s := boots(t, m, v4)
	install(t, s, v5)
	f, err := m.ESP.Open("writ_2.staged")
	if err != nil {
		t.Fatal(err)
	}
	half, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()/2))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.ESP.Create("writ_2.staged", bytes.NewReader(half)); err != nil {
		t.Fatal(err)
	}
	if p := slot.MakePlan(state(t, s), slot.Wanted{RootHash: v5.RootHash}); p.Do != slot.Install {
		t.Errorf("plan: %s", p)
	}
	if _, err := s.Switch(slot.Wanted{RootHash: v5.RootHash}); err == nil {
		t.Error("switched to it")
	}
	s = boots(t, m, v4)
	install(t, s, v5)
	switchTo(t, s, v5, "")
	boots(t, m, v5)
}

// A kernel that the firmware would not start is found out before the node is
// drained for it, and nothing leads to it.
func TestKernelThatTheFirmwareRefuses(t *testing.T) {
	v4, v5 := version(t, "4.0.0"), version(t, "5.0.0")
	m := machine(t, v4)
	s := boots(t, m, v4)
	var asked []byte
	s.Accepts = func(kernel []byte) error {
		asked = kernel
		return errors.New("it is not signed")
	}
	err := s.Install(t.Context(), reader(t, v5), nil)
	if !slot.Broken(err) || !strings.Contains(err.Error(), "the kernel of 5.0.0: it is not signed") || !bytes.Equal(asked, v5.UKI) {
		t.Errorf("%v", err)
	}
	if st := state(t, s); st.Slots[1].Complete || len(st.Staged) > 0 || st.Next.RootHash != v4.RootHash {
		t.Errorf("after it: %+v", st)
	}
	boots(t, m, v4)
}
