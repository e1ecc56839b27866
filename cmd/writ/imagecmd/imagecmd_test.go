package imagecmd

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/ssh"

	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/config"
	"github.com/writ-os/writ/image/disk"
	"github.com/writ-os/writ/image/esp"
	"github.com/writ-os/writ/image/gpt"
	"github.com/writ-os/writ/image/slot/sim"
	"github.com/writ-os/writ/image/vault/mark"
	"github.com/writ-os/writ/image/verity"
)

func newVersion(t *testing.T) *sim.Version {
	t.Helper()
	v, err := sim.NewVersion("v1.2.3")
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// newDisk is an image as a build makes it, of a small version.
func newDisk(t *testing.T) string {
	t.Helper()
	v := newVersion(t)
	hash, err := hex.DecodeString(v.RootHash)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "disk.raw")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := disk.Assemble(f, disk.Parts{Version: v.Version, Seed: "test", Root: bytes.NewReader(v.Root), RootSize: int64(len(v.Root)),
		Tree: verity.Tree{RootHash: verity.Hash(hash), Bytes: v.Tree}, ESP: []esp.File{{Path: firstKernel, Data: v.UKI}}}); err != nil {
		t.Fatal(err)
	}
	return path
}

func write(t *testing.T, name string, data []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
	return path
}

const node = "role: server\nnodeName: one\n"

func TestConfigureAndInspect(t *testing.T) {
	path := newDisk(t)
	r, err := Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	if r.Kind != Disk || r.Version != "v1.2.3" || r.RootHash == "" || len(r.Partitions) != 5 || r.Configured == nil || *r.Configured {
		t.Errorf("%+v", r)
	}
	for _, content := range []string{"role: server\nnodeName: before\n", node} {
		n, findings, err := Configure(path, write(t, "node.yaml", []byte(content)))
		if err != nil || len(findings) > 0 || n.Role != config.Server {
			t.Fatalf("%v, %v, %v", n, findings, err)
		}
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	offset, size, err := esp.Locate(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	if b, err := esp.Get(f, offset, size, config.ESPPath); err != nil || string(b) != node {
		t.Errorf("%q, %v", b, err)
	}
	if r, err = Inspect(path); err != nil || !*r.Configured {
		t.Errorf("%+v, %v", r, err)
	}
	var text bytes.Buffer
	if err := r.Write(&text); err != nil || !strings.Contains(text.String(), "yes: it has a node.yaml") {
		t.Errorf("%v\n%s", err, &text)
	}
	if _, err := Verify(path, Trust{}); err != nil {
		t.Errorf("a configured disk is verified: %v", err)
	}
}

func TestConfigureRefuses(t *testing.T) {
	path := newDisk(t)
	before, err := Inspect(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, findings, err := Configure(path, write(t, "node.yaml", []byte("rol: server\n"))); err != nil || len(findings) == 0 {
		t.Errorf("%v, %v", findings, err)
	}
	if after, err := Inspect(path); err != nil || *after.Configured != *before.Configured {
		t.Errorf("something was written: %v", err)
	}
	good := write(t, "node.yaml", []byte(node))
	for name, want := range map[string]string{"QFI\xfb": "qcow2", "\x28\xb5\x2f\xfd": "zstd -d", "nothing": "neither"} {
		image := write(t, "image", append([]byte(name), make([]byte, 1024)...))
		if _, _, err := Configure(image, good); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
}

func TestVerifyDisk(t *testing.T) {
	path := newDisk(t)
	if _, err := Verify(path, Trust{}); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		t.Fatal(err)
	}
	table, err := gpt.Parse(f, info.Size())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("x"), table.Partitions[disk.RootA-1].Offset()+5000); err != nil {
		t.Fatal(err)
	}
	if _, err := Verify(path, Trust{}); err == nil {
		t.Error("a block that was changed is not found")
	}
}

func TestVerifyBundleAndDirectory(t *testing.T) {
	signer, err := ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	line := "release@example.com " + string(ssh.MarshalAuthorizedKey(signer.PublicKey()))
	keys, err := bundle.ParseKeys("keys", []byte(line))
	if err != nil {
		t.Fatal(err)
	}
	b, err := newVersion(t).Bundle(signer)
	if err != nil {
		t.Fatal(err)
	}
	path := write(t, "writ.bundle", b)
	if p, err := Verify(path, Trust{Keys: keys}); err != nil || p.Signer != "release@example.com" {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := Verify(path, Trust{Digest: fmt.Sprintf("sha256:%x", sha256.Sum256(b))}); err != nil {
		t.Error(err)
	}
	if _, err := Verify(path, Trust{}); err == nil || !strings.Contains(err.Error(), "--keys or --digest") {
		t.Errorf("nothing vouches: %v", err)
	}
	if r, err := Inspect(path); err != nil || r.Kind != Bundle || r.Version != "v1.2.3" || len(r.Files) != 3 {
		t.Errorf("%+v, %v", r, err)
	}
	damaged := bytes.Clone(b)
	damaged[len(b)/2] ^= 1
	if _, err := Verify(write(t, "writ.bundle", damaged), Trust{Keys: keys}); err == nil {
		t.Error("a damaged bundle is proven")
	}

	dir := filepath.Dir(path)
	put := func(name, data string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(data), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	put("SHA256SUMS", fmt.Sprintf("%x  writ.bundle\n", sha256.Sum256(b)))
	if p, err := Verify(dir, Trust{}); err != nil || len(p.Proven) != 1 {
		t.Errorf("%+v, %v", p, err)
	}
	if _, err := Verify(dir, Trust{Keys: keys}); err == nil || !strings.Contains(err.Error(), "without a key") {
		t.Errorf("sums without a signature: %v", err)
	}
	put("SHA256SUMS", fmt.Sprintf("%064x  writ.bundle\n", 1))
	if _, err := Verify(dir, Trust{}); err == nil || !strings.Contains(err.Error(), "is damaged") {
		t.Errorf("another sum: %v", err)
	}
	put("SHA256SUMS", fmt.Sprintf("%064x  ../writ.bundle\n", 1))
	if _, err := Verify(dir, Trust{}); err == nil || !strings.Contains(err.Error(), "line 1") {
		t.Errorf("a path: %v", err)
	}
}

// TestConfigureEncryption marks the disk, and takes the mark back.
func TestConfigureEncryption(t *testing.T) {
	path := newDisk(t)
	marked := func(want string) {
		t.Helper()
		d, err := openDisk(path)
		if err != nil {
			t.Fatal(err)
		}
		got, err := esp.Get(d.file, d.offset, d.length, mark.CredentialPath)
		if string(got) != want || err != nil && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the disk is marked %q, want %q: %v", got, want, err)
		}
		if err := d.close(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ more, want string }{
		{"", ""},
		{"encryption: {recoveryKey: 0123456789abcdef0123456789abcdef}\n", mark.Asked},
		{"encryption: {recoveryKey: fedcba9876543210fedcba9876543210}\n", mark.Asked},
		{"", mark.NotAsked},
	} {
		if _, findings, err := Configure(path, write(t, "node.yaml", []byte(node+c.more))); err != nil || len(findings) > 0 {
			t.Fatalf("%v, %v", findings, err)
		}
		marked(c.want)
	}
	if _, _, err := Configure(path, write(t, "node.yaml", []byte(node+"encryption: {}\n"))); err == nil || !strings.Contains(err.Error(), "encryption needs its recoveryKey here") {
		t.Errorf("without a recovery key: %v", err)
	}
	marked(mark.NotAsked)
}
