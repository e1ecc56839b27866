//go:build linux

package disk

import (
	"bytes"
	"context"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-os/writ/image/esp"
	"github.com/writ-os/writ/image/initrd"
	"github.com/writ-os/writ/image/uki"
	"github.com/writ-os/writ/image/verity"
)

// machine is what a boot test needs from outside: a kernel and its modules
// (WRIT_KERNEL, WRIT_MODULES), QEMU and mkfs.erofs; for a boot by firmware, too, a
// folder with systemd's stub and boot loader (WRIT_EFI) and OVMF (WRIT_OVMF).
type machine struct {
	kernel, initrd []byte
	root           []byte
	tree           verity.Tree
	cmdline        string
}

func buildMachine(t *testing.T) machine {
	t.Helper()
	kernel, modules := os.Getenv("WRIT_KERNEL"), os.Getenv("WRIT_MODULES")
	if kernel == "" || modules == "" {
		t.Skip("WRIT_KERNEL and WRIT_MODULES do not say which kernel to boot")
	}
	for _, tool := range []string{"qemu-system-x86_64", "mkfs.erofs"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	dir := t.TempDir()
	tree := filepath.Join(dir, "root")
	for _, folder := range []string{"dev", "proc", "sys", "run", "data"} {
		if err := os.MkdirAll(filepath.Join(tree, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(tree, "data/marked"), bytes.Repeat([]byte("MARKED CONTENT. "), 4096), 0o644); err != nil {
		t.Fatal(err)
	}
	build(t, filepath.Join(tree, "hello"), "./testdata/hello")
	build(t, filepath.Join(dir, "init"), "../initrd/init")
	run(t, "mkfs.erofs", "-T0", "--all-root", filepath.Join(dir, "root.erofs"), tree)

	var m machine
	m.root = read(t, filepath.Join(dir, "root.erofs"))
	m.root = append(m.root, make([]byte, -len(m.root)&(verity.BlockSize-1))...)
	var err error
	if m.tree, err = verity.Build(bytes.NewReader(m.root), int64(len(m.root)), verity.ParamsOf("1")); err != nil {
		t.Fatal(err)
	}
	m.kernel = read(t, kernel)
	if m.initrd, err = initrd.Build(initrd.Parts{Init: read(t, filepath.Join(dir, "init")), Modules: os.DirFS(modules)}); err != nil {
		t.Fatal(err)
	}
	m.cmdline = "roothash=" + hex.EncodeToString(m.tree.RootHash[:]) + " ro panic=1 no_timer_check console=ttyS0 quiet writ.init=/hello"
	t.Logf("root %d, initrd %d bytes", len(m.root), len(m.initrd))
	return m
}

func build(t *testing.T, out, pkg string) {
	t.Helper()
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags", "-s -w -buildid=", "-o", out, pkg)
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, b)
	}
}

func run(t *testing.T, args ...string) {
	t.Helper()
	if b, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, b)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func (m machine) disk(t *testing.T, root []byte, files []esp.File) string {
	t.Helper()
	return assembled(t, Parts{Version: "1", Seed: "boot test", Root: bytes.NewReader(root), RootSize: int64(len(root)), Tree: m.tree, ESP: files}).Name()
}

// boot runs a machine until it says one of the words, or turns itself off. Its
// processor has no CMPXCHG16B: QEMU 7.2 emulates an interrupt right after it
// wrongly, and one kernel in five crashes in kmalloc.
func (m machine) boot(t *testing.T, disk string, args []string, words ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", append([]string{
		"-accel", "tcg,thread=multi", "-M", "q35", "-cpu", "max,cx16=off", "-smp", "2", "-m", "512", "-nodefaults", "-no-user-config",
		"-display", "none", "-no-reboot", "-chardev", "stdio,id=s0,signal=off", "-serial", "chardev:s0", "-device", "virtio-rng-pci",
	}, args...)...)
	if disk != "" {
		cmd.Args = append(cmd.Args, "-drive", "file="+disk+",if=none,id=d0,format=raw,snapshot=on", "-device", "virtio-blk-pci,drive=d0")
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	start := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var console strings.Builder
	for b := make([]byte, 4096); ; {
		n, err := out.Read(b)
		console.Write(b[:n])
		if err != nil {
			break
		}
		for _, word := range words {
			if strings.Contains(console.String(), word) {
				cancel()
			}
		}
	}
	_ = cmd.Wait()
	t.Logf("%.1f s", time.Since(start).Seconds())
	return console.String()
}

func (m machine) direct(t *testing.T) []string {
	dir := t.TempDir()
	for name, b := range map[string][]byte{"kernel": m.kernel, "initrd": m.initrd} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return []string{"-kernel", filepath.Join(dir, "kernel"), "-initrd", filepath.Join(dir, "initrd"), "-append", m.cmdline}
}

func TestBoot(t *testing.T) {
	m := buildMachine(t)
	hello := "HELLO from pid 1, root is /dev/dm-0 ro"
	t.Run("direct", func(t *testing.T) {
		console := m.boot(t, m.disk(t, m.root, nil), m.direct(t))
		if !strings.Contains(console, hello) || !strings.Contains(console, "READ /data/marked 65536") || !strings.Contains(console, "BYE <nil>") {
			t.Error(console)
		}
	})
	t.Run("flipped bit", func(t *testing.T) {
		bad := bytes.Clone(m.root)
		at := bytes.LastIndex(bad, []byte("MARKED CONTENT. "))
		if at < 0 {
			t.Fatal("the file is not in the image as it is")
		}
		bad[at] ^= 1
		console := m.boot(t, m.disk(t, bad, nil), m.direct(t))
		if !strings.Contains(console, "dm-verity device corrupted") || strings.Contains(console, "READ ") || strings.Contains(console, "BYE") {
			t.Error(console)
		}
	})
	t.Run("no disk", func(t *testing.T) {
		console := m.boot(t, "", m.direct(t), "at all).")
		if !strings.Contains(console, "Waiting up to 30 seconds for a disk with the partitions") {
			t.Error(console)
		}
	})
	t.Run("no hash", func(t *testing.T) {
		m := m
		m.cmdline = strings.Replace(m.cmdline, "roothash=", "roothash=x", 1)
		console := m.boot(t, "", m.direct(t), "restarts in 10 seconds")
		if !strings.Contains(console, "Writ cannot start: roothash= on the kernel's command line is") {
			t.Error(console)
		}
	})
	t.Run("firmware", func(t *testing.T) {
		efi, ovmf := os.Getenv("WRIT_EFI"), os.Getenv("WRIT_OVMF")
		if efi == "" || ovmf == "" {
			t.Skip("WRIT_EFI and WRIT_OVMF do not say which firmware to boot")
		}
		image, err := uki.Build(read(t, filepath.Join(efi, "linuxx64.efi.stub")), uki.Sections{
			OSRelease: "ID=writ\nVERSION_ID=1\nPRETTY_NAME=Writ\n", Cmdline: m.cmdline, Uname: "test", Linux: m.kernel, Initrd: m.initrd,
		})
		if err != nil {
			t.Fatal(err)
		}
		addon, err := uki.Addon(read(t, filepath.Join(efi, "addonx64.efi.stub")), "writ.test=addon")
		if err != nil {
			t.Fatal(err)
		}
		disk := m.disk(t, m.root, []esp.File{
			{Path: "EFI/BOOT/BOOTX64.EFI", Data: read(t, filepath.Join(efi, "systemd-bootx64.efi"))},
			{Path: "EFI/Linux/writ_1.efi", Data: image},
			{Path: "EFI/Linux/writ_1.efi.extra.d/test.addon.efi", Data: addon},
			{Path: "loader/loader.conf", Data: []byte("timeout 0\n")},
		})
		vars := filepath.Join(t.TempDir(), "vars.fd")
		if err := os.WriteFile(vars, read(t, filepath.Join(ovmf, "OVMF_VARS_4M.fd")), 0o600); err != nil {
			t.Fatal(err)
		}
		console := m.boot(t, disk, []string{
			"-drive", "if=pflash,format=raw,readonly=on,file=" + filepath.Join(ovmf, "OVMF_CODE_4M.fd"),
			"-drive", "if=pflash,format=raw,file=" + vars,
		})
		if !strings.Contains(console, hello) || !strings.Contains(console, "writ.test=addon") {
			t.Error(console)
		}
	})
}
