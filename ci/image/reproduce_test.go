//go:build image

package image

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/writ-os/writ/image/bundle"
	"github.com/writ-os/writ/image/uki"
)

// TestReproducible builds the image as it is released, twice, of programs that
// were built twice, in other directories; and starts it.
func TestReproducible(t *testing.T) {
	first := newParts(t).build(t, "1.0.0", bundle.Best)
	second := newParts(t).build(t, "1.0.0", bundle.Best)
	if a, b := sums(first), sums(second); !maps.Equal(a, b) || first.RootHash != second.RootHash {
		t.Errorf("two builds differ:\n%v\n%v", a, b)
	}
	for _, s := range first.Steps {
		t.Logf("%6.1f s  %s", s.Millis/1000, s.Step)
	}
	for _, f := range first.Files {
		t.Logf("%8.2f MB  %s", float64(f.Size)/1e6, f.Name)
	}
	emulator(t)
	repo := newRepository(t)
	repo.write("readers.yaml", readers)
	repo.publish("Let everybody read")
	node := fmt.Sprintf("role: server\nnodeName: one\nrepository: {url: %q}\n", repo.url+"/git/cluster.git")
	g := start(t, first.disk(t), append(direct(t, first), credential(t, node)...)...)
	g.ready(10*time.Minute, "one")
	g.memory("one")
}

// direct are the arguments by which QEMU starts the kernel of a version itself,
// without a firmware and its loader.
func direct(t *testing.T, v version) []string {
	t.Helper()
	image := kernelOf(t, v)
	s, err := uki.Read(image)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	kernel, initrd := filepath.Join(dir, "kernel"), filepath.Join(dir, "initrd")
	if err := errors.Join(os.WriteFile(kernel, s.Linux, 0o600), os.WriteFile(initrd, s.Initrd, 0o600)); err != nil {
		t.Fatal(err)
	}
	return []string{"-kernel", kernel, "-initrd", initrd, "-append", s.Cmdline}
}

// kernelOf is the kernel image in the bundle of a version.
func kernelOf(t *testing.T, v version) []byte {
	t.Helper()
	f, err := os.Open(v.path(".bundle"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	digest, size := v.digest(t)
	b, err := bundle.Read(f, bundle.Trust{Digest: digest, Size: size})
	if err != nil {
		t.Fatal(err)
	}
	var image []byte
	if err := b.Each(func(of bundle.File, r io.Reader) (err error) {
		if of.Name == bundle.UKI {
			image, err = io.ReadAll(r)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return image
}

func sums(v version) map[string]string {
	out := map[string]string{}
	for _, f := range v.Files {
		out[f.Name] = f.SHA256
	}
	return out
}

// credential tells a virtual machine who it is.
func credential(t *testing.T, node string) []string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "node.yaml")
	if err := os.WriteFile(name, []byte(node), 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"-fw_cfg", "name=opt/io.systemd.credentials/node.config,file=" + name}
}
