package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"

	"github.com/writ-os/writ/controlplane/durable"
	"github.com/writ-os/writ/image/lock"
)

func imageUpdate() *cobra.Command {
	var list, path string
	cmd := &cobra.Command{
		Use:   "update",
		Short: "Pin the newest versions of the packages",
		Long: `Update asks Debian's archives for the newest version of every package that the
list names, security updates included, believes them by their signatures alone,
and writes the lock. Commit both files: whoever builds that commit gets the same
packages.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return updateLock(cmd.Context(), list, path, cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&list, "list", "image/packages.list", "`file` that names the packages")
	cmd.Flags().StringVar(&path, "lock", "image/packages.lock", "`file` to write")
	return cmd
}

func updateLock(ctx context.Context, list, path string, out io.Writer) error {
	f, err := os.Open(list)
	if err != nil {
		return fmt.Errorf("read list: %w", err)
	}
	wanted, err := lock.ParseWanted(list, f)
	if err := errors.Join(err, f.Close()); err != nil {
		return err
	}
	before, err := readLock(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	now, err := lock.Resolve(ctx, lock.Resolution{Before: before}, wanted)
	if err != nil {
		return err
	}
	if err := durable.Write(path, 0o644, func(f *os.File) error { return now.Write(f) }); err != nil {
		return fmt.Errorf("write lock: %w", err)
	}
	changed := 0
	for _, p := range now.Packages {
		was := "new"
		if before != nil {
			if old, ok := before.Find(p.Name); ok {
				was = old.Version
			}
		}
		if was != p.Version {
			changed++
			fmt.Fprintf(out, "%s: %s -> %s\n", p.Name, was, p.Version)
		}
	}
	fmt.Fprintf(out, "%d of %d packages have another version.\n", changed, len(now.Packages))
	return nil
}
