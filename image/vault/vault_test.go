package vault

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/writ-os/writ/image/config"
)

func TestDecide(t *testing.T) {
	const dev, plain = "/dev/vda6", "/dev/vda7"
	for name, c := range map[string]struct {
		facts Facts
		want  []Step
		err   string
	}{
		"first start":                 {Facts{RecoveryKey: true, TPM: true}, []Step{Make, OpenWithKey, Enrol}, ""},
		"every other":                 {Facts{Device: dev, TPM: true}, []Step{OpenWithTPM}, ""},
		"cut short, or let in again":  {Facts{Device: dev, RecoveryKey: true, TPM: true}, []Step{OpenWithKey, Enrol}, ""},
		"the TPM has died":            {Facts{Device: dev, RecoveryKey: true}, []Step{OpenWithKey}, ""},
		"it is open":                  {Facts{Device: dev, Open: true}, nil, ""},
		"the TPM is switched off":     {Facts{Device: dev}, nil, "switch it on in the firmware, or write the node.yaml of this machine, with encryption.recoveryKey"},
		"a machine without a TPM":     {Facts{RecoveryKey: true}, nil, "or leave out encryption"},
		"no recovery key":             {Facts{TPM: true}, nil, "no recovery key is on the EFI system partition"},
		"a plain /var":                {Facts{Plain: plain, RecoveryKey: true, TPM: true}, nil, plain + " has one that is not"},
		"a plain one beside a volume": {Facts{Plain: plain, Device: dev, TPM: true}, []Step{OpenWithTPM}, ""},
	} {
		got, err := Decide(c.facts)
		if !slices.Equal(got, c.want) || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %v, %v", name, got, err)
		}
	}
}

const key = "0123456789abcdefghijklmnopqrstuvwxyz"

// world is a machine: a disk, a TPM, and the programs that change them.
type world struct {
	t         *testing.T
	root, esp string
	made      bool
	open      bool
	enrolled  bool
	fail      int // the program of this number fails, 1 the first; 0 none
	ran       []string
}

func newWorld(t *testing.T, node string) *world {
	t.Helper()
	w := &world{t: t, root: t.TempDir(), esp: t.TempDir()}
	for _, path := range []string{filepath.Join(w.root, "dev/tpmrm0"), filepath.Join(w.root, measured), filepath.Join(w.esp, config.ESPPath)} {
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(node), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	return w
}

func (w *world) ESP(_ bool, f func(string) error) error { return f(w.esp) }

func (w *world) Partition(name string) (string, error) {
	if name == Partition && w.made {
		return "/dev/vda6", nil
	}
	return "", fs.ErrNotExist
}

func (w *world) run(_ context.Context, name string, args ...string) error {
	all := strings.Join(append([]string{filepath.Base(name)}, args...), " ")
	if strings.Contains(all, key) {
		w.t.Errorf("everybody can read the recovery key: %s", all)
	}
	w.ran = append(w.ran, strings.ReplaceAll(all, w.root, ""))
	if strings.Contains(all, "recovery.key") {
		path := filepath.Join(w.root, "run/writ/recovery.key")
		b, err := os.ReadFile(path)
		info, serr := os.Stat(path)
		if err != nil || serr != nil || string(b) != key || info.Mode().Perm() != 0o600 {
			w.t.Errorf("the recovery key is handed over as %q, %v, %v", b, err, serr)
		}
	}
	if w.fail--; w.fail == 0 {
		return errors.New("it went wrong")
	}
	switch {
	case name == repart:
		w.made = true
	case name == enroll:
		w.enrolled = !strings.Contains(all, "--wipe-slot")
	case strings.Contains(all, "tpm2-device") && !w.enrolled:
		return errors.New("the TPM has no key")
	default:
		w.open = true
	}
	return nil
}

func (w *world) start() (string, error) {
	var console strings.Builder
	w.open = false
	err := New(Config{Root: w.root, Disk: w, Run: w.run, Console: &console}).Open(w.t.Context())
	if _, serr := os.Stat(filepath.Join(w.root, "run/writ/recovery.key")); !errors.Is(serr, fs.ErrNotExist) {
		w.t.Errorf("the recovery key is still there: %v", serr)
	}
	return console.String(), err
}

const encrypted = "role: server\nencryption: {recoveryKey: " + key + "}\n"

func TestOpen(t *testing.T) {
	w := newWorld(t, encrypted)
	said, err := w.start()
	if err != nil || !w.open || !w.enrolled || !strings.Contains(said, "the other one is the recovery key") {
		t.Fatalf("%v, %q, %+v", err, said, w)
	}
	want := []string{
		"systemd-repart --dry-run=no --definitions=/usr/lib/writ/repart.d --key-file=/run/writ/recovery.key",
		"systemd-cryptsetup attach var /dev/vda6 /run/writ/recovery.key luks,discard,headless=true",
		"systemd-cryptenroll --wipe-slot=tpm2 /dev/vda6",
		"systemd-cryptenroll --unlock-key-file=/run/writ/recovery.key --tpm2-device=auto --tpm2-pcrs=7+15 /dev/vda6",
	}
	if !slices.Equal(w.ran, want) {
		t.Errorf("ran\n%s", strings.Join(w.ran, "\n"))
	}
	w.ran = nil
	w.erase()
	if _, err := w.start(); err != nil || !w.open || len(w.ran) != 1 {
		t.Errorf("the second start: %v, %q", err, w.ran)
	}
}

// erase is what the machine does with its node.yaml once /var has it.
func (w *world) erase() {
	w.t.Helper()
	b, _, err := config.Erase([]byte(encrypted))
	if err == nil {
		err = os.WriteFile(filepath.Join(w.esp, config.ESPPath), b, 0o600)
	}
	if err != nil || strings.Contains(string(b), key) {
		w.t.Fatalf("%q, %v", b, err)
	}
}

// TestCutShort lets each program of the first start fail: the next start is good.
func TestCutShort(t *testing.T) {
	for fail := range 4 {
		w := newWorld(t, encrypted)
		w.fail = fail + 1
		if said, err := w.start(); err == nil || strings.Contains(said+err.Error(), key) {
			t.Errorf("program %d fails: %v", fail, err)
		}
		if _, err := w.start(); err != nil || !w.open || !w.enrolled {
			t.Errorf("after program %d failed: %v, %+v", fail, err, w)
		}
	}
}

func TestAnotherTPM(t *testing.T) {
	w := newWorld(t, encrypted)
	if _, err := w.start(); err != nil {
		t.Fatal(err)
	}
	w.erase()
	w.enrolled = false
	_, err := w.start()
	if err == nil || !strings.Contains(err.Error(), "does not give the key of /var on /dev/vda6") || !strings.Contains(err.Error(), "encryption.recoveryKey") {
		t.Errorf("%v", err)
	}
}

// TestBrokenTPM: who has the recovery key gets in, and is told.
func TestBrokenTPM(t *testing.T) {
	w := newWorld(t, encrypted)
	w.made, w.fail = true, 3 // the partition, and the second of cryptenroll
	said, err := w.start()
	if err != nil || !w.open || !strings.Contains(said, "give the key of /var to the TPM: it went wrong: /var is open, and the next start needs the recovery key again") {
		t.Errorf("%v, %q", err, said)
	}
}

func TestNotMeasured(t *testing.T) {
	w := newWorld(t, encrypted)
	if err := os.Remove(filepath.Join(w.root, measured)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.start(); err == nil || !strings.Contains(err.Error(), "none of version 2 that its firmware uses") || len(w.ran) > 0 {
		t.Errorf("%v, %q", err, w.ran)
	}
}

func TestRun(t *testing.T) {
	if err := run(t.Context(), "/bin/sh", "-c", "echo one >&2; echo two >&2; exit 3"); err == nil || err.Error() != "sh: exit status 3: two" {
		t.Errorf("%v", err)
	}
}

func TestEncrypted(t *testing.T) {
	if yes, err := Encrypted("/proc"); yes || err != nil {
		t.Errorf("%v, %v", yes, err)
	}
}
