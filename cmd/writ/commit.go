package main

import (
	"cmp"
	"context"
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/writ-os/writ/reconciler/cli"
	"github.com/writ-os/writ/reconciler/plan"
)

func checkCommand() *cobra.Command {
	var a access
	var t tree
	cmd := &cobra.Command{
		Use:   "check DIR|FILE",
		Short: "Say what is wrong with a folder of manifests, without a cluster",
		Long: `Check reads the manifests of a folder, or of one file, as the cluster would read
a commit and prints every finding as file:line:col: message, and what only is to
be known as file:line:col: warning: message. It needs no cluster, no network
and no root. Where the cluster follows a folder of the repository, DIR is the
repository and --path the folder. Encrypted files are opened with --age-key.
Exit code 0: clean, or only warnings, 1: findings, 2: wrong usage.`,
		Example: "  writ check .\n  writ check apps/web.yaml\n  writ check -o json apps/\n  writ check . --path clusters/home",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, dir []string) error {
			o, err := t.options(&a)
			if err != nil {
				return usage(err)
			}
			r, err := cli.ReviewDir(cmd.Context(), dir[0], o)
			if err != nil {
				return usage(err)
			}
			return cmp.Or(cli.WriteReview(cmd.OutOrStdout(), r, dir[0], o), findings(len(r.Findings) > 0))
		},
	}
	outputFlag(cmd, &a.output)
	t.flags(cmd)
	return cmd
}

// tree is how the files of a folder are read.
type tree struct{ path, ageKey string }

func (t *tree) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&t.path, "path", "", "`folder` of DIR that the cluster follows; what lies beside it is read where it is asked for")
	cmd.Flags().StringVar(&t.ageKey, "age-key", "", "`file` of age identities that open what is encrypted; default: $SOPS_AGE_KEY_FILE, then $SOPS_AGE_KEY")
	_ = cmd.MarkFlagFilename("age-key") //nolint:errcheck // the flag exists
}

func (t *tree) options(a *access) (cli.Options, error) {
	o := a.options()
	o.Path = t.path
	var err error
	o.Keys, err = cli.ReadKeys(t.ageKey, os.Getenv)
	return o, err
}

func planCommand() *cobra.Command {
	var a access
	var t tree
	var base string
	cmd := &cobra.Command{
		Use:   "plan DIR",
		Short: "Show what a folder of manifests would do to the cluster",
		Long: `Plan compares a folder with the live cluster and prints what the next commit
would create, change field by field, and delete, and what follows from it. It
runs the code that applies, with the rules of the Repository (priorities, ignore,
prune, deletions), stores nothing, and needs a viewer's rights.

DIR is the root of the repository, or the folder that the cluster follows. What
SOPS has encrypted is compared by its hash, or opened with --age-key; its values
are not printed either way. A file that is encrypted as a whole (*.age) needs the
key, or is a finding. With
--base the folder is compared with a commit of its clone instead, and no cluster
is needed: what a pull request changes.

Exit code 0: it would be applied, 1: findings, 2: wrong usage.`,
		Example: `  writ plan .
  writ plan . --server https://10.0.0.1:6443 --kubeconfig viewer.kubeconfig
  writ plan . --base origin/main -o markdown > comment.md`,
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, dir []string) error {
			o, err := t.options(&a)
			if err != nil {
				return usage(err)
			}
			p, err := a.plan(cmd, dir[0], base, o)
			if err != nil {
				return usage(err)
			}
			return cmp.Or(cli.WritePlan(cmd.OutOrStdout(), p, o), findings(len(p.Findings) > 0))
		},
	}
	cmd.Flags().StringVar(&base, "base", "", "`commit` (SHA, branch or tag) of DIR's clone to compare with, instead of the cluster")
	t.flags(cmd)
	a.flags(cmd, "markdown")
	a.repositoryFlag(cmd)
	return cmd
}

func (a *access) plan(cmd *cobra.Command, dir, base string, o cli.Options) (*plan.Plan, error) {
	if base != "" {
		return cli.PlanBase(cmd.Context(), dir, base, o)
	}
	c, err := a.client()
	if err != nil {
		return nil, err
	}
	return cli.PlanDir(cmd.Context(), dir, c, o)
}

func statusCommand() *cobra.Command {
	var a access
	var watch bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Say how far the cluster has come with the newest commit",
		Long: `Status prints, of every repository or of the one that --repository names, the
commit that is in force and, where they differ, the newest one: its phase, how many objects are healthy and which are not and why, what it waits
for, whether it was rolled back or applied in part, who signed it, and what has
drifted of late. Where there are several servers it says which leads and which
answer. With -w it is printed again whenever that changes.

Exit code 0: well, or on its way, 1: a newest commit has failed or was refused, a
repository cannot be read, or failure, 2: wrong usage. With -w it is 0.`,
		Example: "  writ status\n  writ status -w\n  writ status --repository shop -o yaml",
		Args:    args(cobra.NoArgs),
		RunE: a.ask(func(ctx context.Context, q question, _ []string) error {
			var err error
			if q.options.Servers, err = a.servers(); err != nil {
				return err
			}
			if watch {
				return cli.WatchStatus(ctx, q.client, q.options, q.out, terminal())
			}
			err = cli.Status(ctx, q.client, q.options, q.out)
			if errors.Is(err, cli.ErrUnwell) {
				return errFindings
			}
			return err
		}),
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "follow until interrupted")
	a.flags(cmd)
	a.repositoryFlag(cmd)
	repositories := cmd.Flags().Lookup("repository")
	repositories.Usage, repositories.DefValue = "`name` of the Repository to speak of; default: all", ""
	a.repository = ""
	return cmd
}

func historyCommand() *cobra.Command {
	var a access
	cmd := &cobra.Command{
		Use:   "history",
		Short: "List the commits that came to the cluster",
		Long: `History lists the commits that the cluster remembers, the newest first: how
long each phase took (rendered, planned, applied, healthy, one after the other),
how many of its objects are healthy, and what it created, changed and deleted.

Exit code 0: done, 1: failure, 2: wrong usage.`,
		Example: "  writ history\n  writ history -o json | jq -r '.[].spec.sha'",
		Args:    args(cobra.NoArgs),
		RunE: a.ask(func(ctx context.Context, q question, _ []string) error {
			return cli.History(ctx, q.client, q.options, q.out)
		}),
	}
	a.flags(cmd)
	a.repositoryFlag(cmd)
	return cmd
}
