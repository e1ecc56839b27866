package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/writ-os/writ/cmd/writ/member"
	"github.com/writ-os/writ/reconciler/cli"
)

func memberCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "member",
		Short: "List the servers of the cluster, encrypt, remove one, or go on with one of them",
		Long: `Member lists the servers that are one cluster, has them encrypt what they store, takes
one out for good, and makes one the only one when most are lost. They join by 'writ server --server ...'; 'writ
token create --role server' says how.`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(memberList(), memberEncrypt(), memberRemove(), memberReset())
	return cmd
}

// members makes a command of something that asks the servers, by default with
// the credential of a file of the data directory.
func members(cmd *cobra.Command, credential string, do func(ctx context.Context, c member.Client, w io.Writer, asJSON bool, arguments []string) error) *cobra.Command {
	var a access
	cmd.Flags().StringVar(&a.dataDir, "data-dir", defaultDataDir, "`directory` of a server, whose "+credential+" is used")
	cmd.Flags().StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig `file`; default: the one of --data-dir")
	cmd.Flags().StringVar(&a.server, "server", "", "`URL` of the API server, instead of the one in the kubeconfig")
	outputFlag(cmd, &a.output)
	cmd.RunE = func(cmd *cobra.Command, arguments []string) error {
		path := cmp.Or(a.kubeconfig, filepath.Join(a.dataDir, credential))
		cfg, err := clientcmd.BuildConfigFromFlags(a.server, path)
		if errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("no cluster here: %s does not exist: name one with --kubeconfig or --data-dir", path)
		}
		if err != nil {
			return fmt.Errorf("read kubeconfig %s: %w", path, err)
		}
		h, err := rest.HTTPClientFor(cfg)
		if err != nil {
			return fmt.Errorf("read kubeconfig %s: %w", path, err)
		}
		return do(cmd.Context(), member.Client{HTTP: h, Server: cfg.Host}, cmd.OutOrStdout(), a.output == "json", arguments)
	}
	return cmd
}

func memberList() *cobra.Command {
	return members(&cobra.Command{
		Use:   "list",
		Short: "List the servers, which of them leads, and which answer",
		Args:  args(cobra.NoArgs),
	}, "viewer.kubeconfig", func(ctx context.Context, c member.Client, w io.Writer, asJSON bool, _ []string) error {
		all, err := c.List(ctx)
		if err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(w).Encode(all)
		}
		tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		fmt.Fprintln(tw, "NAME\tROLE\tREADY\tADDRESS\tPEERS\tID")
		for _, m := range all {
			ready := "no"
			if m.Ready {
				ready = "yes"
			}
			fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t%s\n", cmp.Or(m.Name, "(not started)"), m.Role(), ready, cmp.Or(m.Address, "-"), cmp.Or(m.URL, "-"), m.ID)
		}
		return tw.Flush()
	})
}

func memberEncrypt() *cobra.Command {
	return members(&cobra.Command{
		Use:   "encrypt",
		Short: "Have several servers encrypt the Secrets that they store",
		Long: `Encrypt makes a key and gives it to all servers of the cluster, then has them store
Secrets by it, and those that are there anew. It is for servers that were made by a
version that did not do so by itself. All of them must answer: none stores by the key
before all have it. Where it breaks off, everything can be read everywhere; call it
again. Keep a copy of the key apart from backups of the store: none of them holds it.`,
		Args: args(cobra.NoArgs),
	}, "admin.kubeconfig", func(ctx context.Context, c member.Client, w io.Writer, asJSON bool, _ []string) error {
		e, err := c.Encrypt(ctx)
		if err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(w).Encode(e)
		}
		if e.Already {
			_, err = fmt.Fprintf(w, "%s encrypt already\n", strings.Join(e.Servers, ", "))
			return err
		}
		_, err = fmt.Fprintf(w, "%s encrypt Secrets from now on; those that are there are stored anew in the background\nkeep a copy of the key, <data-dir>/keys/encryption.yaml of any server, apart from backups\n", strings.Join(e.Servers, ", "))
		return err
	})
}

func memberRemove() *cobra.Command {
	return members(&cobra.Command{
		Use:     "remove NAME",
		Short:   "Take a server out of the cluster, for good",
		Example: "  writ member remove s3\n  kubectl delete node s3",
		Long: `Remove takes a server out of the cluster, by its name or its ID. Its process ends
when it hears of it; before that machine joins again its data directory has to be
removed. The cluster refuses when those who remain would not be most of them.`,
		Args: args(cobra.ExactArgs(1)),
	}, "admin.kubeconfig", func(ctx context.Context, c member.Client, w io.Writer, asJSON bool, arguments []string) error {
		if err := c.Remove(ctx, arguments[0]); err != nil {
			return err
		}
		if asJSON {
			return json.NewEncoder(w).Encode(map[string]string{"removed": arguments[0]})
		}
		_, err := fmt.Fprintf(w, "removed %s\n", arguments[0])
		return err
	})
}

// servers returns what asks for the servers of the cluster, for status.
func (a *access) servers() (func(context.Context) ([]cli.Server, error), error) {
	cfg, err := a.configOf(a.viewer())
	if err != nil {
		return nil, err
	}
	h, err := rest.HTTPClientFor(cfg)
	if err != nil {
		return nil, fmt.Errorf("build HTTP client: %w", err)
	}
	c := member.Client{HTTP: h, Server: cfg.Host}
	return func(ctx context.Context) ([]cli.Server, error) {
		ctx, cancel := context.WithTimeout(ctx, 2*time.Second) // the commit is what was asked for
		defer cancel()
		all, err := c.List(ctx)
		var out []cli.Server
		for _, s := range all {
			out = append(out, cli.Server{Name: s.Name, Role: s.Role(), Ready: s.Ready})
		}
		return out, err
	}, nil
}
