//go:build image

package image

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/config"
	"github.com/writ-os/writ/image/esp"
	"github.com/writ-os/writ/image/vault"
)

const recoveryKey = "mF0jQb3Vw9Zr5Tn8Xs2Lk7Pd4Gh1Cy6A"

// TestTPM is a machine whose /var is encrypted: its TPM opens it, another one does
// not and says so, and the recovery key lets the machine with the other one in.
func TestTPM(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a machine five times")
	}
	tpmEmulator(t)
	uefi := firmware(t)
	repo := newRepository(t)
	repo.write("readers.yaml", readers)
	repo.publish("Let everybody read")
	disk := newParts(t).build(t, "1.0.0", bundle.Quick).disk(t)
	node := func(generation int) string { return encrypted(repo, generation) }
	first, second := t.TempDir(), t.TempDir()
	configure(t, disk, node(1))

	t.Run("first start", func(t *testing.T) {
		g := start(t, disk, append(uefi, tpm(t, first)...)...)
		g.ready(10*time.Minute, "one")
		g.shows("/var is encrypted; the TPM of this machine has a key of it")
		time.Sleep(5 * time.Second) // the journal of the file system is written
	})
	isVault(t, disk)
	t.Run("after a power cut", func(t *testing.T) {
		start(t, disk, append(uefi, tpm(t, first)...)...).ready(10*time.Minute, "one")
	})
	t.Run("another TPM", func(t *testing.T) {
		g := start(t, disk, append(uefi, tpm(t, second)...)...)
		g.keptOut(5 * time.Minute)
	})
	configure(t, disk, node(2))
	t.Run("recovered", func(t *testing.T) {
		g := start(t, disk, append(uefi, tpm(t, second)...)...)
		g.ready(10*time.Minute, "one")
		time.Sleep(5 * time.Second)
	})
	isVault(t, disk)
	t.Run("by the other TPM", func(t *testing.T) {
		start(t, disk, append(uefi, tpm(t, second)...)...).ready(10*time.Minute, "one")
	})
}

// TestMeasuredBoot is what Secure Boot and a TPM do together: /var is open to what
// is signed, and to nothing else that this machine, TPM and all, is started with.
func TestMeasuredBoot(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a machine four times")
	}
	tpmEmulator(t)
	secure, plain := secureFirmware(t), firmware(t)
	by, _ := secureBoot(t)
	repo := newRepository(t)
	repo.write("readers.yaml", readers)
	repo.publish("Let everybody read")
	disk := newParts(t).sign(t, "1.0.0", by).disk(t)
	configure(t, disk, encrypted(repo, 1))
	memory := t.TempDir()

	t.Run("first start", func(t *testing.T) {
		g := start(t, disk, append(secure, tpm(t, memory)...)...)
		g.ready(15*time.Minute, "one")
		g.kernelSays("Secure boot enabled", "Kernel is locked down from EFI Secure Boot", "secureboot: Secure boot enabled")
		g.shows("/var is encrypted; the TPM of this machine has a key of it")
		time.Sleep(5 * time.Second) // the journal of the file system is written
	})
	isVault(t, disk)
	t.Run("after a power cut", func(t *testing.T) {
		start(t, disk, append(secure, tpm(t, memory)...)...).ready(10*time.Minute, "one")
	})
	// Who carries the machine away resets its firmware, and has the loader, which
	// nobody measures by then, not enrol keys again.
	put(t, disk, "loader/loader.conf", []byte("timeout 0\nsecure-boot-enroll off\n"))
	t.Run("without Secure Boot", func(t *testing.T) {
		start(t, disk, append(plain, tpm(t, memory)...)...).keptOut(5 * time.Minute)
	})
	t.Run("with it again", func(t *testing.T) {
		start(t, disk, append(secure, tpm(t, memory)...)...).ready(10*time.Minute, "one")
	})
}

// encrypted is the node.yaml of a server whose /var is.
func encrypted(repo *repository, generation int) string {
	return fmt.Sprintf("generation: %d\nrole: server\nunsignedImages: true\nnodeName: one\nencryption: {recoveryKey: %s}\nrepository: {url: %q}\n", generation, recoveryKey, repo.url+"/git/cluster.git")
}

// keptOut waits until the machine has said that its TPM does not open /var.
func (g *guest) keptOut(limit time.Duration) {
	g.t.Helper()
	g.eventually(limit, "it says what is wrong", func() error {
		return g.showed("the TPM of this machine does not give the key of /var on /dev/vda")
	})
}

// tpmEmulator is the emulators of a machine and of its TPM, or a skip.
func tpmEmulator(t *testing.T) {
	t.Helper()
	emulator(t)
	if _, err := exec.LookPath("swtpm"); err != nil {
		t.Skip("swtpm is not installed: apt-get install swtpm")
	}
}

// tpm is a TPM whose memory is a directory, as arguments of QEMU. It goes with
// the machine.
func tpm(t *testing.T, state string) []string {
	t.Helper()
	dir, err := os.MkdirTemp("", "tpm") // the name of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "swtpm", "socket", "--tpm2", "--tpmstate", "dir="+state, "--ctrl", "type=unixio,path="+socket, "--flags", "startup-clear")
	var said strings.Builder
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
		if t.Failed() {
			t.Logf("the TPM: %s", said.String())
		}
	})
	for began := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if _, err := os.Stat(socket); err == nil {
			break
		} else if time.Since(began) > 10*time.Second {
			t.Fatalf("swtpm does not listen: %v: %s", err, said.String())
		}
	}
	return []string{"-chardev", "socket,id=tpm,path=" + socket, "-tpmdev", "emulator,id=tpm0,chardev=tpm", "-device", "tpm-crb,tpmdev=tpm0"}
}

// showed says whether the console has a text.
func (g *guest) showed(text string) error {
	b, err := os.ReadFile(g.console)
	if err == nil && !bytes.Contains(b, []byte(text)) {
		err = fmt.Errorf("the console does not say %q", text)
	}
	return err
}

func (g *guest) shows(text string) {
	g.t.Helper()
	if err := g.showed(text); err != nil {
		g.t.Error(err)
	}
}

// isVault sees that the state of a machine is on its disk as a LUKS volume alone,
// and that the recovery key is nowhere.
func isVault(t *testing.T, where string) {
	t.Helper()
	f, state := partition(t, where, 6)
	defer f.Close()
	head := make([]byte, 8)
	if _, err := state.ReadAt(head, 0); err != nil || !bytes.HasPrefix(head, []byte("LUKS\xba\xbe\x00\x02")) {
		t.Errorf("the partition %s begins with %q, %v", vault.Partition, head, err)
	}
	const step = 16 << 20
	chunk := make([]byte, step+len(recoveryKey))
	for at := int64(0); ; at += step {
		n, err := f.ReadAt(chunk, at)
		if i := bytes.Index(chunk[:n], []byte(recoveryKey)); i >= 0 {
			t.Fatalf("the recovery key is on the disk, at %d", at+int64(i))
		}
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	offset, length, err := esp.Locate(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := esp.Get(f, offset, length, config.ESPPath); err != nil || !bytes.Contains(b, []byte("encryption: {}")) {
		t.Errorf("on the EFI system partition is %q, %v", b, err)
	}
}
