package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-os/writ/cmd/writ/cluster"
	"github.com/writ-os/writ/cmd/writ/member"
)

func backupCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "backup",
		Short: "Save what the cluster stores, and restore it",
		Long: `Backup saves all objects of the cluster to a file while it runs, and makes a
server out of such a file.

The file is a snapshot as etcd's own tools write and read it. It holds every
object, Secrets among them: keep it as you keep those. It does not hold the keys:
the authority in <data-dir>/pki, and those that encrypt what is stored. Keep a copy
of them apart from backups; without them a cluster that is restored has other keys,
and nothing that knew the old ones believes it.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(backupSave(), backupRestore())
	return cmd
}

func backupSave() *cobra.Command {
	return members(&cobra.Command{
		Use:   "save FILE",
		Short: "Save what the cluster stores, while it runs",
		Long: `Save asks a server for all that it stores and writes it to a file, which is there
whole or not at all, for its owner alone. It needs an administrator's credential.`,
		Example: `  writ backup save /backup/writ-$(date +%F).db`,
		Args:    args(cobra.ExactArgs(1)),
	}, "admin.kubeconfig", func(ctx context.Context, c member.Client, w io.Writer, asJSON bool, arguments []string) error {
		file := arguments[0]
		n, err := c.Save(ctx, file)
		if err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(w).Encode(map[string]any{"file": file, "bytes": n})
		}
		_, err = fmt.Fprintf(w, "saved %s (%d KiB)\n", file, n>>10)
		return err
	})
}

func backupRestore() *cobra.Command {
	var a access
	cmd := &cobra.Command{
		Use:   "restore FILE",
		Short: "Make the store of a server out of a backup",
		Long: `Restore makes the store of a data directory anew out of a backup. Run it as root
on the machine of a server, while the server does not run; then start it as always.
It is then the only server of its cluster; others join again with empty data
directories. The store that was there stays beside the new one.

What was written after the backup is lost, but for what Git declares: the server
applies the branch anew. Versions of objects go on with a gap, and whoever watches
lists anew. Restore with the version that saved it, or a newer one. A server saves
its store by itself before another version opens it, to <data-dir>/backups: that is
what to restore to have the version before back. On another machine bring <data-dir>/pki and the keys of what is encrypted
there first: the backup does not hold them.`,
		Example: `  writ down
  writ backup restore /backup/writ-2026-11-23.db
  writ up`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, arguments []string) error {
			before, err := a.restore(arguments[0], cmd.ErrOrStderr())
			if err != nil {
				return err
			}
			if a.output == "json" {
				return json.NewEncoder(cmd.OutOrStdout()).Encode(map[string]string{"restored": a.dataDir, "before": before})
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%s has what was saved in %s: start the server\n", a.dataDir, arguments[0])
			if before != "" {
				fmt.Fprintf(cmd.OutOrStdout(), "what was there is in %s: remove it when all is well\n", before)
			}
			return nil
		},
	}
	cmd.Flags().StringVar(&a.dataDir, "data-dir", defaultDataDir, "`directory` of the server, which does not run")
	outputFlag(cmd, &a.output)
	return cmd
}

func (a *access) restore(file string, log io.Writer) (before string, err error) {
	dir, err := filepath.Abs(a.dataDir)
	if err != nil {
		return "", fmt.Errorf("find --data-dir: %w", err)
	}
	f, err := os.Open(file)
	if err != nil {
		return "", fmt.Errorf("read backup: %w", err)
	}
	defer f.Close() //nolint:errcheck // it was only read
	release, err := cluster.Hold(dir)
	if err != nil {
		return "", err
	}
	defer release()
	before, err = member.Restore(dir, f, time.Now(), slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelError})))
	if err != nil {
		return before, err
	}
	return before, cluster.Restored(dir)
}
