package source_test

import (
	"debug/elf"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writ-os/writ/image/lock"
	"github.com/writ-os/writ/image/lock/locktest"
	"github.com/writ-os/writ/image/source"
	"github.com/writ-os/writ/image/tool"
	"github.com/writ-os/writ/image/tree"
)

func parse[T any](t *testing.T, name string, read func(string, *os.File) (T, error)) T {
	t.Helper()
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	v, err := read(filepath.Base(name), f)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func list(t *testing.T, name string) *tree.List {
	return parse(t, name, func(n string, f *os.File) (*tree.List, error) { return tree.ParseList(n, f) })
}

// The two files that are committed belong together.
func TestLockIsOfTheList(t *testing.T) {
	l := locktest.Lock(t)
	wanted := parse(t, "../packages.list", func(n string, f *os.File) ([]lock.Wanted, error) { return lock.ParseWanted(n, f) })
	for _, w := range wanted {
		if _, ok := l.Find(w.Name); !ok && w.Prefix == "" {
			t.Errorf("%s: %s is not in packages.lock: run make image-update", w.At, w.Name)
		}
	}
	for _, p := range l.Packages {
		if !slices.ContainsFunc(wanted, func(w lock.Wanted) bool {
			return p.Name == w.Name || w.Prefix != "" && strings.HasPrefix(p.Name, w.Prefix)
		}) {
			t.Errorf("packages.lock has %s, which packages.list does not want: run make image-update", p)
		}
	}
}

// The packages of the lock make a system whose programs find all they load.
func TestDebian(t *testing.T) {
	l, dir := locktest.Cached(t)
	src, err := source.Load(t.Context(), dir, l)
	if err != nil {
		t.Fatal(err)
	}
	system := tree.Merged()
	if err := system.Copy(src.Tree, list(t, "testdata/keep.list")); err != nil {
		t.Fatal(err)
	}
	c, err := src.Closure(system)
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range c.Absent {
		if d.Priority == "required" {
			t.Errorf("%s cannot do %s without one of %v", d.By, d.Feature, d.Sonames)
		}
	}
	t.Run("programs", func(t *testing.T) { testPrograms(t, system) })
	t.Run("modules", func(t *testing.T) { testModules(t, src, system) })
	t.Run("licences", func(t *testing.T) {
		for _, c := range src.Packages {
			if b, err := src.Tree.ReadFile(c.Licence()); err != nil || len(b) == 0 {
				t.Errorf("%s has no licence: %v", c.Name, err)
			}
		}
	})
}

// testPrograms runs what was kept with what it was given, and nothing else.
func testPrograms(t *testing.T, system *tree.Tree) {
	for at := range system.All() {
		if slices.Contains([]string{"sh", "bash", "dash", "perl", "python3", "apt", "dpkg", "login"}, path.Base(at)) {
			t.Errorf("%s does not belong into the image", at)
		}
	}
	root := t.TempDir()
	if err := system.Extract(root); err != nil {
		t.Fatal(err)
	}
	loader := filepath.Join(root, "usr/lib64/ld-linux-x86-64.so.2")
	libs := filepath.Join(root, "usr/lib/x86_64-linux-gnu")
	for _, args := range [][]string{
		{"usr/bin/systemctl", "--version"}, {"usr/bin/systemd-repart", "--version"}, {"usr/bin/udevadm", "--version"}, {"usr/lib/systemd/systemd", "--version"},
		{"usr/lib/systemd/systemd-networkd", "--version"}, {"usr/bin/kmod", "--version"}, {"usr/sbin/mke2fs", "-V"}, {"usr/bin/mount", "--version"}, {"usr/sbin/blkid", "--version"},
	} {
		cmd := exec.CommandContext(t.Context(), loader, append([]string{"--library-path", libs + ":" + libs + "/systemd", filepath.Join(root, args[0])}, args[1:]...)...)
		cmd.Env = []string{"LD_BIND_NOW=1", "LC_ALL=C"}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%v: %v: %s", args, err, out)
		}
	}
}

func testModules(t *testing.T, src *source.Source, system *tree.Tree) {
	m, err := system.CopyModules(src.Tree, list(t, "testdata/modules.drop"))
	if err != nil {
		t.Fatal(err)
	}
	tools, err := tool.Open(src, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// Directories are listed in another order by another file system; what
	// depmod makes must not follow it.
	elsewhere := tree.Merged()
	if _, err := elsewhere.CopyModules(src.Tree, list(t, "testdata/modules.drop")); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat("/dev/shm"); err == nil {
		t.Setenv("TMPDIR", "/dev/shm")
	}
	if err := tools.Depmod(t.Context(), elsewhere, m.Kernel); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", t.TempDir())
	if err := tools.Depmod(t.Context(), system, m.Kernel); err != nil {
		t.Fatal(err)
	}
	for at := range elsewhere.All() {
		a, errA := elsewhere.ReadFile(at)
		b, errB := system.ReadFile(at)
		if (errA == nil) != (errB == nil) || string(a) != string(b) {
			t.Errorf("%s depends on where it was made", at)
		}
	}
	base := "usr/lib/modules/" + m.Kernel + "/"
	dep, err := system.ReadFile(base + "modules.dep")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(string(dep)), "\n")
	if len(lines) != m.Kept {
		t.Errorf("modules.dep has %d modules, and %d were kept", len(lines), m.Kept)
	}
	if !strings.Contains(string(dep), "kernel/drivers/md/dm-verity.ko: kernel/drivers/md/dm-bufio.ko") {
		t.Error("modules.dep does not know what dm-verity needs")
	}
	for _, l := range lines {
		for _, at := range strings.Fields(strings.Replace(l, ":", "", 1)) {
			b, err := system.ReadFile(base + at)
			if err != nil || !strings.HasPrefix(string(b), elf.ELFMAG) {
				t.Errorf("modules.dep names %s: %v", at, err)
			}
		}
	}
	for _, name := range []string{"modules.dep.bin", "modules.alias.bin", "modules.builtin.bin", "modules.symbols.bin", "modules.softdep"} {
		if _, ok := system.Get(base + name); !ok {
			t.Errorf("there is no %s", name)
		}
	}
	if _, ok := system.Get(base + "modules.order"); ok {
		t.Error("what only depmod reads was kept")
	}
	if _, err := src.Tree.ReadFile("boot/vmlinuz-" + m.Kernel); err != nil {
		t.Error(err)
	}
}
