package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/url"
	"os"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/writ-os/writ/cmd/writ/cluster"
	"github.com/writ-os/writ/cmd/writ/token"
	"github.com/writ-os/writ/controlplane/auth/bootstrap"
	"github.com/writ-os/writ/controlplane/client"
)

func tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "token",
		Short: "Make and end the tokens by which machines join",
		Long: `Token makes, lists and ends bootstrap tokens. It is run on the machine of a
server, with its --data-dir, or by anybody who may write Secrets in kube-system.
Tokens are no part of Git: they are worth something for a day.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(tokenCreate(), tokenList(), tokenDelete())
	return cmd
}

// tokenAccess makes a command of something that an administrator does.
func tokenAccess(cmd *cobra.Command, do func(ctx context.Context, c client.Interface, w io.Writer, asJSON bool, arguments []string) error) *cobra.Command {
	var a access
	cmd.Flags().StringVar(&a.dataDir, "data-dir", defaultDataDir, "`directory` of the server, whose admin.kubeconfig is used")
	cmd.Flags().StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig `file`; default: the one of --data-dir")
	cmd.Flags().StringVar(&a.server, "server", "", "`URL` of the API server, instead of the one in the kubeconfig")
	outputFlag(cmd, &a.output)
	cmd.RunE = func(cmd *cobra.Command, arguments []string) error {
		c, err := a.admin()
		if err != nil {
			return err
		}
		return do(cmd.Context(), c, cmd.OutOrStdout(), a.output == "json", arguments)
	}
	return cmd
}

func tokenCreate() *cobra.Command {
	var ttl time.Duration
	var description string
	var name string
	cmd := tokenAccess(&cobra.Command{
		Use:     "create",
		Short:   "Make a token, and print how a machine joins by it",
		Example: "  writ token create --ttl 1h --description 'the third rack'",
		Args:    args(cobra.NoArgs),
	}, func(ctx context.Context, c client.Interface, w io.Writer, asJSON bool, _ []string) error {
		if ttl < 0 {
			return usageError{fmt.Errorf("--ttl %v: must not be negative", ttl)}
		}
		role := token.Role(name)
		if role != token.Agent && role != token.Server {
			return usageError{fmt.Errorf("--role %q: must be agent or server", name)}
		}
		made, err := token.Create(ctx, c, role, description, ttl, time.Now())
		if err != nil {
			return err
		}
		if err := token.Await(ctx, c, made.Token); err != nil {
			return err
		}
		if u, err := url.Parse(made.Server); err == nil && cluster.Inside(u.Hostname()) {
			fmt.Fprintf(os.Stderr, "writ: other machines do not reach %s: the server listens on loopback alone; start it with --listen 0.0.0.0:%s\n", made.Server, u.Port())
		}
		if asJSON {
			return json.NewEncoder(w).Encode(made)
		}
		_, err = fmt.Fprintln(w, made.Command())
		return err
	})
	cmd.Flags().DurationVar(&ttl, "ttl", bootstrap.TTL, "`time` after which nobody can join by it; 0: never")
	cmd.Flags().StringVar(&name, "role", string(token.Agent), "agent or server: what a machine becomes by it. Whoever has the token of a server is given the keys of the cluster")
	cmd.Flags().StringVar(&description, "description", "", "`text` for those who list tokens")
	return cmd
}

func tokenList() *cobra.Command {
	return tokenAccess(&cobra.Command{
		Use:   "list",
		Short: "List the tokens, without their secrets",
		Args:  args(cobra.NoArgs),
	}, func(ctx context.Context, c client.Interface, w io.Writer, asJSON bool, _ []string) error {
		all, err := token.List(ctx, c)
		if err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(w).Encode(all)
		}
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "ID\tEXPIRES\tJOINS\tDESCRIPTION")
		for _, t := range all {
			expires, joins := "never", "no"
			if !t.Expires.IsZero() {
				expires = t.Expires.Format(time.RFC3339)
			}
			if t.Joins {
				joins = string(t.Role)
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\n", t.ID, expires, joins, t.Description)
		}
		return tw.Flush()
	})
}

func tokenDelete() *cobra.Command {
	return tokenAccess(&cobra.Command{
		Use:     "delete TOKEN",
		Short:   "End a token; machines that have joined stay",
		Example: "  writ token delete abcdef",
		Args:    args(cobra.ExactArgs(1)),
	}, func(ctx context.Context, c client.Interface, _ io.Writer, _ bool, arguments []string) error {
		return token.Delete(ctx, c, arguments[0])
	})
}
