package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-os/writ/cmd/writ/cluster"
	"github.com/writ-os/writ/cmd/writ/progress"
)

// endLimit is how long a process may take to end before it is killed, which is
// safe at any moment.
const endLimit = 15 * time.Second

func downCommand() *cobra.Command {
	var dir, output string
	var purge bool
	cmd := &cobra.Command{
		Use:   "down",
		Short: "Stop the cluster on this machine and its containers",
		Long: `Down stops what 'writ up' started: the cluster's processes, its containers, the
containerd that it runs, and its part of the machine's network. The data stays,
and the next 'writ up' carries on with it, unless --purge removes it.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			dir, err := filepath.Abs(dir)
			if err != nil {
				return fmt.Errorf("find --data-dir: %w", err)
			}
			shown := cmd.OutOrStdout()
			if output == "json" {
				shown = io.Discard
			}
			steps := progress.New(shown, terminal())
			if err := endAll(cmd.Context(), steps, dir); err != nil {
				return err
			}
			steps.Start("containers", "stopping")
			n, err := cluster.Clear(cmd.Context(), dir)
			if err != nil {
				steps.Fail("")
				return err
			}
			steps.Done(fmt.Sprintf("%d stopped", n))
			if !purge {
				return stopped(cmd, output, n, "")
			}
			steps.Start("data", "removing "+dir)
			if err := os.RemoveAll(dir); err != nil {
				steps.Fail("")
				return fmt.Errorf("remove data: %w", err)
			}
			steps.Done("removed " + dir)
			return stopped(cmd, output, n, dir)
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", defaultDataDir, "`directory` of the cluster")
	outputFlag(cmd, &output)
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the cluster's data as well")
	return cmd
}

// stopped is the result for machines.
func stopped(cmd *cobra.Command, output string, containers int, removed string) error {
	if output != "json" {
		return nil
	}
	return json.NewEncoder(cmd.OutOrStdout()).Encode(struct {
		Containers int    `json:"containers"`
		Removed    string `json:"removed,omitempty"`
	}{containers, removed})
}

// endAll stops the processes of a cluster: server and agent, or both in one.
func endAll(ctx context.Context, steps *progress.Steps, dir string) error {
	locks := []string{cluster.AgentLock, cluster.ServerLock}
	ended := 0
	for _, lock := range locks {
		pid, err := cluster.Holder(dir, lock)
		if err != nil {
			return err
		}
		if pid == 0 || pid == ended {
			continue
		}
		steps.Start("process", fmt.Sprintf("stopping writ (pid %d)", pid))
		if err := end(ctx, pid); err != nil {
			steps.Fail("")
			return err
		}
		steps.Done(fmt.Sprintf("writ (pid %d) ended", pid))
		ended = pid
	}
	return nil
}

// end asks a process to end, waits, and kills it if it takes too long.
func end(ctx context.Context, pid int) error {
	sig := syscall.SIGTERM
	kill := time.Now().Add(endLimit)
	for {
		err := syscall.Kill(pid, sig)
		if errors.Is(err, syscall.ESRCH) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("stop writ (pid %d): %w", pid, err)
		}
		if sig = 0; time.Now().After(kill) {
			sig = syscall.SIGKILL
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
