package settings

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"
)

// resize gives a disk another size.
func (w *world) resize(loop, file string, size int64) {
	w.t.Helper()
	if err := os.Truncate(file, size); err != nil {
		w.t.Fatal(err)
	}
	if out, err := exec.Command("losetup", "-c", "/dev/"+loop).CombinedOutput(); err != nil {
		w.t.Fatalf("resize %s: %v: %s", loop, err, out)
	}
}

// refill writes what a disk had onto it again.
func (w *world) refill(file string, b []byte) {
	w.t.Helper()
	f, err := os.OpenFile(file, os.O_WRONLY, 0)
	if err != nil {
		w.t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.Write(b); err != nil {
		w.t.Fatal(err)
	}
}

// holds is how much a data disk can, in bytes.
func (w *world) holds(name string) int64 {
	w.t.Helper()
	var s unix.Statfs_t
	if err := unix.Statfs(filepath.Join(w.disks.Mnt, name), &s); err != nil {
		w.t.Fatal(err)
	}
	return int64(s.Blocks) * s.Bsize
}

// growsHere says whether the kernel lets this process grow a file system.
func growsHere(t *testing.T) bool {
	t.Helper()
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		t.Fatal(err)
	}
	return data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// A disk that has become larger while it is used grows with the next look. Where
// the kernel does not let the agent, that is said, and the disk is used as it is;
// no other disk waits for it.
func TestDiskGrows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t)
		loop, file := w.plug()
		more, _ := w.plug()
		w.pool(wantDisk("data", loop))
		w.life(func(*Settings) {
			w.expect("condition", w.says(), inForce)
			if err := w.put("data", "kept"); err != nil {
				t.Fatal(err)
			}
			before := w.holds("data")
			w.resize(loop, file, 256<<20)
			pass(look)
			grown, says := true, inForce
			if !growsHere(t) {
				grown, says = false, "False NotApplied: NodePool workers: disk data: /dev/"+loop+" has become larger than its file system, which is used as it is, and the node agent may not grow it: give it CAP_SYS_RESOURCE"
			}
			w.expect("condition", w.says(), says)
			if after := w.holds("data"); (after > before+180<<20) != grown || after < before {
				t.Errorf("it held %d bytes and holds %d", before, after)
			}
			w.expect("what was on it", w.has("data"), "kept")
			w.pool(wantDisk("data", loop, "more", more))
			synctest.Wait()
			w.expect("condition with one more", w.says(), says)
			if err := w.put("more", "x"); err != nil || w.holds("more") < 50<<20 {
				t.Errorf("the other disk: %v, %d bytes", err, w.holds("more"))
			}
		})
		w.unmountAll()
		w.boot = "second"
		s := w.settings()
		if err := s.Load(); err != nil {
			t.Fatal(err)
		}
		w.expect("before pods begin", w.has("data"), "kept")
	})
}

// A disk that has become smaller than its file system is said to be, and is left
// alone until it has its size again.
func TestDiskShrinks(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := plain(t)
		loop, file := w.plug()
		w.pool(wantDisk("data", loop))
		w.life(func(*Settings) {
			if err := w.put("data", "kept"); err != nil {
				t.Fatal(err)
			}
		})
		w.unmountAll()
		w.boot = "second"
		whole, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		w.resize(loop, file, 32<<20)
		w.life(func(*Settings) {
			w.expect("condition", w.says(), "False NotApplied: NodePool workers: disk data: /dev/"+loop+
				" has become smaller than its file system (33554432 bytes of 66060288): give it back the size that it had")
			if b, err := os.ReadFile(file); err != nil || !bytes.Equal(b, whole[:32<<20]) {
				t.Errorf("the disk was written to: %v", err)
			}
			w.refill(file, whole)
			w.resize(loop, file, 64<<20)
			pass(retryLast)
			w.expect("condition", w.says(), inForce)
			w.expect("what was on it", w.has("data"), "kept")
		})
	})
}
