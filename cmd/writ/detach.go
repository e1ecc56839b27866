package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/writ-os/writ/cmd/writ/cluster"
)

func logFile(cfg cluster.Config) string { return filepath.Join(cfg.DataDir, "writ.log") }

// detached starts this very command without --detach in a session of its own,
// shows its progress, and returns when it is up or has failed.
func detached(ctx context.Context, cfg cluster.Config, asJSON bool, out io.Writer) error {
	show := shower(out, asJSON)
	if pid, err := cluster.Holder(cfg.DataDir, cluster.ServerLock); err == nil && pid != 0 {
		show.step("process", fmt.Sprintf("runs already (pid %d)", pid))
		return ended(show, cfg)
	}
	if err := os.MkdirAll(cfg.DataDir, 0o755); err != nil { //nolint:gosec // what is secret in it has a mode of its own
		return fmt.Errorf("make data directory: %w", err)
	}
	log, err := os.OpenFile(logFile(cfg), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("open log: %w", err)
	}
	defer log.Close()
	read, write, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("make pipe: %w", err)
	}
	defer read.Close()
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find own binary: %w", err)
	}
	cmd := exec.Command(exe, attachedArgs(os.Args[1:])...) //nolint:gosec,noctx // our own binary, which outlives us
	cmd.Stdout, cmd.Stderr, cmd.ExtraFiles = log, log, []*os.File{write}
	cmd.Env = append(os.Environ(), pipeVariable+"=3")
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the cluster: %w", err)
	}
	_ = write.Close()
	if err := follow(ctx, read, show); err != nil {
		return fmt.Errorf("%w\nIts log is %s", err, logFile(cfg))
	}
	return ended(show, cfg)
}

// ended says that a detached cluster is up.
func ended(show *shows, cfg cluster.Config) error {
	show.tell(isUp(cfg))
	if show.lines == nil {
		whatNext(show.out, cfg, true)
	}
	return nil
}

// attachedArgs are the arguments without --detach.
func attachedArgs(args []string) []string {
	var out []string
	for _, a := range args {
		if a != "--detach" && !strings.HasPrefix(a, "--detach=") {
			out = append(out, a)
		}
	}
	return out
}

// follow shows what a detached cluster tells until it is up.
func follow(ctx context.Context, from *os.File, show *shows) error {
	stop := context.AfterFunc(ctx, func() { _ = from.Close() })
	defer stop()
	for sc := bufio.NewScanner(from); sc.Scan(); {
		var m message
		if err := json.Unmarshal(sc.Bytes(), &m); err != nil {
			return fmt.Errorf("read progress: %w", err)
		}
		if m.Up {
			return nil
		}
		show.tell(m)
		if m.Error != "" {
			return errors.New(m.Error)
		}
	}
	if ctx.Err() != nil {
		return errors.New("interrupted; the cluster goes on starting")
	}
	err := errors.New("the cluster ended while it started")
	show.failed(err)
	return err
}

// self is how this binary was called.
func self() string {
	if strings.Contains(os.Args[0], "/") {
		return os.Args[0]
	}
	return "writ"
}

// kubectl is the one on the PATH, or the one built beside this binary.
func kubectl() string {
	if _, err := exec.LookPath("kubectl"); err == nil {
		return "kubectl"
	}
	return filepath.Join(filepath.Dir(self()), "kubectl")
}
