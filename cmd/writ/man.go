package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime/debug"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
)

func manCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "man DIR",
		Short: "Write the manual pages of all commands",
		Long: `Write one manual page a command, in section 1, into a folder that man finds:

  writ man /usr/local/share/man/man1 && man writ-plan`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			n, err := writeManual(cmd.Root(), a[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(cmd.OutOrStdout(), "%d pages are in %s; read one: man -l %s\n", n, a[0], filepath.Join(a[0], "writ.1"))
			return nil
		},
	}
}

// built is when the commit was made that this binary is of; nil where that is not
// known: then the pages have the date of $SOURCE_DATE_EPOCH, or of today.
func built() *time.Time {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return nil
	}
	for _, s := range info.Settings {
		if at, err := time.Parse(time.RFC3339, s.Value); s.Key == "vcs.time" && err == nil {
			return &at
		}
	}
	return nil
}

// writeManual writes the pages of a command and of all below it, and says how
// many.
func writeManual(root *cobra.Command, dir string) (int, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // everybody reads manuals
		return 0, fmt.Errorf("write manual: %w", err)
	}
	root.DisableAutoGenTag = true
	header := &doc.GenManHeader{Section: "1", Source: "writ " + version, Manual: "Writ", Date: built()}
	if err := doc.GenManTree(root, header, dir); err != nil {
		return 0, fmt.Errorf("write manual: %w", err)
	}
	pages, err := filepath.Glob(filepath.Join(dir, "writ*.1"))
	return len(pages), err
}
