package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

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
		holds := func() bool { now, err := cluster.Holder(dir, lock); return err == nil && now == pid }
		if err := end(ctx, pid, endLimit, holds); err != nil {
			steps.Fail("")
			return err
		}
		steps.Done(fmt.Sprintf("writ (pid %d) ended", pid))
		ended = pid
	}
	return nil
}

// end asks a process to end, waits, and kills it when it takes longer than limit.
// It holds the process by a descriptor (pidfd_open(2)): its number may be that of
// another one when it is time to kill it. holds says whether the process is still
// the one that is meant.
func end(ctx context.Context, pid int, limit time.Duration, holds func() bool) error {
	fd, err := unix.PidfdOpen(pid, unix.PIDFD_NONBLOCK)
	if errors.Is(err, unix.ESRCH) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("stop writ (pid %d): %w", pid, err)
	}
	f := os.NewFile(uintptr(fd), "process")
	defer f.Close()
	if !holds() {
		return nil
	}
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGKILL} {
		err := unix.PidfdSendSignal(fd, sig, nil, 0)
		if errors.Is(err, unix.ESRCH) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("stop writ (pid %d): %w", pid, err)
		}
		if ended, err := awaitEnd(ctx, f, limit); ended || err != nil {
			return err
		}
	}
	return fmt.Errorf("stop writ (pid %d): it has not ended %v after it was killed: the kernel holds it, as for a disk that does not answer", pid, limit)
}

// awaitEnd waits until the process of a descriptor has ended, for a while.
func awaitEnd(ctx context.Context, process *os.File, limit time.Duration) (ended bool, err error) {
	if err := process.SetReadDeadline(time.Now().Add(limit)); err != nil {
		return false, fmt.Errorf("wait for process: %w", err)
	}
	defer context.AfterFunc(ctx, func() { _ = process.SetReadDeadline(time.Now()) })()
	raw, err := process.SyscallConn()
	if err != nil {
		return false, fmt.Errorf("wait for process: %w", err)
	}
	err = raw.Read(func(fd uintptr) bool {
		n, err := unix.Poll([]unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}, 0)
		ended = n > 0 && err == nil
		return ended
	})
	switch {
	case ended:
		return true, nil
	case ctx.Err() != nil:
		return false, ctx.Err()
	case errors.Is(err, os.ErrDeadlineExceeded):
		return false, nil
	}
	return false, fmt.Errorf("wait for process: %w", err)
}
