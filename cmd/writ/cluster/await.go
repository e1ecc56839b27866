package cluster

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/v1alpha1"
)

// Await tells the progress of a cluster that starts, until its node is ready
// and the newest commit is in it and healthy. A commit that is refused ends the
// wait too: the cluster is up, and status says why.
func (p *ControlPlane) Await(ctx context.Context) error {
	select {
	case <-p.Ready():
	case <-ctx.Done():
		return ctx.Err()
	}
	p.cfg.step("node", "waiting for "+p.cfg.NodeName+" to register")
	if err := p.poll(ctx, p.nodeReady); err != nil {
		return err
	}
	p.cfg.step("commit", "waiting for the first commit")
	return p.poll(ctx, p.commitDone)
}

func (p *ControlPlane) poll(ctx context.Context, done func() bool) error {
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-tick.C:
		}
	}
	return nil
}

func (p *ControlPlane) nodeReady() bool {
	n, ok := client.Cached[*corev1.Node](p.registry.Cache(), schema.Key{Name: p.cfg.NodeName})
	if !ok {
		return false
	}
	for _, c := range n.Status.Conditions {
		if c.Type == corev1.NodeReady {
			p.cfg.step("node", fmt.Sprintf("%s: %s", p.cfg.NodeName, c.Message))
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

func (p *ControlPlane) commitDone() bool {
	var newest *v1alpha1.Commit
	for _, c := range client.CachedList[*v1alpha1.Commit](p.registry.Cache(), "") {
		if newest == nil || c.CreationTimestamp.After(newest.CreationTimestamp.Time) {
			newest = c
		}
	}
	if newest == nil {
		repo, ok := client.Cached[*v1alpha1.Repository](p.registry.Cache(), schema.Key{Name: RepositoryName})
		return ok && len(repo.Status.Conditions) > 0 && repo.Status.Conditions[0].Status == "False"
	}
	s := newest.Status
	p.cfg.step("commit", fmt.Sprintf("%.12s %s: %d of %d objects ready", newest.Spec.SHA, s.Phase, s.Ready, s.Objects))
	return s.Phase == v1alpha1.CommitHealthy || s.Phase == v1alpha1.CommitFailed
}
