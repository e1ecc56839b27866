package main

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"
)

// cluster is what the specs run against.
type cluster struct {
	kubeconfig string
	netns      string // "" is this one
	dir        string // to remove
	writ       string
	process    *exec.Cmd
	second     *second // nil: one node
}

// startCluster starts `writ up` in a network namespace, or takes the cluster
// that is given.
func startCluster(ctx context.Context, cfg config) (*cluster, error) {
	if cfg.kubeconfig != "" {
		return &cluster{kubeconfig: cfg.kubeconfig}, nil
	}
	dir, err := os.MkdirTemp("", "writ-conformance-")
	if err != nil {
		return nil, err
	}
	c := &cluster{dir: dir, writ: cfg.writ, netns: filepath.Base(dir), kubeconfig: filepath.Join(dir, "data", "admin.kubeconfig")}
	if out, err := exec.CommandContext(ctx, "ip", "netns", "add", c.netns).CombinedOutput(); err != nil {
		return nil, fmt.Errorf("make a network namespace (as root?): %w: %s", err, out)
	}
	if err := c.up(ctx, cfg); err != nil {
		c.stop()
		return nil, err
	}
	return c, nil
}

func (c *cluster) up(ctx context.Context, cfg config) error {
	if out, err := c.command(ctx, "ip", "link", "set", "lo", "up").CombinedOutput(); err != nil {
		return fmt.Errorf("start loopback: %w: %s", err, out)
	}
	args := []string{"up", "--seed", "", "--data-dir", filepath.Join(c.dir, "data")}
	switch {
	case !cfg.agent:
		args = []string{"server", "--no-agent", "--data-dir", filepath.Join(c.dir, "data")}
	case cfg.nodes > 1:
		c.second = &second{cluster: c}
		if err := c.second.cable(ctx); err != nil {
			return err
		}
		args = append(args, "--listen", "0.0.0.0:6443", "--node-ip", firstIP)
	}
	out, err := os.Create(filepath.Join(cfg.results, "writ.log"))
	if err != nil {
		return err
	}
	defer out.Close()
	c.process = c.command(context.Background(), c.writ, args...)
	c.process.Stdout, c.process.Stderr = out, out
	if err := c.process.Start(); err != nil {
		return err
	}
	if err := c.await(ctx, cfg); err != nil {
		return fmt.Errorf("%w; its log is %s", err, out.Name())
	}
	if c.second == nil {
		return c.load(ctx, cfg, filepath.Join(c.dir, "data"))
	}
	if err := c.second.join(ctx, cfg); err != nil {
		return err
	}
	return errors.Join(c.load(ctx, cfg, filepath.Join(c.dir, "data")), c.load(ctx, cfg, c.second.data()))
}

// await polls until the node is ready, or the API where there is none.
func (c *cluster) await(ctx context.Context, cfg config) error {
	args := []string{"--kubeconfig", c.kubeconfig, "get", "--raw", "/readyz"}
	if cfg.agent {
		args = []string{"--kubeconfig", c.kubeconfig, "wait", "--for=condition=Ready", "node", "--all", "--timeout=1s"}
	}
	for began := time.Now(); ; {
		out, err := c.command(ctx, cfg.kubectl, args...).CombinedOutput()
		if err == nil {
			return nil
		}
		if time.Since(began) > 2*time.Minute || ctx.Err() != nil {
			return fmt.Errorf("the cluster was not ready within 2 minutes: %w: %s", err, out)
		}
		time.Sleep(500 * time.Millisecond)
	}
}

// load puts image archives into the containerd of a node.
func (c *cluster) load(ctx context.Context, cfg config, data string) error {
	if cfg.images == "" || !cfg.agent {
		return nil
	}
	files, err := filepath.Glob(filepath.Join(cfg.images, "*.tar"))
	if err != nil {
		return err
	}
	for _, f := range files {
		if out, err := c.command(ctx, "ctr", "--address", socket(data), "--namespace", "writ", "images", "import", f).CombinedOutput(); err != nil {
			return fmt.Errorf("load %s: %w: %s", f, err, out)
		}
	}
	return nil
}

// socket of a node's own containerd: its folder is named after the data
// directory (nodeagent/runtime/containerd.RunDir).
func socket(data string) string {
	sum := sha256.Sum256([]byte(filepath.Join(data, "containerd")))
	return filepath.Join("/run/writ", hex.EncodeToString(sum[:4]), "containerd.sock")
}

// command prepares a command beside the cluster. nsenter, not `ip netns exec`:
// the latter hides /sys/fs/cgroup.
func (c *cluster) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if c.netns == "" {
		return exec.CommandContext(ctx, name, args...)
	}
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=/run/netns/" + c.netns, "--", name}, args...)...)
}

// stop ends what was started and removes it.
func (c *cluster) stop() {
	if c.netns == "" {
		return
	}
	ctx := context.Background()
	if c.second != nil {
		c.second.stop()
	}
	if c.process != nil {
		_ = c.process.Process.Signal(syscall.SIGTERM) //nolint:errcheck // it has ended
		_ = c.process.Wait()                          //nolint:errcheck // it was told to
		if out, err := c.command(ctx, c.writ, "down", "--data-dir", filepath.Join(c.dir, "data")).CombinedOutput(); err != nil {
			log.Printf("writ down: %v: %s", err, out)
		}
	}
	if out, err := exec.CommandContext(ctx, "ip", "netns", "del", c.netns).CombinedOutput(); err != nil {
		log.Printf("remove network namespace: %v: %s", err, out)
	}
	_ = os.RemoveAll(c.dir) //nolint:errcheck // temporary
}
