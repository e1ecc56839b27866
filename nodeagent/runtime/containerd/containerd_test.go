package containerd

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/nodeagent/cgroup"
	"github.com/writ-os/writ/nodeagent/crilog"
	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/nodeagent/runtime"
	"github.com/writ-os/writ/nodeagent/runtime/conformance"
)

// machineLacks says why there can be no containers here, or "".
func machineLacks() string {
	if os.Geteuid() != 0 {
		return "not root"
	}
	for _, bin := range []string{"containerd", "runc", "containerd-shim-runc-v2"} {
		if _, err := exec.LookPath(bin); err != nil {
			return bin + " is not installed"
		}
	}
	return ""
}

// testNode is a data directory with a daemon of its own; what it leaves behind
// is an error.
type testNode struct {
	dir, run, group string
	cgroups         *cgroup.Manager
	mirrors         func(string) []string
	endpoint        func(string) *image.Endpoint
}

func newTestNode(t testing.TB) *testNode {
	t.Helper()
	if why := machineLacks(); why != "" {
		t.Skip(why)
	}
	run, err := os.MkdirTemp("/run", "writ-test-")
	if err != nil {
		t.Fatal(err)
	}
	cg, err := cgroup.New("")
	if err != nil {
		t.Fatal(err)
	}
	n := &testNode{dir: t.TempDir(), run: run, group: "/" + filepath.Base(run), cgroups: cg}
	t.Cleanup(func() { n.clean(t) })
	return n
}

// clean stops the daemon and checks that nothing of it lives on.
func (n *testNode) clean(t testing.TB) {
	d := &daemon{cfg: n.config()}
	if pid, ok := d.running(); ok {
		_ = syscall.Kill(pid, syscall.SIGTERM)
		for range 500 {
			if _, ok := d.running(); !ok {
				break
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	if out, err := exec.Command("pgrep", "-f", n.run).Output(); err == nil {
		t.Errorf("processes are left behind: %s", out)
	}
	if b, err := os.ReadFile("/proc/self/mountinfo"); err == nil {
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) > 4 && (strings.HasPrefix(f[4], n.run) || strings.HasPrefix(f[4], n.dir)) {
				t.Errorf("mount is left behind: %s", f[4])
				_ = unix.Unmount(f[4], unix.MNT_DETACH)
			}
		}
	}
	if err := n.cgroups.Remove(n.group); err != nil {
		t.Error(err)
	}
	if err := os.RemoveAll(n.run); err != nil {
		t.Error(err)
	}
}

func (n *testNode) config() Config {
	return Config{DataDir: n.dir, RunDir: n.run, OwnDaemon: true, Namespace: "writ", Binary: "containerd", Cgroups: n.cgroups, Logs: crilog.Limits{}, Mirrors: n.mirrors, Endpoint: n.endpoint, Log: newTestLog()}
}

// start runs a runtime until the test, or stop, ends it.
func (n *testNode) start(t testing.TB) (*Runtime, func()) {
	t.Helper()
	r := New(n.config())
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx) }()
	stopped := false
	stop := func() {
		if !stopped {
			stopped = true
			cancel()
			if err := <-done; err != nil {
				t.Errorf("run: %v", err)
			}
		}
	}
	t.Cleanup(stop)
	select {
	case <-r.Ready():
	case err := <-done:
		t.Fatalf("run: %v", err)
	case <-time.After(30 * time.Second):
		t.Fatal("runtime did not become ready")
	}
	return r, stop
}

func (n *testNode) withImages(t testing.TB, r *Runtime) {
	t.Helper()
	if _, err := image.ImportShipped(t.Context(), r, conformance.Program(t)); err != nil {
		t.Fatal(err)
	}
}

func TestConformance(t *testing.T) {
	n := newTestNode(t)
	r, _ := n.start(t)
	n.withImages(t, r)
	conformance.Suite(t, r, n.group)
}

// container is one with a log, in a sandbox of its own.
func (n *testNode) container(t testing.TB, r *Runtime, change func(*runtime.Spec)) (runtime.Container, string) {
	t.Helper()
	uid := fmt.Sprintf("uid-%d", time.Now().UnixNano())
	err := r.EnsureSandbox(t.Context(), runtime.SandboxSpec{PodUID: uid, Namespace: "default", Name: "p", Hostname: "p", CgroupParent: n.group})
	if err != nil {
		t.Fatal(err)
	}
	s := runtime.Spec{PodUID: uid, PodNamespace: "default", PodName: "p", Name: "c", Image: image.Pause, CgroupParent: n.group,
		LogPath: filepath.Join(n.dir, "logs", uid, "0.log"), Resources: runtime.Resources{OOMScoreAdj: -997}}
	if change != nil {
		change(&s)
	}
	id, err := r.Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Start(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	for _, c := range must(r.List(t.Context(), uid)) {
		if c.ID == id {
			return c, s.LogPath
		}
	}
	t.Fatal("the container is not listed")
	return runtime.Container{}, ""
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func (n *testNode) remove(t testing.TB, r *Runtime, c runtime.Container) {
	t.Helper()
	if err := errors.Join(r.Remove(context.Background(), c.ID), r.RemoveSandbox(context.Background(), c.PodUID)); err != nil {
		t.Error(err)
	}
}

func readLog(t testing.TB, path string) string {
	t.Helper()
	var out bytes.Buffer
	if err := crilog.Read(t.Context(), path, crilog.Options{Tail: -1}, &out); err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	return out.String()
}

func awaitLog(t testing.TB, path string, ok func(string) bool) {
	t.Helper()
	for range 3000 {
		if ok(readLog(t, path)) {
			return
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatalf("log: %.300q", readLog(t, path))
}
