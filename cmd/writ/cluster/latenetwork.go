package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/durable"
	"github.com/writ-os/writ/nodeagent/network"
	"github.com/writ-os/writ/schema"
)

// lateNetwork is the network of a node whose range of addresses is given by the
// control plane after the node has registered. Pods wait for it. The range is
// remembered, so that a node that restarts while the server is away goes on.
type lateNetwork struct {
	cfg   Config
	cache client.Cache
	ready chan struct{}
	net   *network.Network
}

func newLateNetwork(cfg Config, cache client.Cache) *lateNetwork {
	return &lateNetwork{cfg: cfg, cache: cache, ready: make(chan struct{})}
}

// networkConfig says where the network of a data directory is: two clusters on
// a machine, in network namespaces of their own, do not see each other's pods.
func networkConfig(cfg Config) network.Config {
	sum := sha256.Sum256([]byte(cfg.DataDir))
	return network.Config{ClusterCIDR: cfg.podCIDR(), ServiceCIDR: ServiceCIDR, DNSAddr: DNSService,
		StateDir: cfg.file("node", "network"), NetNSDir: "/run/writ/netns-" + hex.EncodeToString(sum[:4])}
}

// run waits for the range and makes the network.
func (l *lateNetwork) run(ctx context.Context) error {
	cidr, err := l.podCIDR(ctx)
	if err != nil || ctx.Err() != nil {
		return err
	}
	conf := networkConfig(l.cfg)
	conf.PodCIDR, conf.Log = cidr, l.cfg.Log.With("part", "network")
	l.net = network.New(conf)
	if err := l.net.Setup(ctx); err != nil {
		return err
	}
	close(l.ready)
	<-ctx.Done()
	return nil
}

func (l *lateNetwork) podCIDR(ctx context.Context) (netip.Prefix, error) {
	path := l.cfg.file("node", "pod-cidr")
	if b, err := os.ReadFile(path); err == nil {
		if cidr, err := netip.ParsePrefix(strings.TrimSpace(string(b))); err == nil {
			return cidr, nil
		}
	} else if !errors.Is(err, os.ErrNotExist) {
		return netip.Prefix{}, fmt.Errorf("read pod range: %w", err)
	}
	cidr, err := l.given(ctx)
	if err != nil || ctx.Err() != nil {
		return netip.Prefix{}, err
	}
	if err := os.MkdirAll(l.cfg.file("node"), 0o700); err != nil {
		return netip.Prefix{}, fmt.Errorf("remember pod range: %w", err)
	}
	return cidr, durable.WriteFile(path, []byte(cidr.String()+"\n"), 0o644)
}

// given waits until the Node of this machine has its range; until ctx ends.
func (l *lateNetwork) given(ctx context.Context) (netip.Prefix, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	text := make(chan string, 1)
	err := l.cache.Subscribe(ctx, schema.ResourceFor[*corev1.Node](), func(ev client.Event) {
		if n, ok := ev.Object.(*corev1.Node); ok && n.Name == l.cfg.NodeName && n.Spec.PodCIDR != "" {
			select {
			case text <- n.Spec.PodCIDR:
			default: // it never changes
			}
		}
	})
	if ctx.Err() != nil {
		return netip.Prefix{}, nil
	}
	if err != nil {
		return netip.Prefix{}, fmt.Errorf("subscribe to the node: %w", err)
	}
	select {
	case <-ctx.Done():
		return netip.Prefix{}, nil
	case got := <-text:
		cidr, err := netip.ParsePrefix(got)
		if err != nil {
			return netip.Prefix{}, fmt.Errorf("parse pod range of node %s: %w", l.cfg.NodeName, err)
		}
		return cidr, nil
	}
}

func (l *lateNetwork) wait(ctx context.Context) error {
	select {
	case <-l.ready:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the node's range of pod addresses: %w", ctx.Err())
	}
}

// Attach implements pod.Network.
func (l *lateNetwork) Attach(ctx context.Context, p network.Pod) (network.Attachment, error) {
	if err := l.wait(ctx); err != nil {
		return network.Attachment{}, err
	}
	return l.net.Attach(ctx, p)
}

// Detach implements pod.Network.
func (l *lateNetwork) Detach(ctx context.Context, uid string) error {
	if err := l.wait(ctx); err != nil {
		return err
	}
	return l.net.Detach(ctx, uid)
}
