package main

import (
	"github.com/spf13/cobra"

	"github.com/writ-os/writ/reconciler/cli"
)

func checkCommand() *cobra.Command {
	var output string
	cmd := &cobra.Command{
		Use:   "check DIR",
		Short: "Say what is wrong with a folder of manifests, without a cluster",
		Long: `Check reads the manifests of a folder as the cluster would read a commit and
prints every finding as file:line:col: message. It needs no cluster, no network
and no root. Exit code 0: clean, 1: findings, 2: wrong usage.`,
		Example: "  writ check .\n  writ check -o json apps/",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, a []string) error {
			findings, err := cli.CheckDir(cmd.Context(), a[0])
			if err != nil {
				return err
			}
			o := (&access{output: output}).options()
			if err := cli.WriteFindings(cmd.OutOrStdout(), findings, o); err != nil {
				return err
			}
			if len(findings) > 0 {
				return errFindings
			}
			return nil
		},
	}
	outputFlag(cmd, &output)
	return cmd
}

func planCommand() *cobra.Command {
	var a access
	cmd := &cobra.Command{
		Use:   "plan DIR",
		Short: "Show what a folder of manifests would do to the cluster",
		Long: `Plan compares a folder with the live cluster and prints what the next commit
would create, change field by field, and delete. It runs the code that applies,
stores nothing, and needs a viewer's rights. Exit code 0: it would be applied,
1: findings, 2: wrong usage.`,
		Example: "  writ plan .\n  writ plan . --server https://10.0.0.1:6443 --kubeconfig viewer.kubeconfig",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, dir []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			p, err := cli.PlanDir(cmd.Context(), dir[0], c, a.options())
			if err != nil {
				return err
			}
			if err := cli.WritePlan(cmd.OutOrStdout(), p, a.options()); err != nil {
				return err
			}
			if len(p.Findings) > 0 {
				return errFindings
			}
			return nil
		},
	}
	a.flags(cmd)
	return cmd
}

func statusCommand() *cobra.Command {
	var a access
	var watch bool
	cmd := &cobra.Command{
		Use:     "status",
		Short:   "Say how far the cluster has come with the newest commit",
		Example: "  writ status\n  writ status -w",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			if watch {
				return cli.WatchStatus(cmd.Context(), c, a.options(), cmd.OutOrStdout(), terminal())
			}
			return cli.Status(cmd.Context(), c, a.options(), cmd.OutOrStdout())
		},
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "follow until interrupted")
	a.flags(cmd)
	return cmd
}

func historyCommand() *cobra.Command {
	var a access
	cmd := &cobra.Command{
		Use:   "history",
		Short: "List the commits that came to the cluster",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			return cli.History(cmd.Context(), c, a.options(), cmd.OutOrStdout())
		},
	}
	a.flags(cmd)
	return cmd
}

func whyCommand() *cobra.Command {
	var a access
	var namespace string
	cmd := &cobra.Command{
		Use:     "why KIND/NAME",
		Short:   "Say which commit, author, file and line declare an object",
		Example: "  writ why deployment/web -n shop",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, name []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			return cli.Why(cmd.Context(), c, a.options(), namespace, name[0], cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVarP(&namespace, "namespace", "n", "", "`namespace` of the object; default: all")
	a.flags(cmd)
	return cmd
}
