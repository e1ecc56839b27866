package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// The two machines share a link of their own.
const (
	firstIP  = "10.99.0.1"
	secondIP = "10.99.0.2"
)

// second is a machine that joins the cluster, in a network namespace of its own.
type second struct {
	*cluster
	process *exec.Cmd
}

// cable makes the namespace of the second machine and a link to the first.
func (s *second) cable(ctx context.Context) error {
	ns := s.name()
	for _, args := range [][]string{
		{"netns", "add", ns},
		{"-n", ns, "link", "set", "lo", "up"},
		{"-n", s.netns, "link", "add", "up0", "type", "veth", "peer", "name", "up0", "netns", ns},
		{"-n", s.netns, "addr", "add", firstIP + "/24", "dev", "up0"},
		{"-n", ns, "addr", "add", secondIP + "/24", "dev", "up0"},
		{"-n", s.netns, "link", "set", "up0", "up"},
		{"-n", ns, "link", "set", "up0", "up"},
	} {
		if out, err := exec.CommandContext(ctx, "ip", args...).CombinedOutput(); err != nil {
			return fmt.Errorf("ip %v: %w: %s", args, err, out)
		}
	}
	return nil
}

func (s *second) name() string { return s.netns + "-2" }
func (s *second) data() string { return filepath.Join(s.dir, "second") }

// on prepares a command on the second machine.
func (s *second) on(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=/run/netns/" + s.name(), "--", name}, args...)...)
}

// join makes it a node, as its operator would.
func (s *second) join(ctx context.Context, cfg config) error {
	out, err := s.command(ctx, s.writ, "token", "create", "--data-dir", filepath.Join(s.dir, "data"), "-o", "json").Output()
	if err != nil {
		return fmt.Errorf("make a token: %w", err)
	}
	var made struct{ Token, CAHash string }
	if err := json.Unmarshal(out, &made); err != nil {
		return fmt.Errorf("read the token: %w", err)
	}
	logs, err := os.Create(filepath.Join(cfg.results, "second.log"))
	if err != nil {
		return err
	}
	defer logs.Close()
	s.process = s.on(context.Background(), s.writ, "agent", "--data-dir", s.data(), "--node-name", "second", "--node-ip", secondIP,
		"--server", "https://"+firstIP+":6443", "--token", made.Token, "--ca-hash", made.CAHash)
	s.process.Stdout, s.process.Stderr = logs, logs
	if err := s.process.Start(); err != nil {
		return err
	}
	for began := time.Now(); ; time.Sleep(500 * time.Millisecond) {
		out, err := s.command(ctx, cfg.kubectl, "--kubeconfig", s.kubeconfig, "wait", "--for=condition=Ready", "node/second", "--timeout=1s").CombinedOutput()
		if err == nil {
			return nil
		}
		if time.Since(began) > 2*time.Minute || ctx.Err() != nil {
			return fmt.Errorf("the second node was not ready within 2 minutes: %w: %s; its log is %s", err, out, logs.Name())
		}
	}
}

func (s *second) stop() {
	if s.process != nil {
		_ = s.process.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it has ended
		_ = s.process.Wait()                          //nolint:errcheck // it was told to
		if out, err := s.on(context.Background(), s.writ, "down", "--data-dir", s.data()).CombinedOutput(); err != nil {
			log.Printf("writ down: %v: %s", err, out)
		}
	}
	if out, err := exec.Command("ip", "netns", "del", s.name()).CombinedOutput(); err != nil {
		log.Printf("remove network namespace: %v: %s", err, out)
	}
}
