//go:build image

package image

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/writ-os/writ/image/build"
	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/lock"
)

// parts are the inputs of builds: the locked packages, fetched if they have to
// be, and programs.
type parts struct {
	lock     *lock.Lock
	cache    string
	programs build.Programs
}

func newParts(t *testing.T) *parts {
	t.Helper()
	f, err := os.Open("../../image/packages.lock")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	p := &parts{}
	if p.lock, err = lock.Parse("packages.lock", f); err != nil {
		t.Fatal(err)
	}
	if p.cache, err = lock.Dir(); err != nil {
		t.Fatal(err)
	}
	if err := lock.Fetch(t.Context(), lock.Fetching{Dir: p.cache}, p.lock); err != nil {
		t.Skipf("the packages of the image cannot be fetched: %v", err)
	}
	p.programs = programs(t)
	return p
}

// programs builds our own ones, as the Makefile does.
func programs(t *testing.T) build.Programs {
	t.Helper()
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	p := build.Programs{Writ: at("writ"), Containerd: at("containerd"), Shim: at("containerd-shim-runc-v2"), Init: at("init")}
	goBuild(t, "../..", p.Writ, "./cmd/writ", "-ldflags=-s -w -funcalign=16 -X main.version=v0.0.0-test -X main.commit=test")
	goBuild(t, "../../image/containerd", p.Containerd, ".")
	goBuild(t, "../../image/containerd", p.Shim, "./shim")
	goBuild(t, "../..", p.Init, "./image/initrd/init")
	return p
}

func goBuild(t *testing.T, dir, out, pkg string, flags ...string) {
	t.Helper()
	cmd := exec.Command("go", append(append([]string{"build", "-trimpath", "-ldflags=-s -w", "-o", out}, flags...), pkg)...)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=-buildvcs=false")
	if b, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", pkg, err, b)
	}
}

// version is an image that was built.
type version struct {
	*build.Result
	dir string
}

func (p *parts) build(t *testing.T, name string, level bundle.Level) version {
	t.Helper()
	begin, dir := time.Now(), t.TempDir()
	r, err := build.Build(t.Context(), build.Config{Version: name, Lock: p.lock, Cache: p.cache, Out: dir, Programs: p.programs,
		Epoch: time.Unix(1750000000, 0), Level: level})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%6.1f s  version %s is built", time.Since(begin).Seconds(), name)
	return version{r, dir}
}

func (v version) path(suffix string) string {
	return filepath.Join(v.dir, "writ-"+v.Version+"-"+build.Arch+suffix)
}

// digest of the bundle, and its size in bytes, as a NodeImage declares them.
func (v version) digest(t *testing.T) (string, int64) {
	t.Helper()
	f, err := os.Open(v.path(".bundle"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	h := sha256.New()
	n, err := io.Copy(h, f)
	if err != nil {
		t.Fatal(err)
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil)), n
}

// disk unpacks the disk, larger than it comes: the first start makes /var of
// the rest.
func (v version) disk(t *testing.T) string {
	t.Helper()
	in, err := os.Open(v.path(".raw.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	z, err := zstd.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	name := filepath.Join(t.TempDir(), "disk.raw")
	out, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer out.Close()
	if _, err := io.Copy(out, z); err != nil {
		t.Fatal(err)
	}
	if err := out.Truncate(6 << 30); err != nil {
		t.Fatal(err)
	}
	return name
}
