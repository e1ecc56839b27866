package main

import (
	"cmp"
	"fmt"
	"os"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/writ-os/writ/cmd/writ/cluster"
)

// nodeFlags are shared by everything that runs a node.
type nodeFlags struct {
	containerd       string
	unsafeSysctls    []string
	noSeccompDefault bool
}

// addNode adds the flags of a node.
func (f *serverFlags) addNode(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.nodeFlags.containerd, "containerd", "", "`socket` of the containerd to use; default: an own one, started if need be")
	cmd.Flags().StringSliceVar(&f.nodeFlags.unsafeSysctls, "allowed-unsafe-sysctls", nil, "kernel `parameters` that pods of this node may set besides the safe ones, as kernel.msg*")
	cmd.Flags().BoolVar(&f.nodeFlags.noSeccompDefault, "no-seccomp-default", false, "run containers that name no seccomp profile without one, instead of RuntimeDefault")
}

// node is what the flags say of this machine's node.
func (f *serverFlags) node(cfg cluster.Config) cluster.NodeConfig {
	return cluster.NodeConfig{Config: cfg, Containerd: f.nodeFlags.containerd, AllowedUnsafeSysctls: f.nodeFlags.unsafeSysctls, NoSeccompDefault: f.nodeFlags.noSeccompDefault}
}

func agentCommand() *cobra.Command {
	var f serverFlags
	var kubeconfig, server, runtime, token string
	var hashes []string
	var count int
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "Run this machine as a node",
		Long: `Agent runs the pods that the control plane binds to this machine, over
containerd, with their network, service proxy and DNS. On the machine of a server
it uses the credentials that the server wrote into --data-dir. Another machine
joins by --server, --token and --ca-hash, as 'writ token create' prints them: it
makes a key of its own and has its certificates signed, and needs no token when
it starts again. When it ends the containers go on running; the next agent
carries on with them.

With --runtime fake it is --count nodes that are not there: they report pods as
running, for tests of scale.`,
		Example: "  writ agent --data-dir /var/lib/writ\n  writ agent --server https://192.0.2.1:6443 --token abcdef.0123456789abcdef --ca-hash sha256:...\n  writ agent --runtime fake --count 1000",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := f.log()
			if err != nil {
				return err
			}
			screen := newScreen()
			defer screen.close()
			log = screen.log(log)
			cfg, err := f.config(log)
			if err != nil {
				return err
			}
			node := f.node(cfg)
			node.Kubeconfig, node.Server, node.Token, node.CAHashes = kubeconfig, server, cmp.Or(token, os.Getenv("WRIT_TOKEN")), hashes
			switch runtime {
			case "containerd":
				n := cluster.NewNode(node, nil)
				g, ctx := errgroup.WithContext(cmd.Context())
				g.Go(func() error { return n.Run(ctx) })
				g.Go(func() error { return notifyReady(ctx, n.Ready()) })
				return screen.end(cmd.Context(), g.Wait())
			case "fake":
				return cluster.Simulate(cmd.Context(), node, count)
			}
			return usageError{fmt.Errorf("--runtime %q: must be containerd or fake", runtime)}
		},
	}
	f.addCommon(cmd)
	f.addNode(cmd)
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "", "credentials `file`; default: node.kubeconfig of --data-dir, for simulated nodes admin.kubeconfig")
	cmd.Flags().StringVar(&server, "server", "", "`URL` of the API server, instead of the one in the kubeconfig")
	cmd.Flags().StringVar(&token, "token", "", "bootstrap `token` to join by; default: $WRIT_TOKEN")
	cmd.Flags().StringSliceVar(&hashes, "ca-hash", nil, "`hash` of the public key of the cluster's authority, sha256:...; several are separated by commas")
	cmd.Flags().StringVar(&runtime, "runtime", "containerd", "containerd, or fake for simulated nodes")
	cmd.Flags().IntVar(&count, "count", 1, "`number` of simulated nodes")
	return cmd
}
