package update

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// small is a file system of few bytes, and a way to fill it and to empty it.
func small(t *testing.T, size string) (dir string, fill, free func()) {
	t.Helper()
	dir = t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size="+size); err != nil {
		t.Skipf("mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	filler := filepath.Join(dir, "filler")
	fill = func() {
		if err := os.WriteFile(filler, make([]byte, 4<<20), 0o600); !errors.Is(err, unix.ENOSPC) {
			t.Fatalf("it is not full: %v", err)
		}
	}
	return dir, fill, func() {
		if err := os.Remove(filler); err != nil {
			t.Error(err)
		}
	}
}

// A disk that is full holds an update up, and no longer than it is full.
func TestFullDisk(t *testing.T) {
	for name, tt := range map[string]struct {
		sized bool
		want  string
	}{
		"a size is declared": {true, "there is no room for the bundle of 5.0.0: it needs "},
		"none is":            {false, "there is no room for the bundle of 5.0.0: the disk of "},
	} {
		t.Run(name, func(t *testing.T) {
			dir, fill, free := small(t, "1m")
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := newComputer(w)
				c.dir = dir
				if i := w.images["v5"]; !tt.sized {
					i.Size = 0
					w.images["v5"] = i
				}
				fill()
				run(t, c.life)
				w.await(v1alpha1.UpdateIdle, "4.0.0")
				w.order("v5", "")
				w.await(v1alpha1.UpdateDownloading, "4.0.0")
				time.Sleep(time.Second)
				w.failed("", tt.want)
				w.failed("", dir)
				w.failed("", "make room there, by removing what pods or images take; next try after ")
				t.Log(w.node()[v1alpha1.UpdateMessageAnnotation])
				w.stays(v1alpha1.UpdateDownloading)
				if names, _ := filepath.Glob(filepath.Join(dir, "*.part")); len(names) > 0 {
					if info, err := os.Stat(names[0]); err != nil || info.Size() > 0 {
						t.Errorf("half a bundle fills the disk: %v", names)
					}
				}
				free()
				w.await(v1alpha1.UpdateStaged, "4.0.0")
				// What is tried must be known after the reboot: no reboot without it.
				fill()
				w.reboot("v5")
				w.await(v1alpha1.UpdateRebooting, "4.0.0")
				time.Sleep(time.Second)
				w.failed("", "write record of updates: the disk of "+dir+" is full: make room there, by removing what pods or images take; next try after ")
				t.Log(w.node()[v1alpha1.UpdateMessageAnnotation])
				if names, _ := filepath.Glob(filepath.Join(dir, ".*")); len(names) > 0 || len(c.machine.Boots) != 1 {
					t.Errorf("left over: %v; boots %v", names, c.machine.Boots)
				}
				if r, err := readRecord(dir); err != nil || len(r.Known) == 0 {
					t.Errorf("the record of before is lost: %+v, %v", r, err)
				}
				free()
				w.await(v1alpha1.UpdateIdle, "5.0.0")
			})
		})
	}
}

// A disk that fails is said, and the version that runs goes on.
func TestFailingDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		c := newComputer(w)
		c.machine.Disk.Fail(errors.New("input/output error"))
		run(t, c.life)
		w.await(v1alpha1.UpdateIdle, "4.0.0")
		w.order("v5", "")
		w.await(v1alpha1.UpdateWriting, "4.0.0")
		time.Sleep(time.Second)
		t.Log(w.node()[v1alpha1.UpdateMessageAnnotation])
		w.failed("", "input/output error; next try after ")
		w.await(v1alpha1.UpdateFailed, "4.0.0")
		t.Log(w.node()[v1alpha1.UpdateMessageAnnotation])
		w.failed("v5", "input/output error; it was tried 3 times: look after the disk of this node, then order 5.0.0 again")
		if len(c.machine.Boots) != 1 {
			t.Errorf("boots %v", c.machine.Boots)
		}
	})
}

// A download that is there in half, or was damaged after it came, is not what
// runs in the end.
func TestHalfADownload(t *testing.T) {
	for name, tt := range map[string]struct {
		remains func(c *computer, i Image, b []byte) (string, []byte)
		want    v1alpha1.UpdatePhase
	}{
		"a part": {func(_ *computer, _ Image, b []byte) (string, []byte) { return partSuffix, b[:len(b)/2] }, v1alpha1.UpdateStaged},
		"a part of another": {func(_ *computer, _ Image, b []byte) (string, []byte) {
			return partSuffix, bytes.Repeat([]byte("x"), len(b)/2)
		}, v1alpha1.UpdateStaged},
		"half of what it was": {func(_ *computer, _ Image, b []byte) (string, []byte) { return bundleSuffix, b[:len(b)/2] }, v1alpha1.UpdateFailed},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(t)
				c := newComputer(w)
				i := w.images["v5"]
				suffix, b := tt.remains(c, i, c.source.files["/v5"])
				if err := os.WriteFile((fetcher{dir: c.dir}).path(i, suffix), b, 0o600); err != nil {
					t.Fatal(err)
				}
				w.order("v5", "")
				run(t, c.life)
				w.await(tt.want, "4.0.0")
				t.Log(w.node()[v1alpha1.UpdateMessageAnnotation])
				if tt.want == v1alpha1.UpdateFailed {
					w.failed("v5", "the bundle is refused: it is cut off")
					w.order("", "") // ordered again it is fetched again
					w.await(v1alpha1.UpdateIdle, "4.0.0")
					w.order("v5", "")
					w.await(v1alpha1.UpdateStaged, "4.0.0")
				}
			})
		})
	}
}

// What another machine of this name is ordered is not done here.
func TestOrdersOfAnotherMachine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		n, err := client.Get[*corev1.Node](t.Context(), w.api, schema.Key{Name: "n1"})
		if err != nil {
			t.Fatal(err)
		}
		n = n.DeepCopy()
		n.Status.NodeInfo.MachineID = strings.Repeat("9", 32)
		w.api.Put(n)
		c := newComputer(w)
		w.order("v5", "")
		run(t, c.life)
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := w.told(); got != "" || c.source.requests() > 0 {
			t.Errorf("told %s, fetched %d times", got, c.source.requests())
		}
	})
}
