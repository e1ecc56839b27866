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
	"time"

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
	cfg    Config
	client client.Reader
	ready  chan struct{}
	net    *network.Network
}

func newLateNetwork(cfg Config, c client.Reader) *lateNetwork {
	return &lateNetwork{cfg: cfg, client: c, ready: make(chan struct{})}
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
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		node, err := client.Get[*corev1.Node](ctx, l.client, schema.Key{Name: l.cfg.NodeName})
		if err == nil && node.Spec.PodCIDR != "" {
			cidr, err := netip.ParsePrefix(node.Spec.PodCIDR)
			if err != nil {
				return netip.Prefix{}, fmt.Errorf("parse pod range of node %s: %w", l.cfg.NodeName, err)
			}
			if err := os.MkdirAll(l.cfg.file("node"), 0o700); err != nil {
				return netip.Prefix{}, fmt.Errorf("remember pod range: %w", err)
			}
			return cidr, durable.WriteFile(path, []byte(cidr.String()+"\n"), 0o644)
		}
		select {
		case <-ctx.Done():
			return netip.Prefix{}, nil
		case <-tick.C:
		}
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

// Attached implements pod.Network.
func (l *lateNetwork) Attached(ctx context.Context) (map[string]network.Attachment, error) {
	if err := l.wait(ctx); err != nil {
		return nil, err
	}
	return l.net.Attached(ctx)
}
