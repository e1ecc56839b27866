package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	goruntime "runtime"
	"strings"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/nodeagent/runtime"
)

// A sandbox is a directory RunDir/pods/<uid>: ipc and uts are namespaces bound
// there, shm is the containers' /dev/shm, the others are notes for the agent that
// comes back.
const (
	fileIPC   = "ipc"
	fileUTS   = "uts"
	fileShm   = "shm"
	filePID   = "pid-"   // and the ID of a container: the PID namespace that others join
	fileNet   = "netns"  // the path of the network namespace
	filePause = "pause"  // the ID of the pause container
	fileReady = "ready"  // everything is there
	fileHost  = "hostns" // the namespaces of the host that the pod uses
	fileGroup = "cgroup" // the pod's cgroup
	fileSysct = "sysctls"
)

func (r *Runtime) sandboxDir(uid string) string { return filepath.Join(r.cfg.RunDir, "pods", uid) }

// Sandbox says since when the sandbox is complete and its namespaces are
// mounted.
func (r *Runtime) Sandbox(_ context.Context, uid string) (time.Time, error) {
	dir := r.sandboxDir(uid)
	fi, err := os.Stat(filepath.Join(dir, fileReady))
	if err != nil {
		return time.Time{}, nil
	}
	hostns := r.note(uid, fileHost)
	for _, ns := range []string{fileIPC, fileUTS} {
		if !strings.Contains(hostns, ns) && !isNamespace(filepath.Join(dir, ns)) {
			return time.Time{}, nil
		}
	}
	if n := r.note(uid, fileNet); n != "" && !isNamespace(n) {
		return time.Time{}, nil
	}
	if id := r.note(uid, filePause); id != "" {
		if rec := r.record(id); rec == nil || rec.get().State != runtime.Running {
			return time.Time{}, nil
		}
	}
	return fi.ModTime(), nil
}

// EnsureSandbox makes what is missing of a sandbox.
func (r *Runtime) EnsureSandbox(ctx context.Context, s runtime.SandboxSpec) error {
	ctx, err := r.await(ctx)
	if err != nil {
		return err
	}
	if since, err := r.Sandbox(ctx, s.PodUID); err != nil || !since.IsZero() {
		return err
	}
	if err := r.RemoveSandbox(ctx, s.PodUID); err != nil {
		return err
	}
	dir := r.sandboxDir(s.PodUID)
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return fmt.Errorf("make sandbox: %w", err)
	}
	if err := r.makeSandbox(ctx, dir, s); err != nil {
		return fmt.Errorf("make sandbox of pod %s/%s: %w", s.Namespace, s.Name, err)
	}
	return nil
}

func (r *Runtime) makeSandbox(ctx context.Context, dir string, s runtime.SandboxSpec) error {
	var hostns []string
	want := []string{}
	if s.HostIPC {
		hostns = append(hostns, fileIPC)
	} else {
		want = append(want, fileIPC)
	}
	if s.NetNS == "" {
		hostns = append(hostns, fileUTS)
	} else {
		want = append(want, fileUTS)
	}
	if s.HostPID {
		hostns = append(hostns, "pid")
	}
	if err := makeNamespaces(dir, want, s.Hostname); err != nil {
		return err
	}
	if !s.HostIPC {
		if err := mountShm(filepath.Join(dir, fileShm), s.ShmSize); err != nil {
			return err
		}
	}
	var sysctls strings.Builder
	for k, v := range s.Sysctls {
		fmt.Fprintf(&sysctls, "%s=%s\n", k, v)
	}
	for name, text := range map[string]string{
		fileNet: s.NetNS, fileHost: strings.Join(hostns, " "), fileGroup: s.CgroupParent, fileSysct: sysctls.String(),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			return err
		}
	}
	if s.ShareProcesses {
		id, err := r.startPause(ctx, s)
		if err != nil {
			return fmt.Errorf("start pause: %w", err)
		}
		if err := os.WriteFile(filepath.Join(dir, filePause), []byte(id), 0o600); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(dir, fileReady), nil, 0o600)
}

// startPause runs the first process of a PID namespace.
func (r *Runtime) startPause(ctx context.Context, s runtime.SandboxSpec) (string, error) {
	id, err := r.create(ctx, runtime.Spec{
		PodUID: s.PodUID, PodNamespace: s.Namespace, PodName: s.Name, Name: "POD",
		Image: s.PauseImage, CgroupParent: s.CgroupParent,
		Resources: runtime.Resources{CPUShares: 2, OOMScoreAdj: -998},
	}, true)
	if err != nil {
		return "", err
	}
	return id, r.Start(ctx, id)
}

// RemoveSandbox unmounts and deletes a sandbox.
func (r *Runtime) RemoveSandbox(ctx context.Context, uid string) error {
	dir := r.sandboxDir(uid)
	r.mu.Lock()
	var pauses []string
	for id, rec := range r.containers {
		if rec.pause && rec.c.PodUID == uid {
			pauses = append(pauses, id)
		}
	}
	r.mu.Unlock()
	for _, id := range pauses {
		if err := r.Remove(ctx, id); err != nil {
			return err
		}
	}
	names := []string{fileIPC, fileUTS, fileShm}
	if held, err := filepath.Glob(filepath.Join(dir, filePID+"*")); err == nil {
		for _, h := range held {
			names = append(names, filepath.Base(h))
		}
	}
	for _, name := range names {
		err := unix.Unmount(filepath.Join(dir, name), unix.MNT_DETACH)
		if err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			return fmt.Errorf("unmount %s of sandbox %s: %w", name, uid, err)
		}
	}
	if err := os.RemoveAll(dir); err != nil {
		return fmt.Errorf("remove sandbox: %w", err)
	}
	return nil
}

// Sandboxes returns the pods that have a directory, complete or not.
func (r *Runtime) Sandboxes(context.Context) ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(r.cfg.RunDir, "pods"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("list sandboxes: %w", err)
	}
	var out []string
	for _, e := range entries {
		out = append(out, e.Name())
	}
	return out, nil
}

// namespaces returns those of a container in a sandbox.
func (r *Runtime) namespaces(uid string, pause bool, target string) ([]specs.LinuxNamespace, error) {
	hostns := r.note(uid, fileHost)
	out := []specs.LinuxNamespace{{Type: specs.MountNamespace}}
	if n := r.note(uid, fileNet); n != "" {
		out = append(out, specs.LinuxNamespace{Type: specs.NetworkNamespace, Path: n})
	}
	if !strings.Contains(hostns, fileIPC) {
		out = append(out, specs.LinuxNamespace{Type: specs.IPCNamespace, Path: filepath.Join(r.sandboxDir(uid), fileIPC)})
	}
	if !strings.Contains(hostns, fileUTS) {
		out = append(out, specs.LinuxNamespace{Type: specs.UTSNamespace, Path: filepath.Join(r.sandboxDir(uid), fileUTS)})
	}
	if strings.Contains(hostns, "pid") {
		return out, nil
	}
	ns := specs.LinuxNamespace{Type: specs.PIDNamespace}
	if id := r.note(uid, filePause); id != "" && !pause {
		rec := r.record(id)
		if rec == nil || rec.get().State != runtime.Running {
			return nil, fmt.Errorf("the sandbox's first process has ended")
		}
		path, err := r.holdProcesses(uid, id, rec)
		if err != nil {
			return nil, err
		}
		ns.Path = path
	} else if target != "" && !pause {
		rec := r.record(target)
		if rec == nil || rec.get().State != runtime.Running {
			return nil, fmt.Errorf("the container whose processes are to be seen, %s, does not run", target)
		}
		path, err := r.holdProcesses(uid, target, rec)
		if err != nil {
			return nil, err
		}
		ns.Path = path
	}
	return append(out, ns), nil
}

func (r *Runtime) sysctls(uid string) map[string]string {
	out := map[string]string{}
	for line := range strings.Lines(r.note(uid, fileSysct)) {
		if k, v, ok := strings.Cut(strings.TrimSpace(line), "="); ok {
			out[k] = v
		}
	}
	return out
}

func (r *Runtime) note(uid, name string) string {
	b, _ := os.ReadFile(filepath.Join(r.sandboxDir(uid), name))
	return string(b)
}

// makeNamespaces makes new namespaces and binds them to files, so that they
// live without a process.
func makeNamespaces(dir string, names []string, hostname string) error {
	if len(names) == 0 {
		return nil
	}
	flags := 0
	for _, n := range names {
		if err := os.WriteFile(filepath.Join(dir, n), nil, 0o600); err != nil {
			return err
		}
		flags |= map[string]int{fileIPC: unix.CLONE_NEWIPC, fileUTS: unix.CLONE_NEWUTS}[n]
	}
	done := make(chan error, 1)
	go func() {
		// The thread is in the new namespaces for good: it is never unlocked, and
		// so ends with the goroutine.
		goruntime.LockOSThread()
		done <- func() error {
			if err := unix.Unshare(flags); err != nil {
				return fmt.Errorf("make namespaces: %w", err)
			}
			if flags&unix.CLONE_NEWUTS != 0 {
				if err := unix.Sethostname([]byte(hostname)); err != nil {
					return fmt.Errorf("set hostname: %w", err)
				}
			}
			for _, n := range names {
				from := fmt.Sprintf("/proc/self/task/%d/ns/%s", unix.Gettid(), n)
				if err := unix.Mount(from, filepath.Join(dir, n), "", unix.MS_BIND, ""); err != nil {
					return fmt.Errorf("bind %s namespace: %w", n, err)
				}
			}
			return nil
		}()
	}()
	return <-done
}

func mountShm(dir string, size int64) error {
	if size == 0 {
		size = 64 << 20
	}
	if err := os.MkdirAll(dir, 0o1777); err != nil {
		return err
	}
	err := unix.Mount("shm", dir, "tmpfs", unix.MS_NOEXEC|unix.MS_NOSUID|unix.MS_NODEV, fmt.Sprintf("mode=1777,size=%d", size))
	if err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	return nil
}

// isNamespace says whether a namespace is bound to a file.
func isNamespace(path string) bool {
	var st unix.Statfs_t
	return unix.Statfs(path, &st) == nil && st.Type == unix.NSFS_MAGIC
}
