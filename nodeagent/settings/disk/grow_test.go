package disk

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

func TestRefused(t *testing.T) {
	const larger = "/dev/vdb has become larger than its file system, which is used as it is, and "
	for _, c := range []struct {
		errno unix.Errno
		may   bool
		want  string
	}{
		{unix.EPERM, false, larger + "the node agent may not grow it: give it CAP_SYS_RESOURCE"},
		{unix.EPERM, true, larger + "the kernel has found errors in it: start the node again, which checks it"},
		{unix.EROFS, true, larger + "it can only be read: start the node again, which checks it"},
		{unix.ENOTTY, true, larger + "the kernel cannot grow it while it is mounted: grow it by resize2fs on another machine"},
		{unix.EOPNOTSUPP, false, larger + "the kernel cannot grow it while it is mounted: grow it by resize2fs on another machine"},
		{unix.EIO, true, "grow the file system of /dev/vdb: input/output error"},
	} {
		if got := refused("/dev/vdb", c.errno, c.may).Error(); got != c.want {
			t.Errorf("%v: %q, want %q", c.errno, got, c.want)
		}
	}
}

// A disk that is mounted no more is no reason to grow what is below.
func TestGrowWhatIsMountedNoMore(t *testing.T) {
	m := Machine{Dev: t.TempDir(), Mnt: t.TempDir()}
	if _, _, err := m.Grow("vdb", "data", 1<<40); err == nil {
		t.Error("it grew without a directory")
	}
	if err := os.Mkdir(filepath.Join(m.Mnt, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Grow("vdb", "data", 1<<40); err == nil {
		t.Error("it grew without a disk")
	}
	if err := os.WriteFile(filepath.Join(m.Dev, "vdb"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Grow("vdb", "data", 1<<40); err == nil || err.Error() != "vdb: it has changed meanwhile, and is left as it is" {
		t.Errorf("what is below: %v", err)
	}
}
