// Package proxy sends traffic for the addresses of Services to their
// endpoints, and that for host ports to the pods of the node, in the kernel: it
// watches Services, EndpointSlices and Pods and owns the nftables table
// "writ-proxy". No packet passes through the process.
//
//	Services, EndpointSlices, Pods --plan.go, hostport.go--> entries by address --model.go--> ops --nft.go--> kernel
//
// The table is made of maps, not of chains for each Service (see nft.go): a
// lookup costs the same with one Service and with ten thousand, and a change
// touches only the elements it is about.
//
// It promises: what a change needs enters the kernel in one transaction; the
// table of an earlier process is replaced in one as well, and stays when Run
// returns; connections that exist are never cut, but for UDP flows to endpoints
// that are gone.
package proxy

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Config is everything the proxy needs from outside.
type Config struct {
	Cache client.Cache
	// NodeName tells endpoints of this node from others.
	NodeName string
	// NodeIPs are the addresses on which node and host ports answer, besides 127.0.0.1.
	// None means every address of the node.
	NodeIPs []netip.Addr
	// ClusterCIDR is the range of pod addresses: traffic to a ClusterIP from
	// outside of it is masqueraded.
	ClusterCIDR netip.Prefix
	// Kernel takes the rules. Default: nftables of the network namespace that
	// Run is called in.
	Kernel Kernel
	Log    *slog.Logger
}

const (
	// checkEvery is how often Run looks whether its table is still there:
	// `nft flush ruleset` takes it away without a word.
	checkEvery = 15 * time.Second
	// retryAfter is how long Run waits after the kernel refused a change.
	retryAfter = time.Second
)

// Proxy keeps the kernel in step with Services and EndpointSlices.
type Proxy struct {
	cfg   Config
	model *model

	mu       sync.Mutex // guards what subscriptions write
	services map[schema.Key]*service
	pods     map[schema.Key]*corev1.Pod // those with host ports, by podOwner
	dirty    map[schema.Key]bool
	wake     chan struct{}
	synced   chan struct{}
}

// New returns a proxy; it changes nothing before Run.
func New(cfg Config) *Proxy {
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.DiscardHandler)
	}
	return &Proxy{
		cfg:      cfg,
		model:    newModel(),
		services: map[schema.Key]*service{},
		pods:     map[schema.Key]*corev1.Pod{},
		dirty:    map[schema.Key]bool{},
		wake:     make(chan struct{}, 1),
		synced:   make(chan struct{}),
	}
}

// Synced is closed when the kernel has every Service that existed at the start.
func (p *Proxy) Synced() <-chan struct{} { return p.synced }

// Run keeps the kernel in step until ctx is done.
func (p *Proxy) Run(ctx context.Context) error {
	kernel := p.cfg.Kernel
	if kernel == nil {
		k, err := openNFT(p.cfg.ClusterCIDR, p.cfg.NodeIPs)
		if err != nil {
			return fmt.Errorf("open nftables: %w", err)
		}
		defer k.Close()
		kernel = k
	}
	// Slices first: a Service whose slices are not known yet would be closed.
	if err := p.cfg.Cache.Subscribe(ctx, schema.ResourceFor[*discoveryv1.EndpointSlice](), p.onSlice); err != nil {
		return fmt.Errorf("watch endpoint slices: %w", err)
	}
	if err := p.cfg.Cache.Subscribe(ctx, schema.ResourceFor[*corev1.Service](), p.onService); err != nil {
		return fmt.Errorf("watch services: %w", err)
	}
	if err := p.cfg.Cache.Subscribe(ctx, schema.ResourceFor[*corev1.Pod](), p.onPod); err != nil {
		return fmt.Errorf("watch pods: %w", err)
	}
	return p.loop(ctx, kernel)
}

// loop writes one change after the other. What arrives while one is written
// goes into the next.
func (p *Proxy) loop(ctx context.Context, kernel Kernel) error {
	check := time.NewTicker(checkEvery)
	defer check.Stop()
	whole := true // the kernel may hold anything
	for first := true; ; {
		changed := p.plan()
		err := p.write(kernel, changed, whole)
		whole = err != nil
		var retry <-chan time.Time
		if err != nil {
			p.cfg.Log.Warn("service rules are behind; writing all anew", "err", err, "retry", retryAfter)
			retry = time.After(retryAfter)
		} else if first {
			first = false
			close(p.synced)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-p.wake:
		case <-retry:
		case <-check.C:
			if ok, err := kernel.Intact(); err == nil && !ok {
				p.cfg.Log.Warn("service rules were removed by someone; writing them anew")
				whole = true
			}
		}
	}
}

// plan takes the services that changed into the model.
func (p *Proxy) plan() changes {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all changes
	for key := range p.dirty {
		created, desired := p.desired(key)
		all.add(p.model.set(key, created, desired))
	}
	clear(p.dirty)
	return all
}

// write brings a change into the kernel, or with whole everything.
func (p *Proxy) write(kernel Kernel, c changes, whole bool) error {
	if whole {
		c = p.model.everything(c)
		if err := kernel.Replace(c.ops); err != nil {
			return fmt.Errorf("replace service rules: %w", err)
		}
	} else if len(c.ops) > 0 {
		if err := kernel.Apply(c.ops); err != nil {
			return fmt.Errorf("change service rules: %w", err)
		}
	}
	if len(c.udp) == 0 {
		return nil
	}
	// Behind the rules: a packet in between would make the old flow again.
	flows := make(map[VIP][]netip.AddrPort, len(c.udp))
	for vip := range c.udp {
		flows[vip] = p.model.endpoints(vip)
	}
	if err := kernel.ForgetUDP(flows); err != nil {
		return fmt.Errorf("forget UDP flows: %w", err)
	}
	return nil
}

func (p *Proxy) onService(ev client.Event) {
	svc := ev.Object.(*corev1.Service)
	key := schema.KeyOf(svc)
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.service(key)
	s.spec = svc
	if ev.Type == client.Deleted {
		s.spec = nil
	}
	p.touch(key)
}

func (p *Proxy) onSlice(ev client.Event) {
	slice := ev.Object.(*discoveryv1.EndpointSlice)
	name := slice.Labels[discoveryv1.LabelServiceName]
	p.mu.Lock()
	defer p.mu.Unlock()
	if old, ok := ev.Old.(*discoveryv1.EndpointSlice); ok && old != nil && old.Labels[discoveryv1.LabelServiceName] != name {
		p.dropSlice(schema.Key{Namespace: old.Namespace, Name: old.Labels[discoveryv1.LabelServiceName]}, old.Name)
	}
	key := schema.Key{Namespace: slice.Namespace, Name: name}
	if ev.Type == client.Deleted {
		p.dropSlice(key, slice.Name)
		return
	}
	if name == "" {
		return
	}
	p.service(key).slices[slice.Name] = slice
	p.touch(key)
}

func (p *Proxy) dropSlice(key schema.Key, name string) {
	if s := p.services[key]; s != nil {
		delete(s.slices, name)
		p.touch(key)
	}
}

func (p *Proxy) service(key schema.Key) *service {
	s := p.services[key]
	if s == nil {
		s = &service{slices: map[string]*discoveryv1.EndpointSlice{}}
		p.services[key] = s
	}
	return s
}

func (p *Proxy) touch(key schema.Key) {
	p.dirty[key] = true
	select {
	case p.wake <- struct{}{}:
	default:
	}
}
