package settings

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/nodeagent/settings/disk"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// plug makes a disk of a file, as a loop device, and returns its name and the
// file.
func (w *world) plug() (name, file string) {
	w.t.Helper()
	if os.Getuid() != 0 {
		w.t.Skip("not root")
	}
	file = filepath.Join(w.t.TempDir(), "disk")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		w.t.Fatal(err)
	}
	if err := os.Truncate(file, 64<<20); err != nil {
		w.t.Fatal(err)
	}
	out, err := exec.Command("losetup", "-f", "--show", file).CombinedOutput()
	if err != nil {
		w.t.Skipf("there is no loop device: %v: %s", err, out)
	}
	device := strings.TrimSpace(string(out))
	w.t.Cleanup(func() {
		if out, err := exec.Command("losetup", "-d", device).CombinedOutput(); err != nil {
			w.t.Errorf("unplug %s: %v: %s", device, err, out)
		}
	})
	name = filepath.Base(device)
	if w.disks.Sys == "" {
		w.disks = disk.Machine{Sys: "/sys", Dev: "/dev", Mnt: filepath.Join(w.dir, "mnt")}
		w.t.Cleanup(w.unmountAll)
	}
	w.disks.Loops = append(w.disks.Loops, name)
	return name, file
}

// unmountAll leaves nothing mounted, and directories that can be removed.
func (w *world) unmountAll() {
	dirs, err := filepath.Glob(filepath.Join(w.disks.Mnt, "*"))
	if err != nil {
		w.t.Error(err)
	}
	for _, d := range dirs {
		for unix.Unmount(d, unix.MNT_DETACH) == nil {
		}
		if f, err := os.Open(d); err == nil {
			_ = unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, 0)
			_ = f.Close()
		}
	}
}

func wantDisk(names ...string) *v1alpha1.NodePoolSpec {
	spec := &v1alpha1.NodePoolSpec{}
	for i := 0; i < len(names); i += 2 {
		spec.Disks = append(spec.Disks, v1alpha1.NodeDisk{Name: names[i], Match: v1alpha1.NodeDiskMatch{Path: "/dev/" + names[i+1]}, Filesystem: "ext4"})
	}
	return spec
}

// put and has are a file on a data disk.
func (w *world) put(name, text string) error {
	return os.WriteFile(filepath.Join(w.disks.Mnt, name, "file"), []byte(text), 0o600)
}

func (w *world) has(name string) string {
	b, err := os.ReadFile(filepath.Join(w.disks.Mnt, name, "file"))
	if err != nil {
		return ""
	}
	return string(b)
}

// A disk is made, kept through a start of the machine, let go of and taken again,
// with what is on it.
func TestDisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t)
		loop, _ := w.plug()
		w.write("mnt/data/file", "beside")
		w.pool(wantDisk("data", loop))
		w.life(func(*Settings) {
			w.expect("condition", w.says(), "False NotApplied: NodePool workers: disk data: /var/mnt/data is not empty, and a disk there would hide file: move it away")
			if err := os.Remove(filepath.Join(w.disks.Mnt, "data", "file")); err != nil {
				t.Fatal(err)
			}
			pass(retryLast)
			w.expect("condition", w.says(), inForce)
			if err := w.put("data", "kept"); err != nil {
				t.Fatal(err)
			}
		})
		if err := unix.Unmount(filepath.Join(w.disks.Mnt, "data"), 0); err != nil { // the machine starts again
			t.Fatal(err)
		}
		w.boot = "second"
		if err := w.put("data", "beside"); err == nil && immutableHere(t) {
			t.Error("the directory below takes files")
		}
		s := w.settings()
		if err := s.Load(); err != nil {
			t.Fatal(err)
		}
		w.expect("before pods begin", w.has("data"), "kept")

		f, err := os.Open(filepath.Join(w.disks.Mnt, "data", "file"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		w.pool(nil)
		w.life(func(*Settings) {
			w.expect("in use", w.says(), "False NotApplied: disk data: it is not declared any more, and in use at /var/mnt/data: it is unmounted when that ends")
			_ = f.Close()
			pass(retryLast)
			w.expect("let go of", w.has("data"), "")
			w.expect("condition", w.says(), "True NoSettings: no pool says anything of this node's settings")
			w.pool(wantDisk("data", loop))
			pass(time.Second)
			w.expect("taken again", w.has("data"), "kept")
			w.expect("condition", w.says(), inForce)
		})
	})
}

// immutableHere says whether temporary files can be kept from changes.
func immutableHere(t *testing.T) bool {
	t.Helper()
	f, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	flags, err := unix.IoctlGetUint32(int(f.Fd()), unix.FS_IOC_GETFLAGS)
	return err == nil && unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, int(flags)) == nil
}

// A disk with something on it stays as it is, to the byte, and holds up nothing.
func TestDiskWithData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t)
		loop, file := w.plug()
		if out, err := exec.Command("mke2fs", "-q", "-t", "ext4", "-L", "photos", "/dev/"+loop).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		before, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		free, _ := w.plug()
		spec := wantDisk("data", loop, "more", free)
		spec.Sysctls = map[string]string{"vm.swappiness": "10"}
		w.pool(spec)
		w.life(func(*Settings) {
			pass(time.Hour)
			w.expect("condition", w.says(), "False NotApplied: NodePool workers: disk data: /dev/"+loop+" has ext4, and is left as it is; a disk is taken when its first and last 4 MiB are zero")
			w.expect("swappiness", w.read("vm/swappiness"), "10")
			if err := w.put("more", "x"); err != nil {
				t.Error(err)
			}
		})
		after, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(before, after) {
			t.Error("the disk was written to")
		}
	})
}

// The agent is killed before each of its writes: the disk is whole in the end,
// and what was written to it once stays.
func TestDiskKilled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for n := 0; ; n++ {
			w := plain(t)
			loop, _ := w.plug()
			w.pool(wantDisk("data", loop))
			w.left = n
			w.life(func(*Settings) {})
			killed := w.left == 0
			w.left = -1
			w.life(func(*Settings) {
				pass(time.Second)
				w.expect("condition", w.says(), inForce)
				if err := w.put("data", "kept"); err != nil {
					t.Error(err)
				}
			})
			w.life(func(*Settings) { w.expect("the file", w.has("data"), "kept") })
			w.unmountAll()
			if t.Failed() {
				t.Fatalf("killed before write %d", n)
			}
			if !killed {
				if n < 6 {
					t.Errorf("%d writes only", n)
				}
				break
			}
		}
	})
}
