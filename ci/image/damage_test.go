//go:build image

package image

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/disk"
	"github.com/writ-os/writ/image/esp"
	"github.com/writ-os/writ/image/gpt"
	"github.com/writ-os/writ/image/slot"
	"github.com/writ-os/writ/image/slot/boot"
	"github.com/writ-os/writ/image/slot/note"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// TestDamage is a machine whose good version loses a block that each start reads:
// it comes up with the version before by itself, says so, and gets another copy
// when the version is declared.
func TestDamage(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a machine seven times")
	}
	emulator(t)
	repo := newRepository(t)
	repo.write("readers.yaml", readers)
	repo.publish("Let everybody read")
	p := newParts(t)
	a, b := p.build(t, "1.0.0", bundle.Quick), p.build(t, "1.1.0", bundle.Quick)
	where := a.disk(t)
	configure(t, where, fmt.Sprintf("role: server\nunsignedImages: true\nnodeName: one\nrepository: {url: %q}\n", repo.url+"/git/cluster.git"))
	second(t, where, a, b)

	t.Run("whole", func(t *testing.T) {
		g := start(t, where, firmware(t)...)
		g.ready(10*time.Minute, "one")
		g.says(time.Minute, b.Version+" runs")
		g.eventually(3*time.Minute, "the start is noted as well", func() error {
			if n := noteOf(t, where, b); n.Starts > 0 {
				return fmt.Errorf("%+v", n)
			}
			return nil
		})
	})
	damage(t, where)
	t.Run("damaged", func(t *testing.T) {
		g := start(t, where, firmware(t)...)
		g.ready(20*time.Minute, "one")
		found := noteOf(t, where, b).Damage
		if !strings.HasPrefix(found, "block ") || !strings.HasSuffix(found, " of the root file system is not what the root hash stands for") {
			t.Errorf("what was found is %q", found)
		}
		g.says(time.Minute, fmt.Sprintf("%s runs, since the copy of %s in slot B is damaged on the disk of this node (%s)", a.Version, b.Version, found))
		for _, want := range []string{
			"The last 2 starts of this machine did not become well: all of its root file system is read.",
			"The root file system on /dev/vda4 is damaged: " + found + ". Another version takes over, by writ_1.efi.",
		} {
			if text, err := os.ReadFile(g.console); err != nil || !bytes.Contains(text, []byte(want)) {
				t.Errorf("the console does not say: %s (%v)", want, err)
			}
		}
		id := g.machineID()
		repo.write("image.yaml", repo.offer(b))
		repo.write("pool.yaml", pool(b))
		again := repo.publish("Run 1.1.0")
		g.follow(20*time.Minute, "1.1.0 runs again, from another copy", runs(b))
		g.commit(5*time.Minute, again, v1alpha1.CommitHealthy)
		// The firmware has no UUID; the disk tells the machine.
		if again := g.machineID(); again != id {
			t.Errorf("the machine's ID was %s and is %s", id, again)
		}
		if n := noteOf(t, where, b); n.Damage != "" {
			t.Errorf("the other copy has the note of the first: %+v", n)
		}
	})
}

// says waits for what the node's agent says of updates.
func (g *guest) says(limit time.Duration, message string) {
	g.t.Helper()
	g.eventually(limit, "the node says: "+message, func() error {
		n, err := g.node("one")
		if got := n.Annotations[v1alpha1.UpdateMessageAnnotation]; err == nil && got != message {
			err = fmt.Errorf("it says %q", got)
		}
		return err
	})
}

func (g *guest) machineID() string {
	g.t.Helper()
	n, err := g.node("one")
	if err != nil {
		g.t.Fatal(err)
	}
	return n.Status.NodeInfo.MachineID
}

// second puts another version into slot B of a disk, as one that was found good.
func second(t *testing.T, where string, a, b version) {
	t.Helper()
	d, err := slot.OpenDisk(where)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	image, err := os.OpenFile(where, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer image.Close()
	at, size, err := esp.Locate(d, d.Size())
	if err != nil {
		t.Fatal(err)
	}
	// The entries are made in a folder, and copied.
	mount := t.TempDir()
	entries := filepath.Join(mount, "EFI", "Linux")
	first, err := esp.Get(image, at, size, "EFI/Linux/writ_1.efi")
	if err := errors.Join(err, os.MkdirAll(entries, 0o700), os.WriteFile(filepath.Join(entries, "writ_1.efi"), first, 0o600)); err != nil {
		t.Fatal(err)
	}
	dir, err := slot.OpenDir(mount)
	if err != nil {
		t.Fatal(err)
	}
	defer dir.Close()
	f, err := os.Open(b.path(".bundle"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	digest, length := b.digest(t)
	r, err := bundle.Read(f, bundle.Trust{Digest: digest, Size: length})
	if err != nil {
		t.Fatal(err)
	}
	s := &slot.Slots{Device: d, ESP: dir, Booted: slot.Booted{CommandLine: "roothash=" + a.RootHash}}
	if err := s.Install(t.Context(), r, nil); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Switch(slot.Wanted{RootHash: b.RootHash}); err != nil {
		t.Fatal(err)
	}
	s.Booted.CommandLine = "roothash=" + b.RootHash
	if err := s.Bless(); err != nil {
		t.Fatal(err)
	}
	st, err := s.State()
	if err != nil {
		t.Fatal(err)
	}
	kernel, err := os.ReadFile(filepath.Join(entries, st.Booted.Name))
	if err == nil {
		err = esp.Put(image, at, size, "EFI/Linux/"+st.Booted.Name, kernel)
	}
	if err != nil {
		t.Fatal(err)
	}
	if e, _, ok := boot.Boot(st.Entries); !ok || e.RootHash != b.RootHash {
		t.Fatalf("the loader would start %v", e)
	}
}

// damage turns a bit of a file in slot B that systemd reads at every start.
func damage(t *testing.T, where string) {
	t.Helper()
	unit, err := os.ReadFile("../../image/root/files/usr/lib/systemd/system/var.mount")
	if err != nil {
		t.Fatal(err)
	}
	f, from := partition(t, where, disk.RootB)
	defer f.Close()
	root, err := io.ReadAll(from)
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(root, unit[:200]) // more may be in another block
	if i < 0 {
		t.Fatal("the unit is not in the root file system as it is")
	}
	_, at, _ := from.Outer()
	if _, err := f.WriteAt([]byte{root[i] ^ 1}, at+int64(i)); err != nil {
		t.Fatal(err)
	}
	t.Logf("a bit of block %d is turned", i/4096)
}

// noteOf is what slot B remembers.
func noteOf(t *testing.T, where string, v version) note.Note {
	t.Helper()
	f, tree := partition(t, where, disk.VerityB)
	defer f.Close()
	n, err := note.Read(tree, tree.Size(), v.RootHash)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// partition is one of a disk.
func partition(t *testing.T, where string, number int) (*os.File, *io.SectionReader) {
	t.Helper()
	f, err := os.OpenFile(where, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	table, err := gpt.Parse(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	p := table.Partitions[number-1]
	return f, io.NewSectionReader(f, p.Offset(), p.Size())
}
