package cluster

import (
	"context"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Ready is closed when the node is registered and the server knows it as ready,
// since the machine was started last: what is said of the boot before does not
// count, because a new system proves itself by this.
func (n *Node) Ready() <-chan struct{} { return n.ready }

// watchReady closes Ready in its time.
func (n *Node) watchReady(ctx context.Context, cache client.Cache) error {
	boot, err := bootID()
	if err != nil {
		return err
	}
	tick := time.NewTicker(200 * time.Millisecond)
	defer tick.Stop()
	for {
		o, ok := client.Cached[*corev1.Node](cache, schema.Key{Name: n.cfg.NodeName})
		if ok && isReady(&o.Status, boot) {
			close(n.ready)
			return nil
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// isReady says whether a node's status is that of a boot, and ready.
func isReady(s *corev1.NodeStatus, boot string) bool {
	if s.NodeInfo.BootID != boot {
		return false
	}
	for _, c := range s.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
