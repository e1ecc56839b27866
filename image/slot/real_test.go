package slot_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writ-os/writ/image/gpt"
	"github.com/writ-os/writ/image/slot"
	"github.com/writ-os/writ/image/slot/sim"
)

// espSuite is what every ESP keeps.
func espSuite(t *testing.T, e slot.ESP) {
	t.Helper()
	names := func() string {
		n, err := e.List()
		if err != nil {
			t.Fatal(err)
		}
		return strings.Join(slices.Sorted(slices.Values(n)), " ")
	}
	read := func(name string) string {
		f, err := e.Open(name)
		if err != nil {
			return err.Error()
		}
		defer f.Close()
		b, err := io.ReadAll(io.NewSectionReader(f, 0, f.Size()))
		if err != nil {
			t.Error(err)
		}
		return string(b)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	if names() != "" {
		t.Fatalf("not empty: %s", names())
	}
	long := strings.Repeat("kernel", 10000)
	must(e.Create("writ_1.tmp", strings.NewReader(long)))
	must(e.Create("writ_1.efi.extra.d/writ.addon.efi", strings.NewReader("x")))
	must(e.Create("writ_1.efi.extra.d/writ.addon.efi", strings.NewReader("arguments")))
	must(e.Rename("writ_1.tmp", "writ_1+3.efi"))
	must(e.Sync())
	if got := names(); got != "writ_1+3.efi writ_1.efi.extra.d/writ.addon.efi" {
		t.Errorf("names: %s", got)
	}
	if read("writ_1+3.efi") != long || read("writ_1.efi.extra.d/writ.addon.efi") != "arguments" {
		t.Error("the content is another one")
	}
	must(e.Remove("writ_1.efi.extra.d/writ.addon.efi"))
	must(e.Sync())
	if got := names(); got != "writ_1+3.efi" {
		t.Errorf("names: %s", got)
	}
	broken := errors.New("broken")
	if err := e.Create("writ_2.tmp", io.MultiReader(strings.NewReader(long), readError{broken})); !errors.Is(err, broken) {
		t.Errorf("create from what breaks: %v", err)
	}
	if err := e.Rename("nothing", "writ_3.efi"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("rename of nothing: %v", err)
	}
	if err := e.Remove("nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("removal of nothing: %v", err)
	}
	if _, err := e.Open("nothing"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("opening of nothing: %v", err)
	}
}

type readError struct{ error }

func (r readError) Read([]byte) (int, error) { return 0, r.error }

func newDir(t *testing.T) (*slot.Dir, string) {
	t.Helper()
	mount := t.TempDir()
	if err := os.MkdirAll(filepath.Join(mount, "EFI", "Linux"), 0o700); err != nil {
		t.Fatal(err)
	}
	d, err := slot.OpenDir(mount)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { d.Close() })
	return d, mount
}

func TestESP(t *testing.T) {
	t.Run("simulated", func(t *testing.T) {
		m := machine(t, version(t, "4.0.0"))
		if err := m.ESP.Remove("writ_1.efi"); err != nil {
			t.Fatal(err)
		}
		espSuite(t, m.ESP)
	})
	t.Run("directory", func(t *testing.T) {
		d, mount := newDir(t)
		espSuite(t, d)
		for _, name := range []string{"../../secret", "/etc/passwd", "a/../../../x"} {
			if err := d.Create(name, strings.NewReader("x")); err == nil {
				t.Errorf("%s was written", name)
			}
		}
		if err := os.Symlink("/etc/passwd", filepath.Join(mount, "EFI", "Linux", "link")); err != nil {
			t.Fatal(err)
		}
		if _, err := d.Open("link"); err == nil {
			t.Error("a link out of the ESP was followed")
		}
	})
}

// A whole update on files: a disk image, and a directory for the ESP.
func TestFiles(t *testing.T) {
	v4, v5 := version(t, "4.0.0"), version(t, "5.0.0")
	m := machine(t, v4)
	image, err := io.ReadAll(io.NewSectionReader(m.Disk, 0, m.Disk.Size()))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "vda")
	if err := os.WriteFile(file, image, 0o600); err != nil {
		t.Fatal(err)
	}
	disk, err := slot.OpenDisk(file)
	if err != nil {
		t.Fatal(err)
	}
	defer disk.Close()
	esp, _ := newDir(t)
	if err := esp.Create("writ_1.efi", bytes.NewReader(v4.UKI)); err != nil {
		t.Fatal(err)
	}
	s := &slot.Slots{Device: disk, ESP: esp, Booted: slot.Booted{CommandLine: "ro roothash=" + v4.RootHash}, Addon: sim.Addon}
	install(t, s, v5)
	if e := switchTo(t, s, v5, "debug"); e.Name != "writ_3+3.efi" {
		t.Errorf("entry %s", e)
	}
	s.Booted = slot.Booted{CommandLine: "roothash=" + v5.RootHash + " debug"}
	bless(t, s)
	st := state(t, s)
	if st.Booted == nil || st.Booted.Name != "writ_3.efi" || st.Arguments != "debug" || st.Current().Name != "B" {
		t.Errorf("%+v", st)
	}
}

func TestFind(t *testing.T) {
	v4, v5 := version(t, "4.0.0"), version(t, "5.0.0")
	sys, dev := t.TempDir(), t.TempDir()
	for name, v := range map[string]*sim.Version{"nvme0n1": v4, "vda": v5, "sr0": nil} {
		var image []byte
		if v != nil {
			m := machine(t, v)
			image, _ = io.ReadAll(io.NewSectionReader(m.Disk, 0, m.Disk.Size()))
		}
		part := filepath.Join(sys, "block", name, name+"p1")
		if err := errors.Join(os.WriteFile(filepath.Join(dev, name), image, 0o600), os.MkdirAll(part, 0o700),
			os.WriteFile(filepath.Join(part, "partition"), []byte("1\n"), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	got, err := slot.Find(sys, dev, "quiet roothash="+v4.RootHash)
	if want := (slot.Found{Disk: filepath.Join(dev, "nvme0n1"), ESP: filepath.Join(dev, "nvme0n1p1")}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, line := range []string{"quiet", "roothash=" + version(t, "6.0.0").RootHash, "roothash=xyz"} {
		if _, err := slot.Find(sys, dev, line); !errors.Is(err, slot.ErrNotHere) {
			t.Errorf("%s: %v", line, err)
		}
	}
}

func TestFindPartition(t *testing.T) {
	v := version(t, "4.0.0")
	sys, dev := t.TempDir(), t.TempDir()
	m := machine(t, v)
	whole, err := io.ReadAll(io.NewSectionReader(m.Disk, 0, m.Disk.Size()))
	if err != nil {
		t.Fatal(err)
	}
	table, err := gpt.Parse(m.Disk, m.Disk.Size())
	if err != nil {
		t.Fatal(err)
	}
	errs := []error{os.WriteFile(filepath.Join(dev, "vda"), whole, 0o600)}
	for i := range table.Partitions {
		part := filepath.Join(sys, "block", "vda", fmt.Sprint("vda", i+1))
		errs = append(errs, os.MkdirAll(part, 0o700), os.WriteFile(filepath.Join(part, "partition"), fmt.Append(nil, i+1), 0o600))
	}
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	line := "quiet roothash=" + v.RootHash
	for i, p := range table.Partitions {
		if p.Name == "_empty" {
			continue // more than one has it
		}
		if got, err := slot.FindPartition(sys, dev, line, p.Name); err != nil || got != filepath.Join(dev, fmt.Sprint("vda", i+1)) {
			t.Errorf("%s: %q, %v", p.Name, got, err)
		}
	}
	for _, line := range []string{line, "roothash=" + version(t, "6.0.0").RootHash, ""} {
		if got, err := slot.FindPartition(sys, dev, line, "var-crypt"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %q, %v", line, got, err)
		}
	}
}
