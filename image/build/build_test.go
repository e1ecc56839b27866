package build

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/lock/locktest"
)

// programs builds the initrd's program, which stands for the others too.
func programs(t *testing.T, dir string) Programs {
	t.Helper()
	p := filepath.Join(dir, "init")
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", p, "../initrd/init")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return Programs{Writ: p, Containerd: p, Shim: p, Init: p}
}

// sumsOf are the sums of a result, by name.
func sumsOf(r *Result) map[string]string {
	out := map[string]string{}
	for _, f := range r.Files {
		out[f.Name] = f.SHA256
	}
	return out
}

// TestReproducible builds twice, in other directories and of programs that
// were built twice, and compares.
func TestReproducible(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a minute")
	}
	l, cache := locktest.Cached(t)
	signer := testSigner(t)
	build := func() (*Result, string) {
		dir := t.TempDir()
		r, err := Build(context.Background(), Config{Version: "1.2.3", Lock: l, Cache: cache, Out: filepath.Join(dir, "out"),
			Programs: programs(t, dir), Epoch: time.Unix(1750000000, 0), Signer: signer, Level: bundle.Quick})
		if err != nil {
			t.Fatal(err)
		}
		return r, filepath.Join(dir, "out")
	}
	a, dirA := build()
	b, dirB := build()
	if !maps.Equal(sumsOf(a), sumsOf(b)) || a.RootHash != b.RootHash {
		t.Errorf("two builds differ:\n%v\n%v", sumsOf(a), sumsOf(b))
	}
	for _, name := range []string{SumsFile, SignatureFile} {
		x, errX := os.ReadFile(filepath.Join(dirA, name))
		y, errY := os.ReadFile(filepath.Join(dirB, name))
		if errX != nil || errY != nil || !bytes.Equal(x, y) {
			t.Errorf("%s differs: %v, %v", name, errX, errY)
		}
	}
	left, err := os.ReadDir(dirA)
	if err != nil || len(left) != len(a.Files)+2 {
		t.Errorf("in the directory: %v, %v", left, err)
	}
	checkBill(t, filepath.Join(dirA, "writ-1.2.3-amd64"+sbomSuffix))
	for _, s := range a.Steps {
		t.Logf("%8.1f ms  %s", s.Millis, s.Step)
	}
	for _, f := range a.Files {
		t.Logf("%8.2f MB  %s", float64(f.Size)/1e6, f.Name)
	}
}

// checkBill finds a package, a module, and nothing that others refer to and
// that is not there.
func checkBill(t *testing.T, path string) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var b bill
	if err := json.Unmarshal(data, &b); err != nil {
		t.Fatal(err)
	}
	names, ids := map[string]billPackage{}, map[string]bool{b.ID: true}
	for _, p := range b.Packages {
		if ids[p.ID] {
			t.Errorf("%s is there twice", p.ID)
		}
		names[p.Name], ids[p.ID] = p, true
	}
	for _, r := range b.Relationships {
		if !ids[r.Element] || !ids[r.Related] {
			t.Errorf("%+v leads nowhere", r)
		}
	}
	for _, name := range []string{"systemd", "libc6", "runc", "ca-certificates", "systemd-boot-efi", "golang.org/x/sys", "std"} {
		if names[name].Version == "" {
			t.Errorf("%s is missing", name)
		}
	}
	if p := names["systemd"]; len(p.Checksums) != 1 || p.Declared == unknown {
		t.Errorf("systemd: %+v", p)
	}
	for _, tool := range []string{"erofs-utils", "libdeflate0"} {
		if _, ok := names[tool]; ok {
			t.Errorf("%s builds the image and is not in it", tool)
		}
	}
}
