package cluster

import (
	"context"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/nodeagent"
	"github.com/writ-os/writ/schema"
)

// Simulate runs nodes that are not there until ctx ends. They share one
// credential, the break-glass one: a node's own would let it be one node only.
func Simulate(ctx context.Context, cfg NodeConfig, count int) error {
	if cfg.Kubeconfig == "" {
		cfg.Kubeconfig = cfg.AdminKubeconfig()
	}
	c, err := remote(cfg.Kubeconfig, cfg.Server, "kubelet")
	if err != nil {
		return err
	}
	log := cfg.Log.With("part", "simulate")
	cache := client.NewCache(client.CacheConfig{Client: c, Log: log, Resources: []client.Selection{
		{Resource: schema.ResourceFor[*corev1.Pod]()}, {Resource: schema.ResourceFor[*corev1.Service]()},
	}})
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return cache.Run(ctx) })
	g.Go(func() error {
		return nodeagent.Simulate(ctx, nodeagent.SimulateConfig{Client: c, Cache: cache, Count: count, Prefix: "node", Log: log})
	})
	return g.Wait()
}
