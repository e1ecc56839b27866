// Package containerd runs containers by the native API of a containerd daemon
// (1.6 and newer), and keeps images in it.
//
// It owns, per pod, the namespaces that its containers share, bind-mounted so
// that no pause process has to hold them, and, per container, a directory with
// its output and the facts that containerd does not keep (when it started, why
// it ended). Everything else is containerd's own record: containers carry their
// pod, name and attempt as labels, so that an agent that comes back, by a
// restart or after kill -9, finds them under the same IDs. It runs one shim per
// container: sharing one among the containers of a pod would save 3 MB each,
// but a shim that is ending can then swallow the next start.
//
// Where no daemon is configured and none runs on the machine, it starts one of
// its own, in its own session, that outlives the agent as containers do.
package containerd

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	ctrd "github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/pkg/namespaces"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"

	"github.com/writ-os/writ/nodeagent/cgroup"
	"github.com/writ-os/writ/nodeagent/crilog"
	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/nodeagent/runtime"
)

// Config configures a Runtime.
type Config struct {
	// DataDir holds containers' output and state, and an own daemon's images.
	DataDir string
	// RunDir holds what ends with the machine: namespaces, sockets. Default:
	// /run/writ/<hash of DataDir>.
	RunDir string
	// Socket of the daemon to use. "" means the machine's, if one answers, and
	// otherwise an own one.
	Socket string
	// OwnDaemon starts an own daemon even where the machine has one.
	OwnDaemon bool
	// Binary of the daemon; default "containerd".
	Binary string
	// Namespace in the daemon; default "writ".
	Namespace string
	// Mirrors are URLs that are asked for the images of a registry before the
	// registry itself. Default: none.
	Mirrors func(registry string) []string
	// Endpoint is what is declared of a host, a registry or a mirror; nil where
	// nothing is. Default: nothing.
	Endpoint func(host string) *image.Endpoint
	Cgroups  *cgroup.Manager
	Logs     crilog.Limits
	Log      *slog.Logger
}

// Runtime implements runtime.Runtime and image.Store.
type Runtime struct {
	cfg   Config
	log   *slog.Logger
	logs  *crilog.Collector
	ready chan struct{}
	clamp int // lowest oom_score_adj that can be set

	snapshotter string
	client      *ctrd.Client

	mu         sync.Mutex
	containers map[string]*record
	watchers   map[int]func(runtime.Event)
	nextWatch  int

	images  imageCache
	clients clients // ask registries and mirrors
}

var (
	_ runtime.Runtime = (*Runtime)(nil)
	_ image.Store     = (*Runtime)(nil)
)

// MachineSocket is where containerd listens when the machine starts it.
const MachineSocket = "/run/containerd/containerd.sock"

// RunDir is where a runtime with this data directory keeps what ends with the
// machine, unless its Config says otherwise.
func RunDir(dataDir string) string {
	sum := sha256.Sum256([]byte(dataDir))
	return "/run/writ/" + hex.EncodeToString(sum[:4])
}

// New returns a runtime; Run must be called for it to work.
func New(cfg Config) *Runtime {
	if cfg.Namespace == "" {
		cfg.Namespace = "writ"
	}
	if cfg.Binary == "" {
		cfg.Binary = "containerd"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if abs, err := filepath.Abs(cfg.DataDir); err == nil {
		cfg.DataDir = abs
	}
	if cfg.RunDir == "" {
		cfg.RunDir = RunDir(cfg.DataDir)
	}
	return &Runtime{
		cfg:        cfg,
		log:        cfg.Log,
		ready:      make(chan struct{}),
		clamp:      lowestOOMScoreAdj(),
		containers: map[string]*record{},
		watchers:   map[int]func(runtime.Event){},
	}
}

// Ready is closed when the runtime answers.
func (r *Runtime) Ready() <-chan struct{} { return r.ready }

// Run connects to the daemon, or starts it, finds the containers again and
// follows them until ctx ends. Containers and an own daemon go on running.
func (r *Runtime) Run(ctx context.Context) error {
	logs, err := crilog.NewCollector(crilog.CollectorConfig{Limits: r.cfg.Logs, Log: r.log})
	if err != nil {
		return err
	}
	r.logs = logs
	d := &daemon{cfg: r.cfg, log: r.log}
	socket, err := d.ensure(ctx)
	if err != nil {
		return err
	}
	client, err := ctrd.New(socket, ctrd.WithDefaultNamespace(r.cfg.Namespace), ctrd.WithTimeout(10*time.Second),
		// While the daemon is away calls wait for it, instead of failing.
		ctrd.WithCallOpts([]grpc.CallOption{grpc.WaitForReady(true)}))
	if err != nil {
		return fmt.Errorf("connect to containerd at %s: %w", socket, err)
	}
	defer client.Close()
	defer r.clients.closeIdle()
	r.client = client
	if err := r.setUp(ctx); err != nil {
		return err
	}
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return r.logs.Run(ctx) })
	g.Go(func() error { return d.keep(ctx) })
	g.Go(func() error { return r.follow(ctx) })
	return g.Wait()
}

// setUp makes the namespace in the daemon and chooses the snapshotter.
func (r *Runtime) setUp(ctx context.Context) error {
	ctx = r.in(ctx)
	r.snapshotter = "overlayfs"
	plugins, err := r.client.IntrospectionService().Plugins(ctx, "type==io.containerd.snapshotter.v1")
	if err != nil {
		return fmt.Errorf("ask containerd for snapshotters: %w", err)
	}
	for _, p := range plugins.Plugins {
		if p.ID == "overlayfs" && p.InitErr != nil {
			r.snapshotter = "native"
			r.log.Warn("overlay file systems do not work here, container images are copied for every container", "err", p.InitErr.Message)
		}
	}
	return nil
}

// in gives a context the namespace in the daemon.
func (r *Runtime) in(ctx context.Context) context.Context {
	return namespaces.WithNamespace(ctx, r.cfg.Namespace)
}

// await waits until the runtime is ready.
func (r *Runtime) await(ctx context.Context) (context.Context, error) {
	select {
	case <-r.ready:
		return r.in(ctx), nil
	default:
	}
	select {
	case <-r.ready:
		return r.in(ctx), nil
	case <-ctx.Done():
		return nil, errors.Join(errors.New("containerd is not ready"), ctx.Err())
	}
}

// Info names the daemon and says what cannot be done here.
func (r *Runtime) Info(ctx context.Context) (runtime.Info, error) {
	ctx, err := r.await(ctx)
	if err != nil {
		return runtime.Info{}, err
	}
	v, err := r.client.Version(ctx)
	if err != nil {
		return runtime.Info{}, fmt.Errorf("ask containerd for its version: %w", err)
	}
	info := runtime.Info{Name: "containerd", Version: v.Version}
	if r.clamp > -1000 {
		info.Missing = append(info.Missing,
			fmt.Sprintf("CAP_SYS_RESOURCE: oom_score_adj of containers cannot go below %d", r.clamp))
	}
	if r.cfg.Cgroups == nil {
		info.Missing = append(info.Missing, "cgroups: containers have no limits")
	} else {
		for _, c := range r.cfg.Cgroups.Missing() {
			info.Missing = append(info.Missing, "cgroup controller "+c)
		}
	}
	return info, nil
}
