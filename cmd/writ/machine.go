package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"golang.org/x/sys/unix"

	"github.com/writ-os/writ/image/config"
	"github.com/writ-os/writ/image/config/machine"
	"github.com/writ-os/writ/image/vault"
)

// nodeCommand is what the units of a node image run, each once.
func nodeCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:    "node",
		Short:  "What a machine with the node image runs at its start",
		Hidden: true,
		Args:   args(cobra.NoArgs),
		RunE:   func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(nodeUnlock(), nodeConfigure(), nodeResolv(), nodeTrial(), nodeFailed())
	return cmd
}

// disks are those of this machine.
var disks = machine.HardDisks{Dir: config.RunDir + "/mount"}

func nodeUnlock() *cobra.Command {
	return &cobra.Command{
		Use:   "unlock",
		Short: "Open /var where it is encrypted",
		Long: `Unlock opens the encrypted volume of this machine's disk by the key that its TPM
keeps. Where the node.yaml on the EFI system partition has encryption.recoveryKey,
it opens it by that instead, makes it before where there is none, and gives the
TPM a key of it. It runs before /var is mounted, where the configuration on the
EFI system partition has asked for encryption.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			console, done := console()
			defer done()
			err := vault.New(vault.Config{Disk: disks, Console: console}).Open(cmd.Context())
			if err != nil {
				fmt.Fprintf(console, "writ: %v\r\n", err)
			}
			return err
		},
	}
}

func nodeConfigure() *cobra.Command {
	return &cobra.Command{
		Use:   "configure",
		Short: "Find out who this machine is",
		Long: `Configure reads this machine's node.yaml from the first place that has one:

  /var/lib/writ/node.yaml        what the machine was told before
  the credential node.config     SMBIOS type 11 or fw_cfg, of a virtual machine
  /writ/node.yaml of the ESP     written there by 'writ image configure'
  a volume labelled config or    node.yaml, or user-data
  cidata
  writ.config= of the kernel     base64, or a path in the system

A later place counts if its file has a higher generation. It keeps the file in
/var, erases what is secret in it from the ESP, and writes what the services of
this machine start with into /run. Without a file it waits for one, and says on
the console how to give it.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			console, done := console()
			defer done()
			return machine.New(machine.Config{
				Credentials: os.Getenv("CREDENTIALS_DIRECTORY"), Disks: disks, Console: console,
				Encrypted:   func() (bool, error) { return vault.Encrypted("/var") },
				SetHostname: func(name string) error { return unix.Sethostname([]byte(name)) },
			}).Run(cmd.Context())
		},
	}
}

func nodeResolv() *cobra.Command {
	return &cobra.Command{
		Use:   "resolv",
		Short: "Write resolv.conf from what systemd-networkd knows",
		Args:  args(cobra.NoArgs),
		RunE:  func(*cobra.Command, []string) error { return machine.WriteResolvConf("") },
	}
}

// nodeTrial starts the machine again if it has not become a node in its time, so
// that the boot loader counts, and goes back to the version before.
func nodeTrial() *cobra.Command {
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "trial",
		Short: "Start again if this version does not become a node",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			console, done := console()
			defer done()
			ctx, cancel := context.WithTimeout(cmd.Context(), limit)
			defer cancel()
			for ctx.Err() == nil {
				// Active is what a service is that has said that it is ready.
				if exec.CommandContext(ctx, systemctl, "is-active", "--quiet", "writ-agent.service").Run() == nil {
					return nil
				}
				select {
				case <-ctx.Done():
				case <-time.After(5 * time.Second):
				}
			}
			if cmd.Context().Err() != nil {
				return nil // the machine goes down
			}
			fmt.Fprintf(console, "writ: this version has not become a node in %v: the machine starts again\r\n", limit)
			if err := exec.CommandContext(cmd.Context(), systemctl, "reboot").Run(); err != nil {
				return fmt.Errorf("start again: %w", err)
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&limit, "limit", 15*time.Minute, "`time` that it has")
	return cmd
}

const systemctl = "/usr/bin/systemctl"

// nodeFailed is the last that a machine says before it starts again.
func nodeFailed() *cobra.Command {
	return &cobra.Command{
		Use:   "failed",
		Short: "Say on the console what keeps this machine from starting",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			console, done := console()
			defer done()
			ctx, cancel := context.WithTimeout(cmd.Context(), 10*time.Second)
			defer cancel()
			out, err := exec.CommandContext(ctx, systemctl, "list-units", "--failed", "--plain", "--no-legend", "--no-pager").Output()
			fmt.Fprintf(console, "writ: this machine cannot start. What has failed:\r\n")
			for line := range strings.Lines(string(out)) {
				fmt.Fprintf(console, "writ:   %s\r\n", strings.TrimSpace(line))
			}
			if err != nil {
				fmt.Fprintf(console, "writ:   %v\r\n", err)
			}
			fmt.Fprintf(console, "writ: it starts again in a minute. A version that was never found good gives way to\r\nwrit: the one before it; when the disk is broken, write the image to another one.\r\n")
			select {
			case <-cmd.Context().Done():
			case <-time.After(time.Minute):
			}
			return nil
		},
	}
}

// console is where people see a machine that has nobody logged in, and the
// journal.
func console() (io.Writer, func()) {
	f, err := os.OpenFile("/dev/console", os.O_WRONLY|unix.O_NOCTTY, 0)
	if err != nil {
		return os.Stderr, func() {}
	}
	return io.MultiWriter(bestEffort{f}, os.Stderr), func() { _ = f.Close() }
}

// bestEffort is a writer whose errors keep nobody from going on: a console may
// hang up.
type bestEffort struct{ io.Writer }

func (b bestEffort) Write(p []byte) (int, error) {
	_, _ = b.Writer.Write(p) //nolint:errcheck // as it says
	return len(p), nil
}
