package containerd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// daemon finds a containerd, or starts one that outlives the agent.
type daemon struct {
	cfg    Config
	log    *slog.Logger
	socket string
	own    bool
	exited chan struct{} // closed when a child of ours ended
}

// startTimeout is how long an own daemon may take to answer.
const startTimeout = 30 * time.Second

// ensure returns the socket of a daemon that answers.
func (d *daemon) ensure(ctx context.Context) (string, error) {
	switch {
	case d.cfg.Socket != "":
		d.socket = d.cfg.Socket
		return d.socket, d.wait(ctx, startTimeout)
	case !d.cfg.OwnDaemon && answers(MachineSocket):
		d.socket = MachineSocket
		return d.socket, nil
	}
	d.own = true
	d.socket = filepath.Join(d.cfg.RunDir, "containerd.sock")
	return d.socket, d.start(ctx)
}

// keep starts an own daemon again when it has ended, but not more than once a
// second.
func (d *daemon) keep(ctx context.Context) error {
	if !d.own {
		<-ctx.Done()
		return nil
	}
	for {
		began := time.Now()
		if pid, ok := d.running(); ok {
			d.awaitEnd(ctx, pid)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(time.Second - time.Since(began)):
		}
		if _, ok := d.running(); ok { // somebody else was quicker, or nothing has ended
			continue
		}
		d.log.Warn("containerd has ended, starting it again")
		if err := d.start(ctx); err != nil && ctx.Err() == nil {
			return err
		}
	}
}

// awaitEnd returns when the daemon has ended, or ctx: the kernel wakes it, and
// until then it costs nothing. A kernel that cannot (before 5.10) is asked again
// in a second.
func (d *daemon) awaitEnd(ctx context.Context, pid int) {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	switch {
	case errors.Is(err, unix.ESRCH):
		return
	case err != nil:
		select {
		case <-ctx.Done():
		case <-time.After(time.Second):
		}
		return
	}
	f := os.NewFile(uintptr(fd), "containerd")
	defer f.Close()
	if again, ok := d.running(); !ok || again != pid {
		return // the number was another's by then
	}
	defer context.AfterFunc(ctx, func() { _ = f.Close() })()
	raw, err := f.SyscallConn()
	if err != nil {
		return // ctx has ended
	}
	_ = raw.Read(func(fd uintptr) bool { // its error is that of ctx
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		return n > 0 || err != nil && !errors.Is(err, unix.EINTR)
	})
}

// start starts the own daemon unless it runs.
func (d *daemon) start(ctx context.Context) error {
	if pid, ok := d.running(); ok {
		if err := d.wait(ctx, startTimeout); err != nil {
			return err
		}
		d.log.Info("using the containerd that runs", "pid", pid)
		return nil
	}
	begin := time.Now()
	binary, err := exec.LookPath(d.cfg.Binary)
	if err != nil {
		return fmt.Errorf("start containerd: %w (install containerd and runc)", err)
	}
	if err := d.writeConfig(); err != nil {
		return fmt.Errorf("configure containerd: %w", err)
	}
	out, err := os.OpenFile(d.dir("containerd.log"), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o640)
	if err != nil {
		return fmt.Errorf("open containerd's log: %w", err)
	}
	defer out.Close()
	cmd := exec.Command(binary, "--config", d.dir("config.toml"))
	cmd.Stdout, cmd.Stderr = out, out
	// A session of its own: neither a signal to the agent's group nor the end
	// of its terminal reaches the daemon.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start containerd: %w", err)
	}
	exited := make(chan struct{})
	d.exited = exited
	go func() {
		_ = cmd.Wait() // only to reap it; its log says why it ended
		close(exited)
	}()
	pid := cmd.Process.Pid
	if err := writePID(d.dir("containerd.pid"), pid); err != nil {
		return fmt.Errorf("note containerd's process: %w", err)
	}
	if err := d.wait(ctx, startTimeout); err != nil {
		return fmt.Errorf("start containerd (see %s): %w", d.dir("containerd.log"), err)
	}
	d.log.Info("started containerd", "pid", pid, "took", time.Since(begin).Round(time.Millisecond))
	return nil
}

func (d *daemon) dir(name string) string { return filepath.Join(d.cfg.DataDir, "containerd", name) }

// writeConfig configures an own daemon: no CRI server, no listener but the
// socket.
func (d *daemon) writeConfig() error {
	for _, dir := range []string{d.dir("root"), d.cfg.RunDir} {
		if err := os.MkdirAll(dir, 0o711); err != nil {
			return err
		}
	}
	score := 0
	if lowestOOMScoreAdj() <= -999 {
		score = -999
	}
	config := fmt.Sprintf(`version = 2
root = %q
state = %q
oom_score = %d
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime", "io.containerd.snapshotter.v1.aufs", "io.containerd.snapshotter.v1.btrfs", "io.containerd.snapshotter.v1.devmapper", "io.containerd.snapshotter.v1.zfs", "io.containerd.internal.v1.opt", "io.containerd.tracing.processor.v1.otlp", "io.containerd.internal.v1.tracing"]

[grpc]
  address = %q
`, d.dir("root"), filepath.Join(d.cfg.RunDir, "containerd"), score, d.socket)
	return os.WriteFile(d.dir("config.toml"), []byte(config), 0o644)
}

// running finds the own daemon by its pid file, which also carries the start
// time, so that a reused pid is not taken for it.
func (d *daemon) running() (int, bool) {
	b, err := os.ReadFile(d.dir("containerd.pid"))
	if err != nil {
		return 0, false
	}
	var pid int
	var started string
	if _, err := fmt.Sscan(string(b), &pid, &started); err != nil {
		return 0, false
	}
	now, err := startTime(pid)
	return pid, err == nil && now == started
}

// wait waits until the daemon answers.
func (d *daemon) wait(ctx context.Context, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !answers(d.socket) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("wait for containerd at %s: %w", d.socket, ctx.Err())
		case <-d.exited:
			return errors.New("containerd ended at once")
		case <-tick.C:
		}
	}
	return nil
}

func answers(socket string) bool {
	c, err := net.DialTimeout("unix", socket, time.Second)
	if err != nil {
		return false
	}
	_ = c.Close()
	return true
}

// StopOwnDaemon ends the daemon that a runtime with this data directory has
// started, if any, and waits for it. Its containers' shims go on running.
func StopOwnDaemon(ctx context.Context, dataDir string) error {
	d := &daemon{cfg: New(Config{DataDir: dataDir}).cfg}
	pid, ok := d.running()
	if !ok {
		return nil
	}
	if err := syscall.Kill(pid, syscall.SIGTERM); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop containerd: %w", err)
	}
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		if _, ok := d.running(); !ok {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("stop containerd: %w", ctx.Err())
		case <-tick.C:
		}
	}
}

func writePID(path string, pid int) error {
	started, err := startTime(pid)
	if err != nil {
		return err
	}
	return os.WriteFile(path, []byte(fmt.Sprintf("%d %s\n", pid, started)), 0o644)
}

// startTime returns when a process began, in ticks since boot: with the pid it
// names the process. A zombie has ended.
func startTime(pid int) (string, error) {
	b, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return "", err
	}
	_, rest, ok := strings.Cut(string(b), ") ")
	f := strings.Fields(rest)
	if !ok || len(f) < 20 || f[0] == "Z" {
		return "", fs.ErrNotExist
	}
	return f[19], nil
}
