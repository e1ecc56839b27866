package nodeagent

import (
	"context"
	"fmt"
	"log/slog"
	"net/netip"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent/network"
	"github.com/writ-os/writ/nodeagent/runtime/fake"
	"github.com/writ-os/writ/schema"
)

// SimulateConfig configures simulated nodes.
type SimulateConfig struct {
	Client client.Interface
	// Cache holds all Pods; the nodes share it.
	Cache client.Cache
	Count int
	// Prefix of the names: "node" makes node-0, node-1, ...
	Prefix string
	// Capacity of each; default 32 CPUs, 256 GiB, 110 pods.
	Capacity corev1.ResourceList
	Labels   map[string]string
	Log      *slog.Logger
}

// Simulate runs nodes that are not there: they register, keep leases, and
// report the pods bound to them as running, without a container. It blocks
// until ctx ends.
func Simulate(ctx context.Context, cfg SimulateConfig) error {
	if cfg.Capacity == nil {
		cfg.Capacity = corev1.ResourceList{
			corev1.ResourceCPU:    resource.MustParse("32"),
			corev1.ResourceMemory: resource.MustParse("256Gi"),
		}
	}
	if cfg.Prefix == "" {
		cfg.Prefix = "node"
	}
	events := client.NewRecorder(cfg.Client, "kubelet", "")
	hub := &hub{Cache: cfg.Cache, byNode: map[string][]func(client.Event){}}
	g, ctx := errgroup.WithContext(ctx)
	for i := range cfg.Count {
		name := fmt.Sprintf("%s-%d", cfg.Prefix, i)
		a := New(Config{
			NodeName: name, NodeIP: fmt.Sprintf("172.%d.%d.%d", 16+i>>16, i>>8&255, i&255),
			Client: cfg.Client, Cache: hub.of(name), Runtime: fake.New(fake.Config{}),
			Network: newFakeNetwork(i), Capacity: cfg.Capacity, Labels: cfg.Labels, Log: cfg.Log, simulated: true, events: events.Of("kubelet", name),
		})
		g.Go(func() error { return a.Run(ctx) })
	}
	g.Go(func() error { return hub.run(ctx) })
	return g.Wait()
}

// hub hands every pod event to its node only: one subscription for all.
type hub struct {
	client.Cache
	mu     sync.Mutex
	byNode map[string][]func(client.Event)
}

func (h *hub) run(ctx context.Context) error {
	err := h.Cache.Subscribe(ctx, schema.ResourceFor[*corev1.Pod](), func(e client.Event) {
		p, ok := e.Object.(*corev1.Pod)
		if !ok || p.Spec.NodeName == "" {
			return
		}
		h.mu.Lock()
		fns := h.byNode[p.Spec.NodeName]
		h.mu.Unlock()
		for _, fn := range fns {
			fn(e)
		}
	})
	if err != nil {
		return fmt.Errorf("follow pods: %w", err)
	}
	<-ctx.Done()
	return nil
}

func (h *hub) of(node string) client.Cache { return nodeCache{h, node} }

// nodeCache is a node's view of the shared cache.
type nodeCache struct {
	*hub
	node string
}

// Subscribe delivers the pods of the node: those that exist, then changes. An
// event may come twice; the receiver goes by what the object says.
func (c nodeCache) Subscribe(_ context.Context, r *schema.Resource, fn func(client.Event)) error {
	if r != schema.ResourceFor[*corev1.Pod]() {
		return fmt.Errorf("subscribe: simulated nodes follow pods only, not %s", r)
	}
	c.mu.Lock()
	c.byNode[c.node] = append(c.byNode[c.node], fn)
	c.mu.Unlock()
	for _, o := range c.Index(r, client.IndexNode, c.node) {
		fn(client.Event{Type: client.Added, Object: o})
	}
	return nil
}

// fakeNetwork gives out addresses and makes nothing.
type fakeNetwork struct {
	node int
	mu   sync.Mutex
	next int
	have map[string]network.Attachment
}

func newFakeNetwork(node int) *fakeNetwork {
	return &fakeNetwork{node: node, have: map[string]network.Attachment{}}
}

func (n *fakeNetwork) Attach(_ context.Context, p network.Pod) (network.Attachment, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if a, ok := n.have[p.UID]; ok || p.HostNetwork {
		return a, nil
	}
	n.next++
	ip := netip.AddrFrom4([4]byte{10, byte(n.node >> 8), byte(n.node), byte(1 + n.next%254)})
	a := network.Attachment{IPs: []netip.Addr{ip}}
	n.have[p.UID] = a
	return a, nil
}

func (n *fakeNetwork) Detach(_ context.Context, uid string) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.have, uid)
	return nil
}
