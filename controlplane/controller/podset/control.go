package podset

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Burst is the most pods created or deleted in one reconcile.
const Burst = 500

// parallel bounds the calls in flight.
const parallel = 32

// Control creates and deletes pods for an owner, and says so in events.
type Control struct {
	Client   client.Interface
	Recorder *client.Recorder
	Pending  *Pending
}

// Create creates pods, and returns those that were created. A server that
// stores many objects at once is given all of them at once. Else, or where it
// refuses one, they go in batches of 1, 2, 4, ... until one fails: a quota that
// is used up is met once, not 500 times.
func (c Control) Create(ctx context.Context, owner schema.Object, pods []*corev1.Pod) ([]*corev1.Pod, error) {
	if t, ok := c.Client.(client.Transactor); ok && len(pods) > 1 {
		created, err := c.createAtOnce(ctx, t, owner, pods)
		if err == nil {
			return created, nil
		}
		if !errors.As(err, new(*client.TransactionError)) {
			return nil, fmt.Errorf("create %d pods of %s: %w", len(pods), schema.KeyOf(owner), err)
		}
	}
	var created []*corev1.Pod
	for size := 1; len(pods) > 0; size *= 2 {
		batch := pods[:min(size, len(pods))]
		pods = pods[len(batch):]
		done, err := c.createBatch(ctx, owner, batch)
		created = append(created, done...)
		if err != nil {
			return created, err
		}
	}
	return created, nil
}

func (c Control) createAtOnce(ctx context.Context, t client.Transactor, owner schema.Object, pods []*corev1.Pod) ([]*corev1.Pod, error) {
	r := schema.ResourceFor[*corev1.Pod]()
	ops := make([]client.Op, len(pods))
	for i, p := range pods {
		ops[i] = client.Op{Verb: client.VerbCreate, Resource: r, Key: schema.KeyOf(p), Object: p}
	}
	out, err := t.Transact(ctx, ops, false)
	if err != nil {
		return nil, err
	}
	created := make([]*corev1.Pod, len(out))
	for i, o := range out {
		created[i] = o.(*corev1.Pod)
		c.created(owner, created[i])
	}
	return created, nil
}

func (c Control) createBatch(ctx context.Context, owner schema.Object, pods []*corev1.Pod) ([]*corev1.Pod, error) {
	var mu sync.Mutex
	var created []*corev1.Pod
	var g errgroup.Group
	g.SetLimit(parallel)
	for _, p := range pods {
		g.Go(func() error {
			got, err := client.Create(ctx, c.Client, p, client.WriteOptions{})
			if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
				return nil // nothing is to be created there any more
			}
			if err != nil {
				c.Recorder.Eventf(owner, corev1.EventTypeWarning, "FailedCreate", "Error creating: %v", err)
				return fmt.Errorf("create pod: %w", err)
			}
			mu.Lock()
			defer mu.Unlock()
			created = append(created, got)
			c.created(owner, got)
			return nil
		})
	}
	err := g.Wait()
	return created, err
}

func (c Control) created(owner schema.Object, p *corev1.Pod) {
	c.Pending.Created(owner, p)
	c.Recorder.Eventf(owner, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: %v", p.Name)
}

// Delete asks pods to end.
func (c Control) Delete(ctx context.Context, owner schema.Object, pods []*corev1.Pod) error {
	var g errgroup.Group
	g.SetLimit(parallel)
	for _, p := range pods {
		g.Go(func() error {
			err := client.Delete[*corev1.Pod](ctx, c.Client, schema.KeyOf(p), client.DeleteOptions{})
			if apierrors.IsNotFound(err) {
				return nil
			}
			if err != nil {
				c.Recorder.Eventf(owner, corev1.EventTypeWarning, "FailedDelete", "Error deleting: %v", err)
				return fmt.Errorf("delete pod %s: %w", schema.KeyOf(p), err)
			}
			c.Pending.Deleted(owner, p)
			c.Recorder.Eventf(owner, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: %v", p.Name)
			return nil
		})
	}
	return g.Wait()
}
