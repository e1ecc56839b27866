package build

import (
	"context"
	"debug/elf"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/writ-os/writ/image/esp"
	"github.com/writ-os/writ/image/initrd"
	"github.com/writ-os/writ/image/lock"
	"github.com/writ-os/writ/image/root"
	"github.com/writ-os/writ/image/source"
	"github.com/writ-os/writ/image/tool"
	"github.com/writ-os/writ/image/tree"
	"github.com/writ-os/writ/image/uki"
	"github.com/writ-os/writ/image/verity"
)

// job is one build; each step leaves here what the next ones need.
type job struct {
	cfg    Config
	work   string
	result *Result

	src      *source.Source
	root     *root.Root
	rootFile string
	rootSize int64
	hashes   verity.Tree
	initial  []byte // ramdisk
	kernel   []byte // image, unified
	loader   []byte
}

// Where the packages have what the firmware starts.
const (
	efiDir     = "usr/lib/systemd/boot/efi/"
	loaderFile = efiDir + "systemd-bootx64.efi"
	stubFile   = efiDir + "linuxx64.efi.stub"
)

func (j *job) fetch(ctx context.Context) (string, error) {
	err := lock.Fetch(ctx, lock.Fetching{Dir: j.cfg.Cache, Progress: func(p lock.Progress) {
		j.step("packages", fmt.Sprintf("%d of %d, %s of %s", p.Done, p.All, megabytes(p.Bytes), megabytes(p.Sum)))
	}}, j.cfg.Lock)
	return fmt.Sprintf("%d, locked", len(j.cfg.Lock.Packages)), err
}

func (j *job) load(ctx context.Context) (detail string, err error) {
	if j.src, err = source.Load(ctx, j.cfg.Cache, j.cfg.Lock); err != nil {
		return "", err
	}
	return fmt.Sprintf("%d files", j.src.Tree.Len()), nil
}

// tree makes the root file system, with the indexes of its modules.
func (j *job) tree(ctx context.Context) (string, error) {
	p := root.Parts{Version: j.cfg.Version}
	var err error
	for _, f := range []struct {
		to   *tree.Data
		path string
	}{{&p.Writ, j.cfg.Programs.Writ}, {&p.Containerd, j.cfg.Programs.Containerd}, {&p.Shim, j.cfg.Programs.Shim}} {
		if *f.to, err = tree.HostFile(f.path); err != nil {
			return "", err
		}
	}
	if j.root, err = root.Tree(j.src, p); err != nil {
		return "", err
	}
	tools, err := j.tools()
	if err != nil {
		return "", err
	}
	if err := tools.Depmod(ctx, j.root.Tree, j.root.Modules.Kernel); err != nil {
		return "", err
	}
	j.result.Kernel, j.result.Sizes = j.root.Modules.Kernel, j.root.Tree.Sizes()
	for _, d := range j.root.Closure.Absent {
		j.result.Missing = append(j.result.Missing, fmt.Sprintf("%s of %s", d.Sonames[0], d.By))
	}
	var sum int64
	for _, s := range j.result.Sizes {
		sum += s.Bytes
	}
	return fmt.Sprintf("%d files, %s", j.root.Tree.Len(), megabytes(sum)), nil
}

func (j *job) tools() (*tool.Tools, error) { return tool.Open(j.src, j.cfg.Cache) }

func (j *job) erofs(ctx context.Context) (string, error) {
	tools, err := j.tools()
	if err != nil {
		return "", err
	}
	j.rootFile = j.path("root.erofs")
	if err := tools.EROFS(ctx, j.root.Tree, j.rootFile, tool.Options{UUID: j.uuid("root"), Epoch: j.cfg.Epoch}); err != nil {
		return "", err
	}
	info, err := os.Stat(j.rootFile)
	if err != nil {
		return "", err
	}
	j.rootSize = info.Size()
	return megabytes(j.rootSize), nil
}

func (j *job) verity(context.Context) (string, error) {
	f, err := os.Open(j.rootFile)
	if err != nil {
		return "", err
	}
	defer f.Close()
	if j.hashes, err = verity.Build(f, j.rootSize, verity.ParamsOf(j.cfg.Version)); err != nil {
		return "", err
	}
	j.result.RootHash = hex.EncodeToString(j.hashes.RootHash[:])
	return fmt.Sprintf("%s, root hash %.16s...", megabytes(int64(len(j.hashes.Bytes))), j.result.RootHash), nil
}

func (j *job) initrd(context.Context) (string, error) {
	program, err := os.ReadFile(j.cfg.Programs.Init)
	if err != nil {
		return "", err
	}
	// The indexes and modules as files, for the packer to read.
	modules := tree.New()
	base := filepath.Join("usr/lib/modules", j.root.Modules.Kernel)
	for at, e := range j.root.Tree.All() {
		if rel, err := filepath.Rel(base, at); err == nil && filepath.IsLocal(rel) && rel != "." {
			if err := modules.Add(rel, e); err != nil {
				return "", err
			}
		}
	}
	dir := j.path("modules")
	if err := os.Mkdir(dir, 0o755); err != nil {
		return "", err
	}
	if err := modules.Extract(dir); err != nil {
		return "", err
	}
	if j.initial, err = initrd.Build(initrd.Parts{Init: program, Modules: os.DirFS(dir)}); err != nil {
		return "", err
	}
	return megabytes(int64(len(j.initial))), os.RemoveAll(dir)
}

// uki makes what the firmware starts: the loader, and the kernel with all it
// needs.
func (j *job) uki(context.Context) (string, error) {
	stub, err := j.src.Tree.ReadFile(stubFile)
	if err != nil {
		return "", err
	}
	linux, err := j.src.Tree.ReadFile("boot/vmlinuz-" + j.root.Modules.Kernel)
	if err != nil {
		return "", err
	}
	if j.loader, err = j.src.Tree.ReadFile(loaderFile); err != nil {
		return "", err
	}
	if j.kernel, err = uki.Build(stub, uki.Sections{
		OSRelease: root.BootRelease(j.cfg.Version), Uname: j.root.Modules.Kernel,
		Cmdline: "roothash=" + j.result.RootHash + " " + root.CommandLine,
		Linux:   linux, Initrd: j.initial,
	}); err != nil {
		return "", err
	}
	signed := "not signed for Secure Boot"
	if s := j.cfg.SecureBoot; s != nil {
		if j.kernel, err = uki.Sign(j.kernel, s.Key, s.Certificate); err != nil {
			return "", err
		}
		if j.loader, err = uki.Sign(j.loader, s.Key, s.Certificate); err != nil {
			return "", err
		}
		signed = "signed for Secure Boot"
	}
	return megabytes(int64(len(j.kernel))) + ", " + signed, nil
}

// espFiles are the EFI system partition of a new disk: the first kernel image
// is one that was found good.
func (j *job) espFiles() []esp.File {
	files := []esp.File{
		{Path: "EFI/BOOT/BOOTX64.EFI", Data: j.loader},
		{Path: "EFI/systemd/systemd-bootx64.efi", Data: j.loader},
		{Path: "EFI/Linux/writ_1.efi", Data: j.kernel},
	}
	conf := "timeout 0\neditor no\nconsole-mode keep\n"
	if s := j.cfg.SecureBoot; s != nil && s.Enrol != nil {
		for name, data := range map[string][]byte{"PK": s.Enrol.PK, "KEK": s.Enrol.KEK, "db": s.Enrol.DB} {
			files = append(files, esp.File{Path: "loader/keys/auto/" + name + ".auth", Data: data})
		}
		mode := "if-safe"
		if s.EnrolForce {
			mode = "force"
		}
		conf += "secure-boot-enroll " + mode + "\n"
	}
	return append(files, esp.File{Path: "loader/loader.conf", Data: []byte(conf)})
}

// checkProgram refuses what would not start on a node: a program that needs
// libraries, or is for another processor.
func checkProgram(path string) error {
	f, err := elf.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	if f.Machine != elf.EM_X86_64 {
		return fmt.Errorf("%s is for %s", path, f.Machine)
	}
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return fmt.Errorf("%s needs libraries of this machine: build it with CGO_ENABLED=0", path)
		}
	}
	return nil
}

// create makes a file and has it on the disk when fill is done.
func create(path string, fill func(f *os.File) error) error {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(fill(f), f.Sync(), f.Close())
}
