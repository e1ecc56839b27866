package main

import (
	"context"
	"fmt"
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
	var dir string
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
			steps := progress.New(cmd.OutOrStdout(), terminal())
			for _, lock := range []string{cluster.AgentLock, cluster.ServerLock} {
				if err := end(cmd.Context(), steps, dir, lock); err != nil {
					return err
				}
			}
			steps.Start("containers", "stopping")
			n, err := cluster.Clear(cmd.Context(), dir)
			if err != nil {
				steps.Fail("")
				return err
			}
			steps.Done(fmt.Sprintf("%d stopped", n))
			if !purge {
				return nil
			}
			steps.Start("data", "removing "+dir)
			if err := os.RemoveAll(dir); err != nil {
				steps.Fail("")
				return fmt.Errorf("remove data: %w", err)
			}
			steps.Done("removed " + dir)
			return nil
		},
	}
	cmd.Flags().StringVar(&dir, "data-dir", defaultDataDir, "`directory` of the cluster")
	cmd.Flags().BoolVar(&purge, "purge", false, "remove the cluster's data as well")
	return cmd
}

// end stops the process that holds a lock, and waits for its end.
func end(ctx context.Context, steps *progress.Steps, dir, lock string) error {
	pid, err := cluster.Holder(dir, lock)
	if err != nil || pid == 0 {
		return err
	}
	steps.Start("process", fmt.Sprintf("stopping writ (pid %d)", pid))
	sig := syscall.SIGTERM
	deadline := time.Now().Add(endLimit)
	if err := syscall.Kill(pid, sig); err != nil {
		return fmt.Errorf("stop writ (pid %d): %w", pid, err)
	}
	for {
		if now, err := cluster.Holder(dir, lock); err != nil || now != pid {
			steps.Done(fmt.Sprintf("writ (pid %d) ended", pid))
			return err
		}
		if time.Now().After(deadline) && sig != syscall.SIGKILL {
			sig = syscall.SIGKILL
			if err := syscall.Kill(pid, sig); err != nil {
				return fmt.Errorf("kill writ (pid %d): %w", pid, err)
			}
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(20 * time.Millisecond):
		}
	}
}
