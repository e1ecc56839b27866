package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/cli"
)

func whyCommand() *cobra.Command {
	var a access
	var namespace string
	cmd := &cobra.Command{
		Use:   "why KIND/NAME[.FIELD]",
		Short: "Say which commit, author, file and line declare an object or a field",
		Long: `Why names the file and line that declare an object, and the commit that last
changed it. For a field it names the line where that field is written, the value
in Git and in the cluster and, by the blame of a local clone, the commit that
wrote the line. Of what others have made, as the pods of a Deployment, it names
what they were made of, by their owners.

The clone is the one of the current directory, or --repo. Without one it says
what the cluster itself has recorded. A viewer's rights are enough.

Exit code 0: done, 1: there is no such object, or failure, 2: wrong usage.`,
		Example: `  writ why deployment/web -n shop
  writ why pod/web-5d8c7b9f4-x2lkq
  writ why deploy/web.spec.replicas
  writ why 'deploy/web.spec.template.spec.containers[name="web"].image' --repo ~/src/cluster`,
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: a.complete(cli.CompleteObjects),
		RunE: a.ask(func(ctx context.Context, q question, name []string) error {
			return cli.Why(ctx, q.client, q.options, namespace, name[0], q.out)
		}),
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "`namespace` of the object; default: all")
	a.flags(cmd)
	a.cloneFlag(cmd)
	return cmd
}

func diffCommand() *cobra.Command {
	var a access
	cmd := &cobra.Command{
		Use:   "diff [COMMIT [COMMIT]]",
		Short: "Show how the cluster differs from Git, or two commits from each other",
		Long: `Diff without arguments compares the live cluster with the commit that is
applied: what somebody or something has changed since, and would be put back.
With one commit it compares that with the one that is applied, with two the
first with the second.

In a clone (--repo, or the current directory) every declared field is compared.
Without one it uses what the cluster has recorded of its commits.

Exit code 0: no difference, 1: they differ, 2: wrong usage.`,
		Example:           "  writ diff\n  writ diff HEAD~3 HEAD\n  writ diff 1f3a9c2 -o json",
		Args:              args(cobra.MaximumNArgs(2)),
		ValidArgsFunction: a.complete(cli.CompleteCommits),
		RunE:              a.ask(diff),
	}
	a.flags(cmd)
	a.cloneFlag(cmd)
	a.repositoryFlag(cmd)
	return cmd
}

// diff prints the difference, and whether there is any is how it ends.
func diff(ctx context.Context, q question, names []string) error {
	if len(names) == 0 {
		d, err := cli.DiffLive(ctx, q.client, q.options)
		if err != nil {
			return err
		}
		return cmp.Or(cli.WriteDrift(q.out, d, q.options), findings(d.Differs()))
	}
	ch, err := cli.DiffCommits(ctx, q.client, q.options, names[0], append(names, "")[1])
	if err != nil {
		return err
	}
	return cmp.Or(cli.WriteChanges(q.out, ch, q.options), findings(ch.Differs()))
}

// question is what a command asks the cluster with, and where the answer goes.
type question struct {
	client  client.Interface
	options cli.Options
	out     io.Writer
}

// ask makes a command of a question.
func (a *access) ask(put func(ctx context.Context, q question, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		c, err := a.client()
		if err != nil {
			return err
		}
		return usage(put(cmd.Context(), question{c, a.options(), cmd.OutOrStdout()}, args))
	}
}

// findings ends a command whose findings, if there are any, were printed.
func findings(any bool) error {
	if any {
		return errFindings
	}
	return nil
}

// usage makes a question that cannot be answered as it is asked a mistake on
// the command line.
func usage(err error) error {
	if errors.Is(err, cli.ErrUsage) {
		return usageError{err}
	}
	return err
}

func (a *access) cloneFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.clone, "repo", "", "`directory` of a local clone; default: the current one, if it is a clone")
	_ = cmd.MarkFlagDirname("repo") //nolint:errcheck // the flag exists
}

func (a *access) repositoryFlag(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.repository, "repository", "cluster", "`name` of the Repository, where the cluster follows several")
	_ = cmd.RegisterFlagCompletionFunc("repository", a.complete(cli.CompleteRepositories)) //nolint:errcheck // the flag exists
}

// completeTimeout bounds what a person waits for after pressing tab.
const completeTimeout = 2 * time.Second

// complete asks the cluster for what may come next; without one there is
// nothing to say.
func (a *access) complete(ask cli.Completer) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, begun string) ([]string, cobra.ShellCompDirective) {
		c, err := a.client()
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		return ask(ctx, c, a.options(), begun), cobra.ShellCompDirectiveNoFileComp
	}
}
