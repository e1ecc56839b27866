package vault

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/writ-os/writ/image/config"
)

// Disk is the one that the system runs from.
type Disk interface {
	// ESP mounts the EFI system partition while f runs.
	ESP(writable bool, f func(dir string) error) error
	// Partition is the device of the partition with a name; fs.ErrNotExist where
	// there is none.
	Partition(name string) (string, error)
}

// Config is everything a Vault needs from outside.
type Config struct {
	// Root is put before every path but those of programs; "" is the machine's own.
	Root string
	Disk Disk
	// Run runs a program and waits for it. Default: the machine's.
	Run func(ctx context.Context, name string, args ...string) error
	// Console is what people read.
	Console io.Writer
}

// Vault is /var.
type Vault struct{ cfg Config }

// New returns a vault; it starts nothing.
func New(cfg Config) *Vault {
	if cfg.Run == nil {
		cfg.Run = run
	}
	return &Vault{cfg}
}

// Open opens /var, and makes it before where there is none. The error is a
// sentence for people.
func (v *Vault) Open(ctx context.Context) error {
	f, key, err := v.read()
	if err != nil {
		return err
	}
	steps, err := Decide(f)
	if err != nil {
		return err
	}
	keyFile, forget, err := v.keep(key)
	if err != nil {
		return err
	}
	defer forget()
	for _, s := range steps {
		err := v.do(ctx, s, keyFile)
		if s == Enrol && f.Device != "" && err != nil {
			// Somebody wants to be let in: a TPM that is broken does not keep him out.
			v.say("%v: /var is open, and the next start needs the recovery key again", err)
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// read looks at the machine, and at what it was told.
func (v *Vault) read() (f Facts, key string, err error) {
	for name, at := range map[string]*string{Partition: &f.Device, Mapping: &f.Plain} {
		if *at, err = v.cfg.Disk.Partition(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return f, "", fmt.Errorf("look for the partition %s: %w", name, err)
		}
	}
	f.Open = v.exists("dev/mapper", Mapping)
	f.TPM = v.exists("dev/tpmrm0") && v.exists(measured)
	err = v.cfg.Disk.ESP(false, func(dir string) error {
		f, err := os.Open(filepath.Join(dir, config.ESPPath))
		if err != nil {
			return err
		}
		defer f.Close()
		// Anybody may have written it: Parse refuses what is longer.
		data, err := io.ReadAll(io.LimitReader(f, config.MaxSize+1))
		if err != nil {
			return err
		}
		// What is wrong with it is said by what comes after; it may have been
		// erased in the middle.
		if n, findings := config.Parse(config.Name, data); len(findings) == 0 && n.Encryption != nil {
			key = n.Encryption.RecoveryKey
		}
		return nil
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		v.say("cannot look for a recovery key: %v", err)
	}
	f.RecoveryKey = key != ""
	return f, key, nil
}

func (v *Vault) path(parts ...string) string {
	return filepath.Join(append([]string{v.cfg.Root, "/"}, parts...)...)
}

func (v *Vault) exists(parts ...string) bool {
	_, err := os.Stat(v.path(parts...))
	return err == nil
}

// keep puts the recovery key where programs read it: in memory, for root alone,
// and not as an argument, which everybody could read.
func (v *Vault) keep(key string) (path string, forget func(), err error) {
	if key == "" {
		return "", func() {}, nil
	}
	path = v.path("run/writ/recovery.key")
	if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(key), 0o600)); err != nil { //nolint:gosec // services of other users read below it
		return "", nil, fmt.Errorf("hand over the recovery key: %w", err)
	}
	return path, func() { _ = os.Remove(path) }, nil
}

// measured is what the boot stub leaves behind where the firmware has measured the
// kernel image into the TPM; see systemd-stub(7). A TPM that nobody measures into
// would give the key to everybody.
const measured = "sys/firmware/efi/efivars/StubPcrKernelImage-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"

const (
	repart     = "/usr/bin/systemd-repart"
	cryptsetup = "/usr/bin/systemd-cryptsetup"
	enroll     = "/usr/bin/systemd-cryptenroll"
	// definitions are of the partition, for systemd-repart.
	definitions = "/usr/lib/writ/repart.d"
	// pcrs are those that the TPM compares; see the package comment.
	pcrs = "7+15"
)

// do runs one step. The device is looked for anew: Make has made it.
func (v *Vault) do(ctx context.Context, s Step, keyFile string) error {
	if s == Make {
		v.say("/var is made, encrypted; that takes a moment")
		if err := v.cfg.Run(ctx, repart, "--dry-run=no", "--definitions="+definitions, "--key-file="+keyFile); err != nil {
			return fmt.Errorf("make an encrypted /var: %w", err)
		}
		return nil
	}
	device, err := v.cfg.Disk.Partition(Partition)
	if err != nil {
		return fmt.Errorf("look for the partition %s: %w", Partition, err)
	}
	switch s {
	case OpenWithKey:
		if err := v.cfg.Run(ctx, cryptsetup, "attach", Mapping, device, keyFile, "luks,discard,headless=true"); err != nil {
			return fmt.Errorf("/var on %s does not open by the recovery key: is it that of this machine? %w", device, err)
		}
	case OpenWithTPM:
		if err := v.cfg.Run(ctx, cryptsetup, "attach", Mapping, device, "-", "luks,discard,headless=true,tpm2-device=auto"); err != nil {
			return fmt.Errorf("the TPM of this machine does not give the key of /var on %s: has the disk come from another machine, or have the keys of Secure Boot changed? To open it all the same, %s. %w", device, tell, err)
		}
	case Enrol:
		return v.enrol(ctx, device, keyFile)
	}
	return nil
}

// enrol takes away the key of any TPM, and gives one to that of this machine.
// Both in one run do nothing where another TPM has one for the same PCRs.
func (v *Vault) enrol(ctx context.Context, device, keyFile string) error {
	for _, args := range [][]string{{"--wipe-slot=tpm2", device}, {"--unlock-key-file=" + keyFile, "--tpm2-device=auto", "--tpm2-pcrs=" + pcrs, device}} {
		if err := v.cfg.Run(ctx, enroll, args...); err != nil {
			return fmt.Errorf("give the key of /var to the TPM: %w", err)
		}
	}
	v.say("/var is encrypted; the TPM of this machine has a key of it, the other one is the recovery key")
	return nil
}

func (v *Vault) say(format string, args ...any) {
	fmt.Fprintf(v.cfg.Console, "writ: "+format+"\r\n", args...)
}

// run runs a program, whose last words become the error.
func run(ctx context.Context, name string, args ...string) error {
	var said bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, io.MultiWriter(os.Stderr, &said)
	err := cmd.Run()
	if err == nil {
		return nil
	}
	last := said.String()
	if i := strings.LastIndexByte(strings.TrimSpace(last), '\n'); i >= 0 {
		last = last[i+1:]
	}
	return fmt.Errorf("%s: %w: %s", filepath.Base(name), err, strings.TrimSpace(last))
}
