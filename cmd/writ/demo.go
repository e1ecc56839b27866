package main

import (
	"cmp"
	"context"
	"log/slog"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-os/writ/cmd/writ/demo"
)

// demoCommand is the entry point of the images writ.local/demo:*.
func demoCommand() *cobra.Command {
	host, _ := os.Hostname() //nolint:errcheck // "" is a name too
	cfg := demo.Config{
		Addr:     cmp.Or(os.Getenv("ADDR"), ":8080"),
		Name:     cmp.Or(os.Getenv("POD_NAME"), host),
		Version:  cmp.Or(os.Getenv("VERSION"), "v1"),
		Greeting: os.Getenv("GREETING"),
		Store:    os.Getenv("STORE"),
		File:     os.Getenv("FILE"),
	}
	cmd := &cobra.Command{
		Use:    "demo",
		Short:  "Serve the guestbook of the examples",
		Hidden: true,
		Args:   args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg.Log = slog.New(slog.NewTextHandler(cmd.OutOrStdout(), nil))
			return demo.New(cfg).Run(cmd.Context())
		},
	}
	cmd.Flags().StringVar(&cfg.Addr, "addr", cfg.Addr, "`address` to serve on")
	cmd.Flags().StringVar(&cfg.Store, "store", cfg.Store, "`URL` of the server that keeps the entries")
	cmd.Flags().StringVar(&cfg.File, "file", cfg.File, "`file` to keep the entries in")
	cmd.Flags().DurationVar(&cfg.ReadyAfter, "ready-after", 0, "`time` to wait before being ready")

	var url string
	entry := demo.Entry{Name: cfg.Name}
	greet := &cobra.Command{
		Use:   "greet",
		Short: "Sign a guestbook once and end",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, cancel := context.WithTimeout(cmd.Context(), time.Minute)
			defer cancel()
			if err := demo.Greet(ctx, url, entry); err != nil {
				return err
			}
			cmd.Printf("signed the guestbook at %s\n", url)
			return nil
		},
	}
	greet.Flags().StringVar(&url, "to", "http://web", "`URL` of the guestbook")
	greet.Flags().StringVar(&entry.Name, "name", entry.Name, "`name` to sign with")
	greet.Flags().StringVar(&entry.Text, "text", "hello from a Job", "`text` to write")
	cmd.AddCommand(greet)
	return cmd
}

// pauseCommand is the entry point of writ.local/pause:v1: it holds namespaces
// open and reaps orphans, as upstream's pause does.
func pauseCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "pause",
		Short:  "Hold a pod's namespaces open",
		Hidden: true,
		Args:   args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			reapUntil(cmd.Context())
			return nil
		},
	}
}
