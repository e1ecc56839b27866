//go:build image

package image

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/ci/freeport"
)

// host is the machine of the test as a guest sees it.
const host = "10.0.2.2"

// guest is a machine under QEMU. Its processor has no AVX, which is slower than
// none where it is emulated, and no CMPXCHG16B: QEMU 7.2
// emulates an interrupt right after it wrongly, and one kernel in three crashes.
type guest struct {
	t        *testing.T
	began    time.Time
	api, web int // ports of the host that lead to 6443 and 30080
	console  string
	http     *http.Client
	off      chan struct{} // closed when the machine is
}

// accelerator is an emulator: what the tests need is then the same everywhere,
// and a /dev/kvm that cannot run a firmware, as in some virtual machines, is in
// nobody's way. WRIT_TEST_KVM=1 takes KVM.
func accelerator() string {
	if os.Getenv("WRIT_TEST_KVM") == "1" {
		return "kvm"
	}
	return "tcg,thread=multi"
}

// emulator is the program, or a skip.
func emulator(t *testing.T) {
	t.Helper()
	if _, err := exec.LookPath("qemu-system-x86_64"); err != nil {
		t.Skip("qemu-system-x86_64 is not installed: apt-get install qemu-system-x86")
	}
}

// firmware is a UEFI with variables of its own, as arguments of QEMU.
func firmware(t *testing.T) []string {
	t.Helper()
	const code, vars = "/usr/share/OVMF/OVMF_CODE_4M.fd", "/usr/share/OVMF/OVMF_VARS_4M.fd"
	b, err := os.ReadFile(vars)
	if err != nil {
		t.Skipf("OVMF is not installed: apt-get install ovmf (%v)", err)
	}
	own := filepath.Join(t.TempDir(), "vars.fd")
	if err := os.WriteFile(own, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return []string{"-drive", "if=pflash,format=raw,readonly=on,file=" + code, "-drive", "if=pflash,format=raw,file=" + own}
}

// start turns on a machine with a network of its own.
func start(t *testing.T, disk string, args ...string) *guest {
	t.Helper()
	return startOn(t, disk, func(g *guest) []string {
		return []string{"-netdev", g.nat("n0"), "-device", "virtio-net-pci,netdev=n0"}
	}, args...)
}

// nat is a network behind the host, which reaches two ports of the guest at
// 10.0.2.15.
func (g *guest) nat(id string) string {
	return fmt.Sprintf("user,id=%s,hostfwd=tcp:127.0.0.1:%d-:6443,hostfwd=tcp:127.0.0.1:%d-:30080", id, g.api, g.web)
}

// startOn turns the machine on. It is turned off with the test.
func startOn(t *testing.T, disk string, network func(g *guest) []string, args ...string) *guest {
	t.Helper()
	g := &guest{t: t, api: freeport.Port(t), web: freeport.Port(t), console: filepath.Join(t.TempDir(), "console"), off: make(chan struct{}),
		http: &http.Client{Timeout: 10 * time.Second, Transport: &http.Transport{
			// Who answers on a port that the test has opened is the guest.
			TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // see above
		}}}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, "qemu-system-x86_64", append([]string{
		"-accel", accelerator(), "-M", "q35", "-cpu", "max,cx16=off,avx=off,avx2=off,arch-capabilities=off", "-smp", "2", "-m", "2G", "-nodefaults", "-no-user-config", "-display", "none",
		"-serial", "file:" + g.console, "-device", "virtio-rng-pci",
		"-drive", "file=" + disk + ",if=none,id=d0,format=raw,cache=unsafe", "-device", "virtio-blk-pci,drive=d0",
	}, append(network(g), args...)...)...)
	var said strings.Builder
	cmd.Stderr = &said
	g.began = time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = cmd.Wait()
		close(g.off)
	}()
	t.Cleanup(func() {
		cancel()
		<-g.off
		if t.Failed() {
			b, err := os.ReadFile(g.console)
			t.Logf("the console: %v\n%s\n%s", err, b, said.String())
		}
	})
	return g
}

// step prints how far the test is.
func (g *guest) step(format string, args ...any) {
	g.t.Helper()
	g.t.Logf("%6.1f s  %s", time.Since(g.began).Seconds(), fmt.Sprintf(format, args...))
}

// eventually tries until it works.
func (g *guest) eventually(limit time.Duration, what string, try func() error) {
	g.t.Helper()
	for began := time.Now(); ; {
		err := try()
		if err == nil {
			g.step("%s", what)
			return
		}
		if time.Since(began) > limit {
			g.t.Fatalf("%s: not within %v: %v", what, limit, err)
		}
		select {
		case <-g.off:
			g.t.Fatalf("%s: the machine is off: %v", what, err)
		case <-time.After(200 * time.Millisecond):
		}
	}
}

// get reads a path of the API.
func (g *guest) get(path string, into any) error {
	b, err := g.read(fmt.Sprintf("https://127.0.0.1:%d%s", g.api, path))
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(b, into)
}

func (g *guest) read(url string) ([]byte, error) {
	res, err := g.http.Get(url)
	if err != nil {
		return nil, err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(io.LimitReader(res.Body, 16<<20))
	if err == nil && res.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %.300s", res.Status, b)
	}
	return b, err
}

// node is a machine as the guest's cluster knows it.
func (g *guest) node(name string) (*corev1.Node, error) {
	var n corev1.Node
	return &n, g.get("/api/v1/nodes/"+name, &n)
}

var errNotReady = errors.New("the node is not ready")

// ready waits until the cluster answers, and says that a node is ready.
func (g *guest) ready(limit time.Duration, name string) {
	g.t.Helper()
	g.eventually(limit, "the API answers", func() error { return g.get("/readyz", nil) })
	g.eventually(limit, "the node "+name+" is ready", func() error {
		n, err := g.node(name)
		if err == nil && !ready(n) {
			err = errNotReady
		}
		return err
	})
}

func ready(n *corev1.Node) bool {
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// memory prints what the whole machine takes, as its node measures it.
func (g *guest) memory(name string) {
	g.t.Helper()
	var s struct {
		Node struct {
			Memory struct{ UsageBytes, WorkingSetBytes, RSSBytes float64 }
		}
	}
	g.eventually(time.Minute, "the node "+name+" is measured", func() error { return g.get("/api/v1/nodes/"+name+"/proxy/stats/summary", &s) })
	const mib = 1 << 20
	m := s.Node.Memory
	g.step("    memory: %.0f MiB in use with caches, %.0f MiB working set, %.0f MiB anonymous", m.UsageBytes/mib, m.WorkingSetBytes/mib, m.RSSBytes/mib)
}
