package cluster

import (
	"context"
	"log/slog"
	"net"
	"net/netip"
	"strconv"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/durable"
	"github.com/writ-os/writ/nodeagent"
	"github.com/writ-os/writ/nodeagent/cgroup"
	"github.com/writ-os/writ/nodeagent/dns"
	"github.com/writ-os/writ/nodeagent/network"
	"github.com/writ-os/writ/nodeagent/pod"
	"github.com/writ-os/writ/nodeagent/proxy"
	"github.com/writ-os/writ/nodeagent/runtime/containerd"
	"github.com/writ-os/writ/nodeagent/settings"
	"github.com/writ-os/writ/nodeagent/twin"
	"github.com/writ-os/writ/nodeagent/update"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"

	corev1 "k8s.io/api/core/v1"
)

// NodeConfig is what the flags say of a node.
type NodeConfig struct {
	Config
	// Kubeconfig of the node; default <DataDir>/node.kubeconfig.
	Kubeconfig string
	// Server overrides the kubeconfig's.
	Server string
	// Token and CAHashes are how a machine joins that no server has prepared.
	Token    string
	CAHashes []string
	// Containerd is the socket of the daemon to use; "" starts an own one.
	Containerd string
	// AllowedUnsafeSysctls may be set by pods besides the safe ones.
	AllowedUnsafeSysctls []string
	// NoSeccompDefault runs containers that name no seccomp profile without one.
	NoSeccompDefault bool
	// Port of the node's server. Default 10250.
	Port int
}

// Node is this machine as a node.
type Node struct {
	cfg   NodeConfig
	plane *ControlPlane // in the same process; nil without
	ready chan struct{}
	// machine is what Run has found this one to be.
	machine twin.Machine
	updater atomic.Pointer[update.Updater] // nil where the machine is not updated
}

// NewNode returns a node; it starts nothing. With a control plane in the same
// process it waits for that one.
func NewNode(cfg NodeConfig, plane *ControlPlane) *Node {
	if cfg.Kubeconfig == "" {
		cfg.Kubeconfig = cfg.NodeKubeconfig()
	}
	if cfg.Port == 0 {
		cfg.Port = 10250
	}
	return &Node{cfg: cfg, plane: plane, ready: make(chan struct{})}
}

// Run is a node until ctx ends. Containers go on running then.
func (n *Node) Run(ctx context.Context) error {
	if n.plane != nil {
		select {
		case <-n.plane.Ready():
		case <-ctx.Done():
			return nil
		}
	}
	release, err := lock(n.cfg.DataDir, AgentLock)
	if err != nil {
		return err
	}
	defer release()
	if n.machine, err = twin.Keep(n.cfg.file("node"), durable.WriteFile); err != nil {
		return err
	}
	who, err := n.credentials(ctx)
	if err != nil {
		return err
	}
	c, err := client.NewRemote(client.RemoteConfig{Config: who.caller, FieldManager: "kubelet"})
	if err != nil {
		return err
	}
	cgroups, err := cgroup.New("/sys/fs/cgroup")
	if err != nil {
		return err
	}
	ip := n.address()
	cache := client.NewCache(client.CacheConfig{Client: c, Resources: append(nodeagent.Selections(n.cfg.NodeName),
		client.Selection{Resource: schema.ResourceFor[*discoveryv1.EndpointSlice]()}, client.Selection{Resource: schema.ResourceFor[*corev1.Node]()},
		client.Selection{Resource: schema.ResourceFor[*v1alpha1.NodePool]()}), Log: n.log("cache")})
	pool := settings.New(settings.Config{NodeName: n.cfg.NodeName, Client: c, Cache: cache, Dir: n.cfg.file("node", "settings"), Log: n.log("settings")})
	if err := pool.Load(); err != nil {
		return err
	}
	net4 := newLateNetwork(n.cfg.Config, cache)
	agent := nodeagent.New(nodeagent.Config{
		NodeName: n.cfg.NodeName, NodeIP: ip.String(), Machine: n.machine, Client: c, Cache: cache, DataDir: n.cfg.file("node"), StaticDir: n.cfg.file("manifests"),
		Runtime: containerd.New(containerd.Config{DataDir: n.cfg.file("containerd"), Socket: n.cfg.Containerd, OwnDaemon: n.cfg.Containerd == "", Cgroups: cgroups, Mirrors: pool.Mirrors, Endpoint: pool.Endpoint, Log: n.log("runtime")}),
		Network: net4, Cgroups: cgroups, DNS: pod.DNS{Servers: []string{DNSService.String()}, Domain: Domain},
		Server:               nodeagent.Server{Addr: net.JoinHostPort("", strconv.Itoa(n.cfg.Port)), TLS: who.serving},
		AllowedUnsafeSysctls: n.cfg.AllowedUnsafeSysctls, NoSeccompDefault: n.cfg.NoSeccompDefault,
		Version: n.cfg.Version, ShipImages: "/proc/self/exe", Log: n.log("agent"),
		Held: map[string]func() uint64{"settings": pool.Held, "update": n.updateHeld},
	})
	names := dns.New(dns.Config{Cache: cache, Addr: []netip.AddrPort{netip.AddrPortFrom(DNSService, 53)}, Domain: Domain, Log: n.log("dns")})
	services := proxy.New(proxy.Config{Cache: cache, NodeName: n.cfg.NodeName, ClusterCIDR: n.cfg.podCIDR(), Log: n.log("proxy")})

	g, ctx := errgroup.WithContext(ctx)
	if who.learn != nil {
		g.Go(func() error { return followServers(ctx, cache, n.cfg.podCIDR(), who.learn) })
	}
	g.Go(func() error { return who.keep(ctx) })
	g.Go(func() error { return cache.Run(ctx) })
	g.Go(func() error { return net4.run(ctx) })
	g.Go(func() error { return agent.Run(ctx) })
	g.Go(func() error { return n.watchReady(ctx, cache) })
	g.Go(func() error { return n.updates(ctx, c, cache) })
	g.Go(func() error { return pool.Run(ctx) })
	g.Go(func() error { return names.Run(ctx) })
	g.Go(func() error { return services.Run(ctx) })
	g.Go(func() error {
		return network.NewRoutes(network.RoutesConfig{Cache: cache, NodeName: n.cfg.NodeName, Log: n.log("routes")}).Run(ctx)
	})
	return g.Wait()
}

func (n *Node) log(part string) *slog.Logger { return n.cfg.Log.With("part", part) }

// remote is a client over HTTPS.
func remote(kubeconfig, server, manager string) (client.Interface, error) {
	cfg, err := loadKubeconfig(kubeconfig, server)
	if err != nil {
		return nil, err
	}
	return client.NewRemote(client.RemoteConfig{Config: cfg, FieldManager: manager})
}

// address is where others reach this machine: the one that the flags give, or
// that of the interface with the default route, or the gateway of its pods.
func (n *Node) address() netip.Addr {
	if ip := n.cfg.hostAddress(); ip.IsValid() {
		return ip
	}
	return n.cfg.firstGateway()
}
