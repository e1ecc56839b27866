package controller

import (
	"context"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Noting returns a client that tells the runner of a key about the writes that
// its rounds make, so that the runner knows a round that did something from one
// that did nothing. A Transactor stays one.
func Noting(c client.Interface) client.Interface {
	if t, ok := c.(client.Transactor); ok {
		return notingAll{noting{c}, t}
	}
	return noting{c}
}

type noting struct{ client.Interface }

type notingAll struct {
	noting
	all client.Transactor
}

type effectKey struct{}

// withEffect returns a context in which writes are noted.
func withEffect(ctx context.Context) (context.Context, *atomic.Bool) {
	wrote := &atomic.Bool{}
	return context.WithValue(ctx, effectKey{}, wrote), wrote
}

func note(ctx context.Context, wrote bool) {
	if e, ok := ctx.Value(effectKey{}).(*atomic.Bool); ok && wrote {
		e.Store(true)
	}
}

// Create implements client.Writer.
func (n noting) Create(ctx context.Context, r *schema.Resource, o schema.Object, w client.WriteOptions) (schema.Object, error) {
	out, err := n.Interface.Create(ctx, r, o, w)
	note(ctx, err == nil)
	return out, err
}

// Update implements client.Writer. One that changes nothing leaves the version.
func (n noting) Update(ctx context.Context, r *schema.Resource, o schema.Object, w client.WriteOptions) (schema.Object, error) {
	out, err := n.Interface.Update(ctx, r, o, w)
	note(ctx, err == nil && (o.GetResourceVersion() == "" || out.GetResourceVersion() != o.GetResourceVersion()))
	return out, err
}

// Patch implements client.Writer.
func (n noting) Patch(ctx context.Context, r *schema.Resource, key schema.Key, t types.PatchType, data []byte, w client.WriteOptions) (schema.Object, error) {
	out, err := n.Interface.Patch(ctx, r, key, t, data, w)
	note(ctx, err == nil)
	return out, err
}

// Delete implements client.Writer.
func (n noting) Delete(ctx context.Context, r *schema.Resource, key schema.Key, d client.DeleteOptions) error {
	err := n.Interface.Delete(ctx, r, key, d)
	note(ctx, err == nil)
	return err
}

// Transact implements client.Transactor.
func (n notingAll) Transact(ctx context.Context, ops []client.Op, dryRun bool) ([]schema.Object, error) {
	out, err := n.all.Transact(ctx, ops, dryRun)
	note(ctx, err == nil && !dryRun)
	return out, err
}
