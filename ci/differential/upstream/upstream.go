// Package upstream starts Kubernetes' own API server as a child process, by the
// command of ci/conformance/upstream, and talks to it.
//
// It owns the process and promises that it has ended when Stop returns. The
// data directory is the caller's.
package upstream

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/writ-os/writ/ci/differential/exchange"
	"github.com/writ-os/writ/controlplane/auth/pki"
)

// Config says what to run and where.
type Config struct {
	// Command is ci/conformance/upstream, built; APIServer is kube-apiserver.
	Command, APIServer string
	// Dir is the data directory.
	Dir string
	// Etcd is the data directory of etcd; "" is Dir/etcd.
	Etcd string
}

// Upstream is a server that runs.
type Upstream struct {
	URL   string
	users *exchange.Users
	cmd   *exec.Cmd
}

// Start returns when the server is ready.
func Start(ctx context.Context, cfg Config) (*Upstream, error) {
	args := []string{"--data-dir", cfg.Dir, "--kube-apiserver", cfg.APIServer}
	if cfg.Etcd != "" {
		args = append(args, "--etcd", cfg.Etcd)
	}
	cmd := exec.CommandContext(ctx, cfg.Command, args...)
	cmd.Stderr = os.Stderr
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start upstream: %w; 'make upstream' builds it", err)
	}
	u := &Upstream{cmd: cmd}
	lines := bufio.NewScanner(out)
	for u.URL == "" && lines.Scan() {
		u.URL, _ = strings.CutPrefix(lines.Text(), "ready: ")
	}
	if u.URL == "" {
		u.Stop()
		return nil, fmt.Errorf("upstream ended before it was ready; see %s", filepath.Join(cfg.Dir, "kube-apiserver.log"))
	}
	u.users, err = Users(cfg.Dir)
	if err != nil {
		u.Stop()
		return nil, err
	}
	return u, nil
}

// Users are clients of the server with a data directory.
func Users(dir string) (*exchange.Users, error) {
	a, err := pki.Open(pki.Config{Dir: filepath.Join(dir, "pki")})
	if err != nil {
		return nil, err
	}
	return exchange.NewUsers(a), nil
}

// Server is how to talk to it.
func (u *Upstream) Server() exchange.Server {
	return exchange.Server{URL: u.URL, Client: u.users.Client, Strict: true}
}

// Stop ends the process and waits for it.
func (u *Upstream) Stop() {
	if u.users != nil {
		u.users.Close()
	}
	_ = u.cmd.Process.Signal(os.Interrupt) //nolint:errcheck // it has ended
	_ = u.cmd.Wait()                       //nolint:errcheck // it was told to
}
