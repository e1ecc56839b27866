package settings

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/writ-os/writ/controlplane/durable"
)

// Where systemd-timesyncd looks, below /run. The name comes after that of
// node.yaml's servers, which it replaces.
const (
	timesyncState  = "systemd/timesync" // is there while it runs
	timesyncDropIn = "systemd/timesyncd.conf.d/30-writ-pool.conf"
	timesyncUnit   = "systemd-timesyncd.service"
)

// restartTime bounds the start of a unit.
const restartTime = 30 * time.Second

// restart starts a unit again. systemctl talks to systemd by its private socket:
// there is no message bus.
func restart(ctx context.Context, unit string) error {
	ctx, cancel := context.WithTimeout(ctx, restartTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "/usr/bin/systemctl", "restart", unit).CombinedOutput(); err != nil {
		return fmt.Errorf("restart %s: %w: %s", unit, err, out)
	}
	return nil
}

// readTime says how the machine keeps its time; run is /run.
func readTime(run string) (Time, error) {
	var t Time
	_, err := os.Stat(filepath.Join(run, timesyncState))
	t.Synced = err == nil
	b, err := os.ReadFile(filepath.Join(run, timesyncDropIn))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return t, fmt.Errorf("read time servers: %w", err)
	}
	t.Servers = string(b)
	return t, nil
}

// writeServers replaces the drop-in, or removes it.
func writeServers(run, content string) error {
	path := filepath.Join(run, timesyncDropIn)
	if content == "" {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("remove time servers: %w", err)
		}
		return nil
	}
	err := os.MkdirAll(filepath.Dir(path), 0o755) //nolint:gosec // timesyncd has a user of its own
	if err == nil {
		err = durable.Replace(path, []byte(content), 0o644) // in /run
	}
	if err != nil {
		return fmt.Errorf("write time servers: %w", err)
	}
	return nil
}
