package update

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// FakeConfig is everything that a Fake needs from outside.
type FakeConfig struct {
	Client client.Writer
	// Cache holds the Nodes.
	Cache  client.Cache
	Images Images
	// Nodes says which of them pretend.
	Nodes func(name string) bool
	// Takes is how long a whole update takes; default 20 s. Each of its four steps
	// takes a quarter.
	Takes time.Duration
	// Version that every node runs at first.
	Version string
	// Fail says why an image fails on a node; "" where it does not. nil: none
	// does.
	Fail func(node string, i Image) string
	Log  *slog.Logger
}

// Fake is many nodes that update nothing and answer as if they did, for tests of
// whom they answer to. One Fake serves thousands of simulated nodes. What the
// nodes run is lost when it ends.
type Fake struct {
	cfg FakeConfig
	log *slog.Logger

	nodes map[string]*fakeNode // Run's
	wake  chan struct{}

	mu    sync.Mutex
	dirty map[string]bool
}

// fakeNode is one of them.
type fakeNode struct {
	running, staged fakeSystem
	work            fakeSystem // what is fetched or written
	failed          fakeSystem
	failure         string
	phase           v1alpha1.UpdatePhase
	message         string
	until           time.Time // the end of the step
}

// fakeSystem is what a slot holds.
type fakeSystem struct{ image, version, arguments string }

// NewFake returns a fake; it starts nothing.
func NewFake(cfg FakeConfig) *Fake {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	if cfg.Takes == 0 {
		cfg.Takes = 20 * time.Second
	}
	if cfg.Fail == nil {
		cfg.Fail = func(string, Image) string { return "" }
	}
	return &Fake{cfg: cfg, log: cfg.Log, nodes: map[string]*fakeNode{}, dirty: map[string]bool{}, wake: make(chan struct{}, 1)}
}

// Run answers for the nodes until ctx ends.
func (f *Fake) Run(ctx context.Context) error {
	err := f.cfg.Cache.Subscribe(ctx, schema.ResourceFor[*corev1.Node](), func(e client.Event) {
		if e.Object != nil && f.cfg.Nodes(e.Object.GetName()) {
			f.mark(e.Object.GetName())
		}
	})
	if err != nil {
		return fmt.Errorf("follow nodes: %w", err)
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-f.wake:
		}
		f.mu.Lock()
		names := f.dirty
		f.dirty = map[string]bool{}
		f.mu.Unlock()
		for name := range names {
			f.turn(ctx, name)
		}
	}
}

func (f *Fake) mark(name string) {
	f.mu.Lock()
	f.dirty[name] = true
	f.mu.Unlock()
	select {
	case f.wake <- struct{}{}:
	default:
	}
}

// turn brings one node a step on, and tells of it.
func (f *Fake) turn(ctx context.Context, name string) {
	node, ok := client.Cached[*corev1.Node](f.cfg.Cache, schema.Key{Name: name})
	if !ok {
		return
	}
	n := f.nodes[name]
	if n == nil {
		n = &fakeNode{running: fakeSystem{version: f.cfg.Version}}
		n.be(v1alpha1.UpdateIdle, f.cfg.Version+" runs")
		f.nodes[name] = n
	}
	order := orderOf(node)
	var i Image
	if order.Image != "" {
		var err error
		if i, err = f.cfg.Images.Get(ctx, order.Image); err != nil {
			n.message = err.Error()
			f.report(ctx, node, n)
			return
		}
	}
	over := !time.Now().Before(n.until)
	why := ""
	if over && n.phase == v1alpha1.UpdateRebooting {
		why = f.cfg.Fail(name, Image{Name: n.staged.image, Version: n.staged.version})
	}
	if n.next(order, i, over, why) {
		n.until = time.Now().Add(f.cfg.Takes / 4)
		f.later(ctx, f.cfg.Takes/4, name)
	}
	f.report(ctx, node, n)
}

func (f *Fake) later(ctx context.Context, wait time.Duration, name string) {
	time.AfterFunc(wait, func() {
		if ctx.Err() == nil {
			f.mark(name)
		}
	})
}

func (n *fakeNode) be(phase v1alpha1.UpdatePhase, message string) bool {
	n.phase, n.message = phase, message
	return phase == v1alpha1.UpdateDownloading || phase == v1alpha1.UpdateWriting || phase == v1alpha1.UpdateRebooting || phase == v1alpha1.UpdateTrying
}

// next goes one step on, and says whether the step it has begun takes time.
// over says that the last one has ended; why, that a reboot has failed.
func (n *fakeNode) next(o Order, i Image, over bool, why string) bool {
	want := fakeSystem{o.Image, i.Version, o.Arguments}
	switch n.phase {
	case v1alpha1.UpdateRebooting:
		switch {
		case !over:
			return false
		case why == "":
			n.running, n.staged = n.staged, n.running
			return n.be(v1alpha1.UpdateTrying, n.running.version+" is on trial")
		}
		n.failed, n.failure = n.staged, fmt.Sprintf("%s was started 3 times and did not become well, so %s runs again: %s", n.staged.version, n.running.version, why)
	case v1alpha1.UpdateTrying:
		if !over {
			return false
		}
	case v1alpha1.UpdateDownloading:
		switch {
		case n.work == want && !over:
			return false
		case n.work == want:
			return n.be(v1alpha1.UpdateWriting, "writing "+want.version)
		}
	case v1alpha1.UpdateWriting:
		if n.work == want && !over {
			return false
		}
		if n.work == want {
			n.staged = want
		}
	}
	return n.judge(o, want)
}

// judge begins what is ordered.
func (n *fakeNode) judge(o Order, want fakeSystem) bool {
	n.work = want
	here := n.staged.version == want.version || n.running.version == want.version
	switch r := o.Reboot; {
	case want.image == "", n.running.version == want.version && n.running.arguments == want.arguments:
		n.failed = fakeSystem{}
		return n.be(v1alpha1.UpdateIdle, n.running.version+" runs")
	case r != "" && r != want.image:
		n.failed, n.failure = fakeSystem{image: r}, fmt.Sprintf("asked to reboot into %s, while %s is to be staged", r, want.image)
	case r != "" && !here && n.failed != want:
		n.failed, n.failure = want, fmt.Sprintf("asked to reboot into %s, which is not staged", want.version)
	case n.failed == want:
	case !here:
		n.failed = fakeSystem{}
		return n.be(v1alpha1.UpdateDownloading, "fetching "+want.version)
	default:
		n.failed, n.staged = fakeSystem{}, want
		if r == "" {
			return n.be(v1alpha1.UpdateStaged, want.version+" is staged")
		}
		return n.be(v1alpha1.UpdateRebooting, "rebooting into "+want.version)
	}
	return n.be(v1alpha1.UpdateFailed, n.failure)
}

func (f *Fake) report(ctx context.Context, node *corev1.Node, n *fakeNode) {
	r := Report{
		v1alpha1.ImageAnnotation:           n.running.version,
		v1alpha1.KernelArgumentsAnnotation: v1alpha1.KernelArgumentsHash(n.running.arguments),
		v1alpha1.UpdatePhaseAnnotation:     string(n.phase),
		v1alpha1.UpdateMessageAnnotation:   n.message,
		v1alpha1.UpdateFailedAnnotation:    n.failed.image,
	}
	if err := tell(ctx, f.cfg.Client, node, r); err != nil && ctx.Err() == nil {
		f.log.Warn("report not written", "node", node.Name, "err", err)
		f.later(ctx, time.Second, node.Name)
	}
}
