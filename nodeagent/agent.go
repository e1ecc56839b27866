// Package nodeagent makes a machine a node: it registers it, keeps its lease
// and status, runs the pods that are bound to it and those of a directory, and
// serves their logs.
//
//	server ──watch──> sources ──> pod.Pods ──> runtime, volume, network, image
//	   ^                              │
//	   └── status, lease, events <────┘        kubectl logs ──> server :10250
//
// It talks to the control plane only through client.Interface. It watches Pods
// of its node, Services (for variables), and the ConfigMaps and Secrets that
// its pods refer to. It owns its Node object's status, its Lease, and the
// status of its pods.
//
// When its context ends, or it is killed, the containers go on running; the
// next agent finds them and carries on. It never stops a container because it
// cannot reach the server. While another machine is the node of its name it
// writes nothing and runs the pods of its directory alone.
package nodeagent

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/cgroup"
	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/nodeagent/pod"
	"github.com/writ-os/writ/nodeagent/probe"
	"github.com/writ-os/writ/nodeagent/runtime"
	"github.com/writ-os/writ/nodeagent/server"
	"github.com/writ-os/writ/nodeagent/stats"
	"github.com/writ-os/writ/nodeagent/twin"
	"github.com/writ-os/writ/nodeagent/volume"
)

// Runtime runs containers and keeps images.
type Runtime interface {
	runtime.Runtime
	image.Store
}

// Runner is a runtime with a life of its own; runtime/containerd is one.
type Runner interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
}

// Config is everything that an agent needs from outside.
type Config struct {
	NodeName string
	NodeIP   string
	Client   client.Interface
	// Cache holds at least the Pods of this node and all Services; see
	// Selections.
	Cache   client.Cache
	DataDir string
	// StaticDir holds manifests of pods that run without a server. Default
	// <DataDir>/manifests.
	StaticDir string
	Runtime   Runtime
	Network   pod.Network
	// Cgroups limits pods, below CgroupRoot (default "/kubepods"); nil where
	// there are none.
	Cgroups    *cgroup.Manager
	CgroupRoot string
	DNS        pod.DNS
	// Server is how logs and exec are served; no listener with an empty Addr.
	Server Server
	// Labels and Taints to register with, beside the usual.
	Labels map[string]string
	Taints []corev1.Taint
	// Capacity overrides what is found on the machine, by resource name.
	Capacity corev1.ResourceList
	// Version of writ, for the node's status.
	Version string
	// ShipImages is the binary that the images that ship with writ are made of,
	// when a pod asks for one; "": there are none.
	ShipImages string
	// Claim returns the directory of a persistent volume claim.
	Claim func(ctx context.Context, namespace, claim string) (string, error)
	// AllowedUnsafeSysctls may be set by pods besides the safe ones: names, or
	// prefixes that end with "*".
	AllowedUnsafeSysctls []string
	// NoSeccompDefault runs containers that name no seccomp profile without one.
	NoSeccompDefault bool
	// Held says of other loops of this node, by name, how often each was held
	// back because it woke itself again and again, for the metrics.
	Held map[string]func() uint64
	Log  *slog.Logger

	// simulated leaves out everything that touches the machine.
	simulated bool
	// events are written by it; nil: by one of the agent's own.
	events *client.Recorder
	// Machine is this one; default twin.This.
	Machine twin.Machine
}

// Server says how the agent serves.
type Server struct {
	Addr string // ":10250"
	// TLS has the serving certificate, and the cluster's CA in ClientCAs.
	TLS *tls.Config
}

// Agent is a node.
type Agent struct {
	cfg     Config
	log     *slog.Logger
	events  *client.Recorder
	objects *objects
	pods    *pod.Pods
	machine machine
	volumes *volume.Mounter
	pulls   *image.Pulls // for whom images were pulled
	name    *twin.Name
	known   atomic.Bool   // the cache has heard of all services
	claimed chan struct{} // closed when this machine may be the node
}

// New returns an agent; it starts nothing.
func New(cfg Config) *Agent {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.StaticDir == "" && cfg.DataDir != "" {
		cfg.StaticDir = filepath.Join(cfg.DataDir, "manifests")
	}
	if cfg.events == nil {
		cfg.events = client.NewRecorder(cfg.Client, "kubelet", cfg.NodeName)
	}
	a := &Agent{cfg: cfg, log: cfg.Log, events: cfg.events, claimed: make(chan struct{})}
	a.events.Log = cfg.Log
	a.machine = readMachine(cfg)
	a.name = twin.New(twin.Config{NodeName: cfg.NodeName, Client: cfg.Client, Machine: a.machine.identity(), Log: cfg.Log})
	images := image.Store(cfg.Runtime)
	if cfg.ShipImages != "" {
		images = image.WithShipped(cfg.Runtime, cfg.ShipImages, cfg.Log)
	}
	pods := pod.Config{
		NodeName: cfg.NodeName, HostIPs: []string{cfg.NodeIP},
		Runtime: cfg.Runtime, Images: images, Puller: image.NewPuller(images, 0),
		Network: cfg.Network, Client: cfg.Client, Events: a.events, Prober: probe.New(),
		Services:         a.services,
		ServicesKnown:    a.known.Load,
		NoSeccompDefault: cfg.NoSeccompDefault,
		DNS:              cfg.DNS,
		CgroupRoot:       cfg.CgroupRoot,
		MemoryCapacity:   a.machine.memory,
		Allocatable:      a.machine.allocatable(),
		Log:              cfg.Log,
	}
	if cfg.Cgroups != nil {
		pods.Cgroups = cfg.Cgroups
	}
	if !cfg.simulated {
		a.objects = newObjects(cfg.Client, cfg.Log)
		a.volumes = volume.New(volume.Config{
			Dir: filepath.Join(cfg.DataDir, "pods"), Objects: a.objects, Tokens: tokens{cfg.Client}, Claim: cfg.Claim, Log: cfg.Log,
		})
		pods.Volumes, pods.Objects = a.volumes, a.objects
		pods.Admit, pods.Metadata = a.admit, a.metadata
		a.pulls = image.NewPulls(filepath.Join(cfg.DataDir, "images"))
		pods.Puller.Pulls = a.pulls
		pods.Dir, pods.LogDir = filepath.Join(cfg.DataDir, "pods"), filepath.Join(cfg.DataDir, "logs")
	}
	a.pods = pod.New(pods)
	if a.objects != nil {
		a.objects.changed = a.pods.Refresh
	}
	return a
}

func (a *Agent) services(namespace string) []*corev1.Service {
	return client.CachedList[*corev1.Service](a.cfg.Cache, namespace)
}

// Pods returns the pods of the node.
func (a *Agent) Pods() *pod.Pods { return a.pods }

// Run makes the machine a node until ctx ends.
func (a *Agent) Run(ctx context.Context) error {
	if err := a.check(); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	if r, ok := a.cfg.Runtime.(Runner); ok {
		g.Go(func() error { return r.Run(ctx) })
		select {
		case <-r.Ready():
		case <-ctx.Done():
			return g.Wait()
		}
	}
	adopted := make(chan struct{})
	g.Go(func() error { return a.pods.Run(ctx, func() { close(adopted) }) })
	g.Go(func() error { return a.events.Run(ctx) })
	if a.objects != nil {
		g.Go(func() error { return a.objects.run(ctx) })
	}
	g.Go(func() error {
		select {
		case <-adopted:
			return a.source(ctx)
		case <-ctx.Done():
			return nil
		}
	})
	g.Go(func() error {
		s, late := a.cfg.Cache.(syncer)
		a.known.Store(!late || s.WaitSynced(ctx) == nil)
		return nil
	})
	g.Go(func() error {
		if a.name.Wait(ctx) == nil {
			close(a.claimed)
		}
		return nil
	})
	g.Go(func() error { return a.once(ctx, a.keepNode) })
	g.Go(func() error { return a.once(ctx, a.keepLease) })
	if a.cfg.Server.Addr != "" {
		g.Go(func() error { return a.serve(ctx) })
	}
	if !a.cfg.simulated {
		g.Go(func() error { return a.collectImages(ctx) })
	}
	return g.Wait()
}

// once does what the node alone may do, as soon as this machine is it.
func (a *Agent) once(ctx context.Context, do func(context.Context) error) error {
	select {
	case <-ctx.Done():
		return nil
	case <-a.claimed:
		return do(ctx)
	}
}

func (a *Agent) check() error {
	if a.cfg.NodeName == "" || a.cfg.NodeIP == "" {
		return errors.New("run node agent: node name and address are needed")
	}
	if a.cfg.simulated {
		return nil
	}
	if os.Geteuid() != 0 {
		return errors.New("run node agent: root rights are needed to run containers (sudo, or --no-agent for the control plane alone)")
	}
	for _, dir := range []string{"pods", "logs"} {
		if err := os.MkdirAll(filepath.Join(a.cfg.DataDir, dir), 0o755); err != nil {
			return fmt.Errorf("make data directory: %w", err)
		}
	}
	return nil
}

func (a *Agent) serve(ctx context.Context) error {
	l, err := net.Listen("tcp", a.cfg.Server.Addr)
	if err != nil {
		return fmt.Errorf("serve node: %w", err)
	}
	defer l.Close()
	return server.New(server.Config{
		Listener: l, TLS: a.cfg.Server.TLS, Pods: a.pods, Streams: a.cfg.Runtime, Measures: a.measures(), Log: a.log,
		Checks: []server.Check{{Name: "runtime", Check: func(ctx context.Context) error {
			_, err := a.cfg.Runtime.Info(ctx)
			return err
		}}},
		Config: a.configz(), Journal: a.journal(), Metrics: a.metrics(),
	}).Run(ctx)
}

// metrics are the agent's own. Rounds without effect are zero on a sound node.
func (a *Agent) metrics() (out []prometheus.Collector) {
	held := maps.Clone(a.cfg.Held)
	if held == nil {
		held = map[string]func() uint64{}
	}
	held["pod"] = a.pods.Held
	for name, count := range held {
		out = append(out, prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "writ_loop_idle_wakes_total", ConstLabels: prometheus.Labels{"loop": name},
			Help: "Times that a loop was made to wait: it asked to be woken again at once though its round had no effect, or woke itself a thousand times without a pause",
		}, func() float64 { return float64(count()) }))
	}
	return out
}

// journal is where the machine logs. A node that is simulated has none.
func (a *Agent) journal() *server.Journal {
	if a.cfg.simulated {
		return nil
	}
	return &server.Journal{}
}

// measures reads what the node's pods use.
func (a *Agent) measures() *stats.Collector {
	cfg := stats.Config{NodeName: a.cfg.NodeName, Containers: a.cfg.Runtime, Pods: a.pods.List, Dir: a.cfg.DataDir}
	if m := a.cfg.Cgroups; m != nil {
		cfg.Usage = func(p *corev1.Pod) (cgroup.Usage, error) { return m.Usage(a.pods.Cgroup(p)) }
	}
	return stats.New(cfg)
}

// configz is the agent's configuration in the words of upstream's
// KubeletConfiguration.
func (a *Agent) configz() map[string]any {
	return map[string]any{
		"apiVersion": "kubelet.config.k8s.io/v1beta1", "kind": "KubeletConfiguration",
		"address": a.cfg.NodeIP, "port": a.port(), "staticPodPath": a.cfg.StaticDir,
		"authentication":                 map[string]any{"anonymous": map[string]any{"enabled": false}, "webhook": map[string]any{"enabled": false}, "x509": map[string]any{}},
		"authorization":                  map[string]any{"mode": "X509"},
		"cgroupDriver":                   "cgroupfs",
		"maxPods":                        podLimit(a.machine.allocatable()),
		"nodeStatusUpdateFrequency":      statusLook.String(),
		"nodeStatusReportFrequency":      statusReport.String(),
		"nodeLeaseDurationSeconds":       int(leaseDuration.Seconds()),
		"streamingConnectionIdleTimeout": "4h0m0s",
		"enableSystemLogHandler":         !a.cfg.simulated, "enableSystemLogQuery": !a.cfg.simulated, "enableDebuggingHandlers": true,
	}
}

// quantity is a resource amount in its usual notation.
func quantity(n int64, f resource.Format) resource.Quantity { return *resource.NewQuantity(n, f) }

func podLimit(l corev1.ResourceList) int64 { return l.Pods().Value() }
