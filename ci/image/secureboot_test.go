//go:build image

package image

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/writ-os/writ/image/build"
	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/esp"
	"github.com/writ-os/writ/image/uki"
)

// kernelFile is the kernel image of a disk that was never updated.
const kernelFile = "EFI/Linux/writ_1.efi"

// TestSecureBoot enrols keys into a firmware that has none, starts a node from a
// signed image, and nothing else.
func TestSecureBoot(t *testing.T) {
	if testing.Short() {
		t.Skip("it starts a machine four times")
	}
	emulator(t)
	uefi := secureFirmware(t)
	by, stranger := secureBoot(t)
	v := newParts(t).sign(t, "1.0.0", by)
	signed := kernelOf(t, v)
	if err := uki.Verify(signed, []*x509.Certificate{by.Certificate}); err != nil {
		t.Errorf("the kernel image that a node is updated with: %v", err)
	}
	repo := newRepository(t)
	repo.write("readers.yaml", readers)
	repo.publish("Let everybody read")
	disk := v.disk(t)
	configure(t, disk, fmt.Sprintf("role: server\nunsignedImages: true\nnodeName: one\nrepository: {url: %q}\n", repo.url+"/git/cluster.git"))

	t.Run("signed", func(t *testing.T) {
		g := start(t, disk, uefi...)
		g.ready(10*time.Minute, "one")
		g.kernelSays("Secure boot enabled", "Kernel is locked down from EFI Secure Boot", "secureboot: Secure boot enabled")
	})
	// Same machine, same firmware, other kernel images in the same place.
	unsigned, err := uki.Unsign(signed)
	if err != nil {
		t.Fatal(err)
	}
	tampered := bytes.Clone(signed)
	at := bytes.Index(tampered, []byte("roothash="))
	tampered[at+len("roothash=")] ^= 1
	foreign, err := uki.Sign(unsigned, stranger.Key, stranger.Certificate)
	if err != nil {
		t.Fatal(err)
	}
	for name, kernel := range map[string][]byte{"unsigned": unsigned, "tampered with": tampered, "signed by a stranger": foreign} {
		t.Run(name, func(t *testing.T) {
			put(t, disk, kernelFile, kernel)
			start(t, disk, uefi...).refused(3 * time.Minute)
		})
	}
}

// secureBoot are keys to sign with, which a firmware that has none takes on the
// first start; and those of somebody whom it does not know.
func secureBoot(t *testing.T) (*build.SecureBoot, uki.Pair) {
	t.Helper()
	pairs := map[string]uki.Pair{}
	for _, name := range []string{"PK", "KEK", "db", "stranger"} {
		p, err := uki.NewPair(name, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		pairs[name] = p
	}
	db := pairs["db"]
	keys, err := uki.Enrol(pairs["PK"], pairs["KEK"], []*x509.Certificate{db.Certificate}, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	return &build.SecureBoot{Key: db.Key, Certificate: db.Certificate, Enrol: keys, EnrolForce: true}, pairs["stranger"]
}

// secureFirmware is a UEFI with Secure Boot and variables of its own, in which
// nobody has enrolled keys yet.
func secureFirmware(t *testing.T) []string {
	t.Helper()
	args := firmware(t)
	const plain, secure = "OVMF_CODE_4M.fd", "OVMF_CODE_4M.secboot.fd"
	if _, err := os.Stat(filepath.Join("/usr/share/OVMF", secure)); err != nil {
		t.Skipf("OVMF with Secure Boot is not installed: apt-get install ovmf (%v)", err)
	}
	for i := range args {
		args[i] = strings.Replace(args[i], plain, secure, 1)
	}
	// Only the firmware itself, in its own mode of the processor, writes variables.
	return append(args, "-machine", "smm=on", "-global", "driver=cfi.pflash01,property=secure,value=on", "-global", "ICH9-LPC.disable_s3=1")
}

// sign builds a version whose boot is signed.
func (p *parts) sign(t *testing.T, name string, by *build.SecureBoot) version {
	t.Helper()
	dir := t.TempDir()
	r, err := build.Build(t.Context(), build.Config{Version: name, Lock: p.lock, Cache: p.cache, Out: dir, Programs: p.programs,
		Epoch: time.Unix(1750000000, 0), Level: bundle.Quick, SecureBoot: by})
	if err != nil {
		t.Fatal(err)
	}
	return version{r, dir}
}

// put writes a file into the EFI system partition.
func put(t *testing.T, disk, path string, data []byte) {
	t.Helper()
	f, err := os.OpenFile(disk, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		t.Fatal(err)
	}
	offset, length, err := esp.Locate(f, size)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(esp.Put(f, offset, length, path, data), f.Close()); err != nil {
		t.Fatal(err)
	}
}

// kernelSays waits until the log of the kernel has one of the lines.
func (g *guest) kernelSays(lines ...string) {
	g.t.Helper()
	g.eventually(time.Minute, "the kernel says "+lines[0], func() error {
		b, err := g.read(fmt.Sprintf("https://127.0.0.1:%d/api/v1/nodes/one/proxy/logs/?query=kernel", g.api))
		if err != nil {
			return err
		}
		for _, l := range lines {
			if !bytes.Contains(b, []byte(l)) {
				return fmt.Errorf("it does not say %q: %.20000s", l, b)
			}
		}
		return nil
	})
}

// refused waits until the firmware has refused to start the kernel image, and
// sees that no kernel has started.
func (g *guest) refused(limit time.Duration) {
	g.t.Helper()
	g.eventually(limit, "the firmware refuses it", func() error {
		b, err := os.ReadFile(g.console)
		if err != nil {
			return err
		}
		said := strings.ToLower(string(b))
		if !strings.Contains(said, "access denied") && !strings.Contains(said, "security violation") {
			return errors.New("the console does not say so")
		}
		if strings.Contains(said, "root file system") {
			g.t.Fatal("it was started")
		}
		return nil
	})
}
