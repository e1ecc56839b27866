package main

import (
	"cmp"
	"context"

	"github.com/spf13/cobra"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/cli"
)

func revertCommand() *cobra.Command {
	var a access
	cmd := &cobra.Command{
		Use:   "revert COMMIT",
		Short: "Say how to take a commit back, and what that would do",
		Long: `Revert prints the git commands that take a commit back, and what the cluster
would do then. It changes nothing: the commit is the only write.

In a clone (--repo, or the current directory) the files are reverted in memory
and planned against the live cluster, and files that git will ask you to merge
are named. Without one the recorded change of the commit is turned round.

Exit code 0: done, 1: the reverted files have findings or must be merged by
hand, 2: wrong usage.`,
		Example:           "  writ revert 1f3a9c2\n  writ revert HEAD --repo ~/src/cluster",
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: a.complete(cli.CompleteCommits),
		RunE: a.ask(func(ctx context.Context, q question, name []string) error {
			r, err := cli.PlanRevert(ctx, q.client, q.options, name[0])
			if err != nil {
				return err
			}
			return cmp.Or(cli.WriteRevert(q.out, r, q.options), findings(len(r.Conflicts) > 0 || r.Plan != nil && len(r.Plan.Findings) > 0))
		}),
	}
	a.flags(cmd)
	a.cloneFlag(cmd)
	a.repositoryFlag(cmd)
	return cmd
}

func bisectCommand() *cobra.Command {
	var a access
	var offline bool
	cmd := &cobra.Command{
		Use:   "bisect GOOD BAD",
		Short: "Find the first bad commit between a good and a bad one",
		Long: `Bisect halves the commits between a good and a bad one of a local clone until
the first bad one is left. A commit is bad when the cluster has tried it and it
failed, or when it has findings, planned against the cluster as it is now; with
--offline, when writ check has findings. Nothing is checked out and nothing is
applied.

Exit code 0: found, 1: failure, 2: wrong usage.`,
		Example: "  writ bisect v1.4 HEAD\n  writ bisect 1f3a9c2 main --repo ~/src/cluster --offline",
		Args:    args(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, names []string) error {
			var c client.Reader
			if !offline {
				remote, err := a.client()
				if err != nil {
					return err
				}
				c = remote
			}
			o, w := a.options(), cmd.OutOrStdout()
			told := func(s cli.Step) { cli.WriteStep(w, s, o) }
			if o.JSON {
				told = nil
			}
			b, err := cli.Bisect(cmd.Context(), c, o, names[0], names[1], told)
			if err != nil {
				return usage(err)
			}
			return cli.WriteBisection(w, b, o)
		},
	}
	cmd.Flags().BoolVar(&offline, "offline", false, "ask no cluster: check the files alone")
	a.flags(cmd)
	a.cloneFlag(cmd)
	a.repositoryFlag(cmd)
	return cmd
}

func suspendCommand(suspend bool) *cobra.Command {
	var a access
	cmd := &cobra.Command{
		Use:   "suspend NAME",
		Short: "Print the change to commit that stops following a repository",
		Long: `Suspend prints the change to the file that declares a Repository, to be
committed: the commit is the only write, also here. A repository that is
suspended is read no more; what was applied stays as it is.

A Repository that is declared in itself cannot be resumed by a commit to itself:
it is not read. Declare it in another one.

Exit code 0: done, 1: failure, 2: wrong usage.`,
		Example:           "  writ suspend shop\n  writ suspend shop | git apply",
		Args:              args(cobra.ExactArgs(1)),
		ValidArgsFunction: a.complete(cli.CompleteRepositories),
		RunE: a.ask(func(ctx context.Context, q question, name []string) error {
			s, err := cli.PlanSuspension(ctx, q.client, q.options, name[0], suspend)
			if err != nil {
				return err
			}
			return cli.WriteSuspension(q.out, s, q.options)
		}),
	}
	if !suspend {
		cmd.Use, cmd.Short = "resume NAME", "Print the change to commit that follows a repository again"
		cmd.Long = `Resume prints the change to the file that declares a suspended Repository, to
be committed: the commit is the only write, also here.

Exit code 0: done, 1: failure, 2: wrong usage.`
		cmd.Example = "  writ resume shop\n  writ resume shop | git apply"
	}
	a.flags(cmd)
	a.cloneFlag(cmd)
	return cmd
}
