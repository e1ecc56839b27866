package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/coreos/go-systemd/v22/daemon"
	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"github.com/writ-os/writ/cmd/writ/cluster"
	"github.com/writ-os/writ/cmd/writ/memory"
	"github.com/writ-os/writ/controlplane/controllers/nodeipam"
)

// serverFlags are shared by `up` and `server`.
type serverFlags struct {
	cfg cluster.Config
	nodeFlags
	nodeIP   string
	logLevel string
	// clusterCIDR is not yet checked.
	clusterCIDR string
	output      string
}

// addCommon adds what every long-lived process takes.
func (f *serverFlags) addCommon(cmd *cobra.Command) {
	host, _ := os.Hostname() //nolint:errcheck // "" is no name
	fl := cmd.Flags()
	fl.StringVar(&f.cfg.DataDir, "data-dir", defaultDataDir, "`directory` that holds everything: store, keys, repository, pods")
	fl.StringVar(&f.cfg.NodeName, "node-name", strings.ToLower(cmp.Or(host, "node")), "`name` of this machine in the cluster")
	fl.StringVar(&f.nodeIP, "node-ip", "", "`address` of this machine for others; default: found")
	fl.StringVar(&f.logLevel, "log-level", "info", "debug, info, warn or error")
	fl.StringVar(&f.clusterCIDR, "cluster-cidr", nodeipam.DefaultPodCIDR.String(), "IPv4 `range` of pod addresses, the same on every machine of the cluster")
	outputFlag(cmd, &f.output)
}

// add adds what a control plane takes besides.
func (f *serverFlags) add(cmd *cobra.Command) {
	f.addCommon(cmd)
	fl := cmd.Flags()
	fl.StringVar(&f.cfg.Listen, "listen", "127.0.0.1:6443", "`address` of the API server; one of several servers: 0.0.0.0:6443")
	fl.StringVar(&f.cfg.ExternalURL, "external-url", "", "`URL` under which people reach this server, for links in notifications; default: where it listens, if others reach that")
	fl.StringVar(&f.cfg.Name, "cluster-name", "", "`name` of this cluster in notifications and in the commit statuses of forges")
	fl.StringVar(&f.cfg.PeerAddress, "peer-address", "", "`address` by which the other servers reach this one, host:port; default: --node-ip, port 2380")
	fl.IntVar(&f.cfg.NodeCIDRMaskSize, "node-cidr-mask-size", nodeipam.DefaultNodeBits, "prefix `length` of a node's part of --cluster-cidr; the default has 1,024 parts of 254 addresses")
	apiFlags(fl, &f.cfg.API)
	r := &f.cfg.Repository
	fl.StringVar(&r.URL, "repo", "", "Git repository to follow: https://, ssh://, file:// or a `directory`; default: the cluster serves its own")
	fl.StringVar(&r.Branch, "branch", "main", "`branch` to follow")
	fl.StringVar(&r.Path, "path", ".", "`folder` of the repository to read")
	fl.DurationVar(&r.Interval, "interval", 15*time.Second, "`time` between two polls of --repo")
	fl.StringVar(&r.Username, "repo-user", "", "user `name` for --repo; its password is read from $WRIT_REPO_PASSWORD")
	fl.StringVar(&r.SSHKey, "repo-ssh-key", "", "private key `file` for --repo")
	fl.StringVar(&r.KnownHosts, "repo-known-hosts", "", "known_hosts `file` for --repo")
	fl.StringVar(&r.CA, "repo-ca", "", "CA `file` for --repo")
}

// config checks the flags and completes them from the environment.
func (f *serverFlags) config(log *slog.Logger) (cluster.Config, error) {
	cfg := f.cfg
	cfg.Version, cfg.Log = version, log
	cfg.Repository.Password, cfg.Repository.BearerToken = os.Getenv("WRIT_REPO_PASSWORD"), os.Getenv("WRIT_REPO_TOKEN")
	if err := errors.Join(cfg.API.Check(), cluster.CheckExternalURL(cfg.ExternalURL)); err != nil {
		return cfg, usageError{err}
	}
	if f.nodeIP != "" {
		ip, err := netip.ParseAddr(f.nodeIP)
		if err != nil {
			return cfg, usageError{fmt.Errorf("--node-ip: %w", err)}
		}
		cfg.NodeIP = ip
	}
	cidr, err := netip.ParsePrefix(f.clusterCIDR)
	if err != nil {
		return cfg, usageError{fmt.Errorf("--cluster-cidr: %w", err)}
	}
	cfg.ClusterCIDR = cidr
	if err := cluster.CheckClusterCIDR(cidr, cmp.Or(cfg.NodeCIDRMaskSize, cidr.Bits())); err != nil {
		return cfg, usageError{err}
	}
	dir, err := filepath.Abs(cfg.DataDir)
	if err != nil {
		return cfg, fmt.Errorf("find --data-dir: %w", err)
	}
	cfg.DataDir = dir
	if url := cfg.Repository.URL; url != "" && !strings.Contains(url, ":") {
		if cfg.Repository.URL, err = filepath.Abs(url); err != nil {
			return cfg, fmt.Errorf("find --repo: %w", err)
		}
	}
	return cfg, nil
}

// log is the process's log, on standard error, and that of its libraries.
func (f *serverFlags) log() (*slog.Logger, error) {
	var l slog.Level
	if err := l.UnmarshalText([]byte(f.logLevel)); err != nil {
		return nil, usageError{fmt.Errorf("--log-level %q: must be debug, info, warn or error", f.logLevel)}
	}
	o := &slog.HandlerOptions{Level: l}
	log := slog.New(slog.NewTextHandler(os.Stderr, o))
	if f.output == "json" {
		log = slog.New(slog.NewJSONHandler(os.Stderr, o))
	}
	libraryLog(log)
	return log, nil
}

func serverCommand() *cobra.Command {
	var f serverFlags
	var alone bool
	var join cluster.Join
	cmd := &cobra.Command{
		Use:   "server",
		Short: "Run the control plane, and this machine as its first node",
		Long: `Server runs store, API server, controllers, scheduler and reconciler, and a node
agent beside them unless --no-agent says otherwise. It writes <data-dir>/viewer.kubeconfig for people,
admin.kubeconfig (break-glass, one hour), node.kubeconfig for this machine's
agent, and pusher.gitconfig for 'git push' to the built-in remote.

With --server, --token and --ca-hash, as 'writ token create --role server' prints them,
it becomes one more server of the cluster that is there: it is given the keys of
that cluster, copies what is stored, and answers as the others do. One of them
leads: its controllers act. The cluster goes on as long as most of them do.

A cluster that begins makes an authority of its own, unless --authority names a
folder with ca.crt and ca.key (one certificate, an ECDSA key): then credentials can
be made before it runs. $WRIT_AGENT_TOKEN is a token of the form
abcdef.0123456789abcdef by which nodes join it for a day. Neither changes a
cluster that has begun.`,
		Example: `  writ server --data-dir /var/lib/writ --listen 10.0.0.1:6443
  writ server --server https://10.0.0.1:6443 --token abcdef.0123456789abcdef --ca-hash sha256:...`,
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			log, err := f.log()
			if err != nil {
				return err
			}
			cfg, err := f.config(log)
			if err != nil {
				return err
			}
			if join.Server != "" && !cmd.Flags().Changed("listen") {
				cfg.Listen = "0.0.0.0:6443" // others have to reach it
			}
			join.Token = cmp.Or(join.Token, os.Getenv("WRIT_TOKEN"))
			cfg.Join, cfg.FirstToken = join, os.Getenv("WRIT_AGENT_TOKEN")
			if err := cfg.CheckBeginning(); err != nil {
				return usageError{err}
			}
			p := cluster.NewControlPlane(cfg)
			g, ctx := errgroup.WithContext(cmd.Context())
			g.Go(func() error { return p.Run(ctx) })
			g.Go(func() error { return notifyReady(ctx, p.Ready()) })
			g.Go(func() error { return memory.New(memory.Config{Log: log}).Run(ctx) })
			if !alone {
				g.Go(func() error { return cluster.NewNode(f.node(cfg), p).Run(ctx) })
			}
			return g.Wait()
		},
	}
	f.add(cmd)
	f.addNode(cmd)
	cmd.Flags().StringVar(&f.cfg.Seed, "seed", "", "`example` that the built-in remote begins with: guestbook or shop")
	cmd.Flags().BoolVar(&f.cfg.Still, "api-only", false, "serve the API alone: no controllers, scheduler or reconciler. For comparisons with other API servers")
	cmd.Flags().StringVar(&f.cfg.Authority, "authority", "", "`folder` with ca.crt and ca.key: the authority of a cluster that begins; default: it makes one")
	cmd.Flags().BoolVar(&alone, "no-agent", false, "run the control plane alone")
	cmd.Flags().StringVar(&join.Server, "server", "", "`URL` of a server of the cluster to join; once joined it is not needed")
	cmd.Flags().StringVar(&join.Token, "token", "", "`token` of a server to join by; default: $WRIT_TOKEN")
	cmd.Flags().StringSliceVar(&join.CAHashes, "ca-hash", nil, "`hash` of the public key of the cluster's authority, sha256:...")
	return cmd
}

// notifyReady tells systemd that the service is up, and then that it lives.
func notifyReady(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ctx.Done():
		return nil
	case <-ready:
	}
	if _, err := daemon.SdNotify(false, daemon.SdNotifyReady); err != nil {
		return fmt.Errorf("notify systemd: %w", err)
	}
	every, err := daemon.SdWatchdogEnabled(false)
	if err != nil || every == 0 {
		return err
	}
	tick := time.NewTicker(every / 2)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			if _, err := daemon.SdNotify(false, daemon.SdNotifyWatchdog); err != nil {
				return fmt.Errorf("notify systemd: %w", err)
			}
		}
	}
}
