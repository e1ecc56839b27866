package job

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/controller/podset"
	"github.com/writ-os/writ/schema"
)

// parallel bounds the patches in flight where there are no transactions.
const parallel = 32

// release takes the finalizer off pods: all in one transaction where the server
// has them, so that the Job is woken once for all. Where one of them has changed
// meanwhile each is patched by itself, and those that have not are let go.
func (c *Controller) release(ctx context.Context, pods []*corev1.Pod) error {
	held := make([]*corev1.Pod, 0, len(pods))
	for _, p := range pods {
		if tracked(p) {
			held = append(held, p)
		}
	}
	for batch := range slices.Chunk(held, podset.Burst) {
		if err := c.releaseBatch(ctx, batch); err != nil {
			return err
		}
	}
	return nil
}

func (c *Controller) releaseBatch(ctx context.Context, pods []*corev1.Pod) error {
	if t, ok := c.cfg.Client.(client.Transactor); ok && len(pods) > 1 {
		err := releaseAtOnce(ctx, t, pods)
		if !errors.As(err, new(*client.TransactionError)) {
			return err
		}
	}
	var g errgroup.Group
	g.SetLimit(parallel)
	for _, p := range pods {
		g.Go(func() error { return c.releaseOne(ctx, p) })
	}
	return g.Wait()
}

func releaseAtOnce(ctx context.Context, t client.Transactor, pods []*corev1.Pod) error {
	r := schema.ResourceFor[*corev1.Pod]()
	ops := make([]client.Op, len(pods))
	for i, p := range pods {
		next := p.DeepCopy()
		next.Finalizers = withoutOurs(p)
		ops[i] = client.Op{Verb: client.VerbUpdate, Resource: r, Key: schema.KeyOf(p), Object: next, ResourceVersion: p.ResourceVersion}
	}
	if _, err := t.Transact(ctx, ops, false); err != nil {
		return fmt.Errorf("release %d pods: %w", len(pods), err)
	}
	return nil
}

func (c *Controller) releaseOne(ctx context.Context, p *corev1.Pod) error {
	data, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": p.UID, "finalizers": withoutOurs(p), "resourceVersion": p.ResourceVersion}})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	_, err = c.cfg.Client.Patch(ctx, schema.ResourceOf(p), schema.KeyOf(p), types.MergePatchType, data, client.WriteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("release pod %s: %w", schema.KeyOf(p), err)
	}
	return nil
}

func withoutOurs(p *corev1.Pod) []string {
	return slices.DeleteFunc(slices.Clone(p.Finalizers), func(f string) bool { return f == batchv1.JobTrackingFinalizer })
}
