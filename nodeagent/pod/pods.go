package pod

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/admit"
	"github.com/writ-os/writ/nodeagent/cgroup"
	"github.com/writ-os/writ/nodeagent/image"
	"github.com/writ-os/writ/nodeagent/network"
	"github.com/writ-os/writ/nodeagent/probe"
	"github.com/writ-os/writ/nodeagent/runtime"
	"github.com/writ-os/writ/nodeagent/volume"
)

// Network attaches pods; *network.Network is one.
type Network interface {
	Attach(ctx context.Context, pod network.Pod) (network.Attachment, error)
	Detach(ctx context.Context, uid string) error
}

// Cgroups makes the pods' control groups; *cgroup.Manager does.
type Cgroups interface {
	Ensure(group string, r cgroup.Resources) error
	Remove(group string) error
}

// Recorder records events; *client.Recorder does.
type Recorder interface {
	EventAbout(ref corev1.ObjectReference, eventtype, reason, message string)
}

// Config is everything that pods need from outside.
type Config struct {
	NodeName string
	HostIPs  []string
	Runtime  runtime.Runtime
	Images   image.Store
	Puller   *image.Puller
	Network  Network
	Volumes  *volume.Mounter
	Objects  volume.Objects
	Client   client.Interface
	Events   Recorder
	Prober   probe.Prober
	// Services returns the services of a namespace.
	Services func(namespace string) []*corev1.Service
	// ServicesKnown says that Services knows all there are; nil: always. No
	// container but of a static pod starts before.
	ServicesKnown func() bool
	// Cgroups is nil where there are none.
	Cgroups    Cgroups
	CgroupRoot string // default "/kubepods"
	// Dir holds the pods' directories, LogDir their logs. With an empty Dir
	// nothing is written: simulated nodes.
	Dir, LogDir string
	DNS         DNS
	// MemoryCapacity and Allocatable of the node.
	MemoryCapacity int64
	Allocatable    corev1.ResourceList
	// Admit says why this node cannot give a pod what it asks for; nil when it
	// can. An error is tried again. nil admits everything.
	Admit func(ctx context.Context, pod *corev1.Pod) (*admit.Refusal, error)
	// NoSeccompDefault runs containers that name no seccomp profile without one;
	// otherwise they have RuntimeDefault, as with the kubelet's seccompDefault.
	NoSeccompDefault bool
	// Metadata says whether the pods of a namespace may reach link-local
	// addresses off the node, nil when it is not known now; nil: none may.
	Metadata func(ctx context.Context, namespace string) *bool
	Log      *slog.Logger
}

// Pods runs all pods of a node.
type Pods struct {
	cfg   Config
	log   *slog.Logger
	start time.Time
	alive sync.WaitGroup // the workers

	mu      sync.Mutex
	ctx     context.Context // of Run; nil before
	workers map[string]*worker

	held atomic.Uint64 // see Held
	// Of tests: onRound is called before each round of a worker, wakeAt changes
	// what one asks for.
	onRound func(uid string)
	wakeAt  func(time.Time) time.Time
}

// Held counts the times that a worker asked to be woken again at once though
// its round had no effect, and was made to wait. On a sound node it is zero.
func (p *Pods) Held() uint64 { return p.held.Load() }

// New returns an empty set of pods; Run must be called for anything to happen.
func New(cfg Config) *Pods {
	if cfg.CgroupRoot == "" {
		cfg.CgroupRoot = "/kubepods"
	}
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Pods{cfg: cfg, log: cfg.Log, start: time.Now(), workers: map[string]*worker{}}
}

// Run follows the runtime and runs the workers until ctx ends. Containers go
// on running then. ready is called when pods that ran before are known again.
func (p *Pods) Run(ctx context.Context, ready func()) error {
	g, ctx := errgroup.WithContext(ctx)
	followed := make(chan struct{})
	g.Go(func() error {
		err := p.cfg.Runtime.Watch(ctx, func() { close(followed) }, p.onRuntime)
		if err == nil && ctx.Err() == nil {
			err = errors.New("the runtime stopped sending events")
		}
		return err
	})
	g.Go(func() error {
		select {
		case <-followed:
		case <-ctx.Done():
			return nil
		}
		if err := p.adopt(ctx); err != nil {
			return err
		}
		ready()
		<-ctx.Done()
		return nil
	})
	err := g.Wait()
	p.alive.Wait()
	return err
}

// adopt starts workers for the pods whose containers or directories are here.
func (p *Pods) adopt(ctx context.Context) error {
	containers, err := p.cfg.Runtime.List(ctx, "")
	if err != nil {
		return fmt.Errorf("adopt pods: %w", err)
	}
	saved, err := p.loadPods()
	if err != nil {
		return fmt.Errorf("adopt pods: %w", err)
	}
	for _, c := range containers {
		pod := saved[c.PodUID]
		if pod == nil {
			pod = podOf(c)
			saved[c.PodUID] = pod
		}
		addContainer(pod, c)
	}
	sandboxes, err := p.cfg.Runtime.Sandboxes(ctx)
	if err != nil {
		return fmt.Errorf("adopt pods: %w", err)
	}
	for _, uid := range sandboxes {
		if saved[uid] == nil {
			saved[uid] = podOf(runtime.Container{PodUID: uid, PodName: uid})
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.ctx = ctx
	for uid, pod := range saved {
		if p.workers[uid] == nil {
			p.workers[uid] = newWorker(p, pod)
		}
	}
	for _, w := range p.workers {
		p.begin(w)
	}
	return nil
}

// begin starts the goroutine of a worker. The caller holds mu.
func (p *Pods) begin(w *worker) {
	p.alive.Go(func() {
		w.run(p.ctx)
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.workers[w.uid] == w && w.purged {
			delete(p.workers, w.uid)
		}
	})
}

// onRuntime wakes the worker of a pod whose containers have changed.
func (p *Pods) onRuntime(e runtime.Event) {
	p.mu.Lock()
	w := p.workers[e.PodUID]
	p.mu.Unlock()
	if w != nil {
		w.poke()
	}
}

// Update hands in a pod as it shall be. For a pod of a file, mirror is its
// image on the server, if there is one.
func (p *Pods) Update(pod, mirror *corev1.Pod) {
	uid := string(pod.UID)
	p.mu.Lock()
	defer p.mu.Unlock()
	w := p.workers[uid]
	if w == nil {
		if over(pod) {
			return // nothing of it is here, and nothing will be
		}
		w = newWorker(p, pod)
		p.workers[uid] = w
		if p.ctx != nil {
			defer p.begin(w)
		}
	}
	w.update(pod, mirror)
}

// over says whether a pod has ended and is not to be deleted: of one that this
// node no longer knows nothing is left to do.
func over(pod *corev1.Pod) bool { return terminal(pod.Status.Phase) && pod.DeletionTimestamp == nil }

// Remove says that a pod is no longer wanted at all.
func (p *Pods) Remove(uid string) {
	p.mu.Lock()
	w := p.workers[uid]
	p.mu.Unlock()
	if w != nil {
		w.remove()
	}
}

// Keep removes the pods that are not among uids: the server, and the files,
// have been asked for all that there are.
func (p *Pods) Keep(uids map[string]bool) {
	for uid := range p.all() {
		if !uids[uid] {
			p.Remove(uid)
		}
	}
}

// Kill ends a pod for good.
func (p *Pods) Kill(uid string, v Verdict) {
	p.mu.Lock()
	w := p.workers[uid]
	p.mu.Unlock()
	if w != nil {
		w.kill(v)
	}
}

// Refresh looks at the files of a pod's volumes again: an object that they are
// made from has changed.
func (p *Pods) Refresh(uid string) {
	p.mu.Lock()
	w := p.workers[uid]
	p.mu.Unlock()
	if w != nil {
		w.refresh()
	}
}

func (p *Pods) all() map[string]*worker {
	p.mu.Lock()
	defer p.mu.Unlock()
	out := make(map[string]*worker, len(p.workers))
	for uid, w := range p.workers {
		out[uid] = w
	}
	return out
}

// List returns the pods of the node with their newest status.
func (p *Pods) List() []*corev1.Pod {
	var out []*corev1.Pod
	for _, w := range p.all() {
		out = append(out, w.snapshot())
	}
	return out
}

// Get finds a pod by its name, with its newest status.
func (p *Pods) Get(namespace, name string) (*corev1.Pod, bool) {
	for _, w := range p.all() {
		w.mu.Lock()
		match := w.desired.Namespace == namespace && w.desired.Name == name
		w.mu.Unlock()
		if match {
			return w.snapshot(), true
		}
	}
	return nil, false
}

// Cgroup is the control group of a pod.
func (p *Pods) Cgroup(pod *corev1.Pod) string { return CgroupParent(p.cfg.CgroupRoot, pod) }
