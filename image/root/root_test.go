package root

import (
	"os"
	"path"
	"strings"
	"testing"

	"github.com/writ-os/writ/image/lock/locktest"
	"github.com/writ-os/writ/image/source"
	"github.com/writ-os/writ/image/tree"
)

// made is the root file system of the locked packages, with programs that are
// none.
func made(t *testing.T) *Root {
	t.Helper()
	l, dir := locktest.Cached(t)
	src, err := source.Load(t.Context(), dir, l)
	if err != nil {
		t.Fatal(err)
	}
	program := tree.Bytes([]byte("a program"))
	r, err := Tree(src, Parts{Version: "1.2.3", Writ: program, Containerd: program, Shim: program})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestTree(t *testing.T) {
	r := made(t)
	t.Run("nothing to log in by", func(t *testing.T) {
		for at := range r.Tree.All() {
			switch name := path.Base(at); name {
			case "sh", "bash", "dash", "busybox", "perl", "python3", "apt", "dpkg", "sshd", "agetty", "getty", "login", "sulogin", "su", "sudo", "dbus-daemon", "curl", "wget", "nsenter", "systemd-run", "run0":
				t.Errorf("%s is there", at)
			}
			if strings.HasPrefix(at, "var/") || strings.HasPrefix(at, "run/") {
				t.Errorf("%s: nobody would see it, something is mounted there", at)
			}
		}
	})
	t.Run("no file has more rights than its owner", func(t *testing.T) {
		for at, e := range r.Tree.All() {
			if e.Mode&(os.ModeSetuid|os.ModeSetgid) != 0 {
				t.Errorf("%s: %v", at, e.Mode)
			}
			if e.Mode.IsRegular() && e.Mode.Perm()&0o022 != 0 {
				t.Errorf("%s: others may write it: %v", at, e.Mode)
			}
		}
	})
	t.Run("what units start is there", func(t *testing.T) { checkUnits(t, r.Tree) })
	t.Run("links lead somewhere", func(t *testing.T) {
		for at, e := range r.Tree.All() {
			if e.Link == "" || strings.Contains(e.Link, "/run/") || strings.Contains(e.Link, "/proc/") || strings.HasPrefix(e.Link, "/dev/") {
				continue
			}
			if to, err := r.Tree.Resolve(at); err != nil || to == "" {
				t.Errorf("%s leads to %s: %v", at, e.Link, err)
			}
		}
	})
	for _, s := range r.Tree.Sizes() {
		t.Logf("%8.2f MB %5d files %s", float64(s.Bytes)/1e6, s.Files, s.Origin)
	}
	for _, d := range r.Closure.Absent {
		t.Logf("absent: %+v", d)
	}
	t.Logf("modules: %d kept, %d dropped; kept for others: %v", r.Modules.Kept, r.Modules.Dropped, r.Modules.Needed)
}

// checkUnits finds the program of every Exec line, and every unit that others
// require.
func checkUnits(t *testing.T, files *tree.Tree) {
	t.Helper()
	for at, e := range files.All() {
		if !strings.HasPrefix(at, units+"/") || !e.Mode.IsRegular() {
			continue
		}
		b, err := files.ReadFile(at)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(b)) {
			key, value, ok := strings.Cut(strings.TrimSpace(line), "=")
			switch {
			case !ok || value == "":
			case strings.HasPrefix(key, "Exec"):
				program := strings.TrimLeft(strings.Fields(value)[0], "-@:+!|")
				if !strings.HasPrefix(program, "/") {
					program = "/usr/bin/" + program
				}
				if to, err := files.Resolve(program); err != nil || to == "" {
					t.Errorf("%s: %s=%s is not there", at, key, program)
				}
			case key == "Requires" || key == "BindsTo":
				for _, unit := range strings.Fields(value) {
					if name, instance, ok := strings.Cut(unit, "@"); ok && instance != "" {
						unit = name + "@" + path.Ext(unit)
					}
					if _, ok := files.Get(path.Join(units, unit)); !ok && !strings.HasSuffix(unit, ".device") && !strings.HasPrefix(unit, "%") && !strings.HasSuffix(unit, ".mount") && !strings.HasSuffix(unit, ".slice") {
						t.Errorf("%s: %s=%s is not there", at, key, unit)
					}
				}
			}
		}
	}
}
