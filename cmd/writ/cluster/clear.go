package cluster

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/writ-os/writ/nodeagent/cgroup"
	"github.com/writ-os/writ/nodeagent/network"
	"github.com/writ-os/writ/nodeagent/proxy"
	"github.com/writ-os/writ/nodeagent/runtime/containerd"
	"github.com/writ-os/writ/nodeagent/volume"
)

// clearLimit bounds Clear.
const clearLimit = time.Minute

// Clear stops the containers of a data directory, its own containerd, and
// removes its part of the machine's network. It returns how many containers it
// stopped. No writ may run on the directory.
func Clear(ctx context.Context, dir string) (int, error) {
	ctx, cancel := context.WithTimeout(ctx, clearLimit)
	defer cancel()
	own := filepath.Join(dir, "containerd")
	if _, err := os.Stat(own); err != nil {
		return 0, nil //nolint:nilerr // there was never a node here
	}
	n, err := removeContainers(ctx, own)
	if err != nil {
		return n, err
	}
	if err := containerd.StopOwnDaemon(ctx, own); err != nil {
		return n, err
	}
	run := containerd.RunDir(own)
	for _, d := range []string{filepath.Join(dir, "node"), run} {
		if err := volume.UnmountBelow(d); err != nil {
			return n, err
		}
	}
	if err := os.RemoveAll(run); err != nil {
		return n, fmt.Errorf("remove %s: %w", run, err)
	}
	if err := proxy.Remove(); err != nil {
		return n, err
	}
	return n, network.Remove(networkConfig(Config{DataDir: dir}))
}

// removeContainers kills and removes all containers and sandboxes.
func removeContainers(ctx context.Context, own string) (n int, err error) {
	log := slog.New(slog.DiscardHandler)
	cgroups, err := cgroup.New("/sys/fs/cgroup")
	if err != nil {
		return 0, err
	}
	r := containerd.New(containerd.Config{DataDir: own, OwnDaemon: true, Cgroups: cgroups, Log: log})
	running, stop := context.WithCancel(ctx)
	defer stop()
	g, running := errgroup.WithContext(running)
	g.Go(func() error { return r.Run(running) })
	select {
	case <-r.Ready():
	case <-running.Done():
		return 0, g.Wait()
	}
	all, err := r.List(ctx, "")
	if err != nil {
		return 0, err
	}
	for _, c := range all {
		if err := r.Remove(ctx, c.ID); err != nil {
			return n, fmt.Errorf("remove container %s of pod %s/%s: %w", c.Name, c.PodNamespace, c.PodName, err)
		}
		n++
	}
	sandboxes, err := r.Sandboxes(ctx)
	if err != nil {
		return n, err
	}
	for _, uid := range sandboxes {
		if err := r.RemoveSandbox(ctx, uid); err != nil {
			return n, err
		}
	}
	stop()
	_ = g.Wait() //nolint:errcheck // it was told to end
	return n, nil
}
