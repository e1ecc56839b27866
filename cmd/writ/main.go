// Command writ is the whole appliance in one binary: the control plane, the
// node agent, and the tools that check, plan and explain a commit. Each
// subcommand turns flags into a Config and calls Run; nothing is decided here.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"
	_ "time/tzdata" // of CronJobs and reboot windows: a node image has no zones

	"github.com/spf13/cobra"

	"github.com/writ-os/writ/cmd/writ/cluster"
	"github.com/writ-os/writ/reconciler"
	"github.com/writ-os/writ/reconciler/sandbox"
)

// Exit codes: 0 done, 1 findings or failure, 2 wrong usage.
const (
	exitFailure = 1
	exitUsage   = 2
)

// errFindings ends a command whose findings were already printed.
var errFindings = errors.New("findings")

// usageError is a mistake on the command line.
type usageError struct{ error }

func main() {
	if sandbox.Serve(reconciler.Functions()...) {
		return // this process was a child that evaluates what others wrote
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := root().ExecuteContext(ctx)
	stop()
	if errors.Is(err, cluster.ErrAgain) {
		err = startAgain()
	}
	os.Exit(report(err))
}

// startAgain replaces this process by a new one of the same, and returns only
// when it cannot.
func startAgain() error {
	binary, err := os.Executable()
	if err != nil {
		return fmt.Errorf("start again: %w", err)
	}
	env := slices.DeleteFunc(os.Environ(), func(e string) bool { return strings.HasPrefix(e, pipeVariable+"=") }) // whoever waited has been told
	return fmt.Errorf("start again: %w", syscall.Exec(binary, os.Args, env))                                      //nolint:gosec // our own binary
}

// report prints what went wrong and returns the exit code.
func report(err error) int {
	var usage usageError
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errFindings):
		return exitFailure
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "writ: %v\n", err)
		return exitUsage
	default:
		fmt.Fprintf(os.Stderr, "writ: %v\n", err)
		return exitFailure
	}
}

func root() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "writ",
		Short: "A cluster that becomes what its Git repository says",
		Long: `Writ is a cluster appliance. You commit manifests to a Git repository; the
cluster becomes what is written. The commit is the only write: kubectl reads.

Start a whole cluster on this machine:      writ up
See what a folder of manifests would do:    writ check . && writ plan .
Watch a commit become healthy:              writ status -w
Ask who wrote a field, where and when:      writ why deployment/web -n shop`,
		SilenceUsage:  true,
		SilenceErrors: true,
		Version:       version,
	}
	cmd.SetFlagErrorFunc(func(c *cobra.Command, err error) error {
		return usageError{fmt.Errorf("%w\nSee '%s --help'", err, c.CommandPath())}
	})
	cmd.AddGroup(
		&cobra.Group{ID: "cluster", Title: "Run a cluster:"},
		&cobra.Group{ID: "commit", Title: "Work with commits:"},
	)
	for _, c := range []*cobra.Command{upCommand(), downCommand(), serverCommand(), agentCommand(), tokenCommand(), memberCommand(), backupCommand(), logsCommand(), imageCommand()} {
		c.GroupID = "cluster"
		cmd.AddCommand(c)
	}
	for _, c := range []*cobra.Command{checkCommand(), planCommand(), diffCommand(), statusCommand(), historyCommand(), whyCommand(),
		revertCommand(), bisectCommand(), suspendCommand(true), suspendCommand(false)} {
		c.GroupID = "commit"
		cmd.AddCommand(c)
	}
	cmd.AddCommand(versionCommand(), manCommand(), demoCommand(), pauseCommand(), nodeCommand())
	return cmd
}

// args wraps cobra's argument checks so that they count as wrong usage.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(c *cobra.Command, a []string) error {
		if err := check(c, a); err != nil {
			return usageError{fmt.Errorf("%w\nSee '%s --help'", err, c.CommandPath())}
		}
		return nil
	}
}
