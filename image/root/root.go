package root

import (
	"bytes"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/writ-os/writ/image/source"
	"github.com/writ-os/writ/image/tree"
)

//go:embed all:files
var files embed.FS

//go:embed keep.list
var keepList string

//go:embed modules.drop
var modulesDrop string

//go:embed wants
var wantsList string

// Parts are what does not come from packages.
type Parts struct {
	Version                string
	Writ, Containerd, Shim tree.Data
}

// Root is a root file system, but for the indexes of its kernel modules, which
// depmod makes.
type Root struct {
	Tree *tree.Tree
	// OSRelease is /etc/os-release.
	OSRelease string
	Modules   *tree.Modules
	Closure   *tree.Closure
}

// CommandLine is what a node's kernel is told besides the root hash. It is part
// of the image: nothing of one node is in it.
//
// panic restarts a machine whose root file system is damaged, so that the boot
// loader counts; no_timer_check is for emulators, whose timer a busy host makes
// late; the kernel's tests of its own ciphers at every start are what its default
// leaves out, and Debian's does not; the machine's ID is explained in the package
// comment.
const CommandLine = "ro panic=10 no_timer_check cryptomgr.notests console=tty0 console=ttyS0 quiet systemd.show_status=error systemd.machine_id=firmware"

// Tree makes the root file system.
func Tree(src *source.Source, p Parts) (*Root, error) {
	r := &Root{Tree: tree.Merged(), OSRelease: osRelease(p.Version)}
	keep, err := tree.ParseList("image/root/keep.list", strings.NewReader(keepList))
	if err != nil {
		return nil, err
	}
	if err := r.Tree.Copy(src.Tree, keep); err != nil {
		return nil, fmt.Errorf("take files of packages: %w", err)
	}
	drop, err := tree.ParseList("image/root/modules.drop", strings.NewReader(modulesDrop))
	if err != nil {
		return nil, err
	}
	if r.Modules, err = r.Tree.CopyModules(src.Tree, drop); err != nil {
		return nil, err
	}
	for _, add := range []func() error{
		func() error { return addFiles(r.Tree) },
		func() error { return addWants(r.Tree) },
		func() error { return addPrograms(r.Tree, p) },
		func() error { return r.addRest(src.Tree) },
	} {
		if err := add(); err != nil {
			return nil, fmt.Errorf("make root file system: %w", err)
		}
	}
	if r.Closure, err = src.Closure(r.Tree); err != nil {
		return nil, fmt.Errorf("take libraries: %w", err)
	}
	return r, withoutSetuid(r.Tree)
}

// withoutSetuid takes away what lets a program have the rights of its owner:
// everything here that needs root is root.
func withoutSetuid(t *tree.Tree) error {
	for at, e := range t.All() {
		if e.Mode&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
			e.Mode &^= fs.ModeSetuid | fs.ModeSetgid
			if err := t.Replace(at, e); err != nil {
				return err
			}
		}
	}
	return nil
}

// addFiles adds the folder files.
func addFiles(t *tree.Tree) error {
	return fs.WalkDir(files, "files", func(at string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := files.ReadFile(at)
		if err != nil {
			return err
		}
		mode := fs.FileMode(0o644)
		if at = strings.TrimPrefix(at, "files/"); at == "etc/shadow" {
			mode = 0o600
		}
		return t.File(at, mode, b)
	})
}

const units = "usr/lib/systemd/system"

// addWants makes the links by which units start others. A unit that is not
// there is an error: a name would be wrong.
func addWants(t *tree.Tree) error {
	for line := range strings.Lines(wantsList) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) == 0 {
			continue
		}
		if len(f) < 3 || f[1] != "wants" && f[1] != "requires" {
			return fmt.Errorf("image/root/wants: %q does not say which target wants which units", strings.TrimSpace(line))
		}
		for _, unit := range f[2:] {
			if _, ok := t.Get(path.Join(units, unit)); !ok {
				return fmt.Errorf("image/root/wants: %s %s %s, which is not in the tree", f[0], f[1], unit)
			}
			if err := t.Symlink(path.Join(units, f[0]+"."+f[1], unit), "../"+unit); err != nil {
				return err
			}
		}
	}
	return t.Symlink(path.Join(units, "default.target"), "multi-user.target")
}

func addPrograms(t *tree.Tree, p Parts) error {
	for name, program := range map[string]struct {
		data   tree.Data
		origin string
	}{
		"writ":                    {p.Writ, tree.Writ},
		"containerd":              {p.Containerd, "containerd"},
		"containerd-shim-runc-v2": {p.Shim, "containerd"},
	} {
		if err := t.Add("usr/bin/"+name, tree.Entry{Mode: 0o755, Data: program.data, Origin: program.origin}); err != nil {
			return err
		}
	}
	return nil
}

// addRest adds directories to mount on, links into what can be written, and
// what packages would make when they are installed.
func (r *Root) addRest(src *tree.Tree) error {
	t := r.Tree
	for _, dir := range []string{"boot", "dev", "efi", "home", "mnt", "opt", "proc", "root", "run", "srv", "sys", "usr/local", "var"} {
		if err := t.Dir(dir, 0o755); err != nil {
			return err
		}
	}
	if err := t.Dir("tmp", 0o777|fs.ModeSticky); err != nil {
		return err
	}
	for at, target := range map[string]string{
		"etc/localtime":   "../usr/share/zoneinfo/Etc/UTC",
		"etc/mtab":        "../proc/self/mounts",
		"etc/os-release":  "../usr/lib/os-release",
		"etc/resolv.conf": "../run/writ/resolv.conf",
	} {
		if err := t.Symlink(at, target); err != nil {
			return err
		}
	}
	certificates, err := authorities(src)
	if err != nil {
		return err
	}
	for at, data := range map[string][]byte{
		"etc/machine-id":                    {}, // there, and empty: systemd puts the ID over it
		"etc/ssl/certs/ca-certificates.crt": certificates,
		"usr/lib/os-release":                []byte(r.OSRelease),
		"usr/lib/modules-load.d/writ.conf":  []byte(modulesLoad),
	} {
		if err := t.File(at, 0o644, data); err != nil {
			return err
		}
	}
	return nil
}

// modulesLoad are the modules that nothing asks for by name. One program loads
// them all; systemd would start one for each.
const modulesLoad = `# Found by a mount or a socket as a rule; these are not.
overlay
nf_tables
# For systemd-repart, which makes a file system in a partition that is new.
loop
# What the kernel said last, before it restarted.
efi_pstore
`

// authorities is the bundle that ca-certificates would make, of all that
// Mozilla trusts.
func authorities(src *tree.Tree) ([]byte, error) {
	var b bytes.Buffer
	for at := range src.All() {
		if path.Dir(at) != "usr/share/ca-certificates/mozilla" || !strings.HasSuffix(at, ".crt") {
			continue
		}
		pem, err := src.ReadFile(at)
		if err != nil {
			return nil, err
		}
		b.Write(bytes.TrimSpace(pem))
		b.WriteByte('\n')
	}
	if b.Len() == 0 {
		return nil, fmt.Errorf("no package has certificates of authorities: ca-certificates is missing in the lock")
	}
	return b.Bytes(), nil
}

// osRelease is os-release(5). IMAGE_VERSION is what updates compare.
func osRelease(version string) string {
	return fmt.Sprintf(`ID=writ
NAME=Writ
PRETTY_NAME="Writ %[1]s"
VERSION_ID=%[2]s
IMAGE_ID=writ
IMAGE_VERSION=%[1]s
DEFAULT_HOSTNAME=writ
`, version, strings.TrimPrefix(version, "v"))
}

// BootRelease is the os-release of the kernel image, of which the boot loader
// shows the name. It has no version to sort by: which image is tried first is
// for the names of their files to say; see package slot.
func BootRelease(version string) string {
	return fmt.Sprintf("ID=writ\nNAME=Writ\nPRETTY_NAME=\"Writ %s\"\nIMAGE_ID=writ\n", version)
}
