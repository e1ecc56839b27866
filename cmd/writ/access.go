package main

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/mattn/go-isatty"
	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/reconciler/cli"
	"github.com/writ-os/writ/reconciler/sandbox"
)

// defaultDataDir is where a cluster lives unless a flag says otherwise.
const defaultDataDir = "/var/lib/writ"

// access is how a command finds the cluster it asks.
type access struct {
	dataDir    string
	kubeconfig string
	server     string
	output     string
	repository string // the Repository to speak of
	clone      string // directory of a local clone
}

func (a *access) flags(cmd *cobra.Command, formats ...string) {
	a.clusterFlags(cmd)
	outputFlag(cmd, &a.output, formats...)
}

// clusterFlags are those that name the cluster.
func (a *access) clusterFlags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&a.dataDir, "data-dir", defaultDataDir, "`directory` of a cluster on this machine, whose viewer.kubeconfig is used")
	cmd.Flags().StringVar(&a.kubeconfig, "kubeconfig", "", "kubeconfig `file`; default: $KUBECONFIG, then the one of --data-dir")
	cmd.Flags().StringVar(&a.server, "server", "", "`URL` of the API server, instead of the one in the kubeconfig")
}

// client returns a reader of the cluster with a viewer's rights.
func (a *access) client() (client.Interface, error) { return a.clientOf(a.viewer()) }

// viewer is the kubeconfig of who looks.
func (a *access) viewer() string {
	return cmp.Or(a.kubeconfig, os.Getenv("KUBECONFIG"), filepath.Join(a.dataDir, "viewer.kubeconfig"))
}

// admin returns a client with all rights, for what is done on the machine of a
// server.
func (a *access) admin() (client.Interface, error) {
	return a.clientOf(cmp.Or(a.kubeconfig, filepath.Join(a.dataDir, "admin.kubeconfig")))
}

func (a *access) clientOf(path string) (client.Interface, error) {
	cfg, err := a.configOf(path)
	if err != nil {
		return nil, err
	}
	return client.NewRemote(client.RemoteConfig{Config: cfg, FieldManager: "writ-cli", UserAgent: "writ/" + version})
}

// configOf reads a kubeconfig.
func (a *access) configOf(path string) (*rest.Config, error) {
	cfg, err := clientcmd.BuildConfigFromFlags(a.server, path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, fmt.Errorf("no cluster here: %s does not exist: start one with 'writ up', or name one with --kubeconfig or --data-dir", path)
	}
	if err != nil {
		return nil, fmt.Errorf("read kubeconfig %s: %w", path, err)
	}
	// What a command reads is its own choice: that a kind is old is no news to
	// who calls it.
	cfg.WarningHandler = rest.NoWarnings{}
	return cfg, nil
}

func (a *access) options() cli.Options {
	return cli.Options{Sandbox: sandbox.New(sandbox.Config{}), JSON: a.output == "json", Markdown: a.output == "markdown", Repository: a.repository, Clone: a.clone,
		Color: a.output == "text" && terminal() && os.Getenv("NO_COLOR") == ""}
}

func terminal() bool { return isatty.IsTerminal(os.Stdout.Fd()) }
