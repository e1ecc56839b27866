package client

import (
	"context"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/endpoints/request"

	"github.com/writ-os/writ/schema"
)

// LocalClient is a client of a server in the same process: no codec, no
// network, no copy. It is a Backend itself, so that who is given one may look
// for the Transactor and the Cache behind it.
type LocalClient struct {
	backend Backend
	user    user.Info
	manager string
}

var _ Backend = (*LocalClient)(nil)

// Local returns a client that calls the backend as a user. Writes that name no
// field manager get the given one.
func Local(b Backend, u user.Info, fieldManager string) *LocalClient {
	return &LocalClient{backend: b, user: u, manager: fieldManager}
}

// Component is the user of a part of the server's own process, by type: users
// that come in over the network never have it, whatever they are called, as no
// certificate and no impersonation makes one.
type Component interface {
	user.Info
	// InProcess marks the type and does nothing.
	InProcess()
}

func (c *LocalClient) as(ctx context.Context) context.Context {
	return request.WithUser(ctx, c.user)
}

func (c *LocalClient) options(w WriteOptions) WriteOptions {
	if w.FieldManager == "" {
		w.FieldManager = c.manager
	}
	return w
}

// Get implements Reader.
func (c *LocalClient) Get(ctx context.Context, r *schema.Resource, key schema.Key) (schema.Object, error) {
	return c.backend.Get(c.as(ctx), r, key)
}

// List implements Reader.
func (c *LocalClient) List(ctx context.Context, r *schema.Resource, o ListOptions) (List, error) {
	return c.backend.List(c.as(ctx), r, o)
}

// Watch implements Reader.
func (c *LocalClient) Watch(ctx context.Context, r *schema.Resource, o WatchOptions) (Watcher, error) {
	return c.backend.Watch(c.as(ctx), r, o)
}

// Create implements Writer.
func (c *LocalClient) Create(ctx context.Context, r *schema.Resource, o schema.Object, w WriteOptions) (schema.Object, error) {
	return c.backend.Create(c.as(ctx), r, o, c.options(w))
}

// Update implements Writer.
func (c *LocalClient) Update(ctx context.Context, r *schema.Resource, o schema.Object, w WriteOptions) (schema.Object, error) {
	return c.backend.Update(c.as(ctx), r, o, c.options(w))
}

// Patch implements Writer.
func (c *LocalClient) Patch(ctx context.Context, r *schema.Resource, key schema.Key, t types.PatchType, data []byte, w WriteOptions) (schema.Object, error) {
	return c.backend.Patch(c.as(ctx), r, key, t, data, c.options(w))
}

// Delete implements Writer.
func (c *LocalClient) Delete(ctx context.Context, r *schema.Resource, key schema.Key, d DeleteOptions) error {
	return c.backend.Delete(c.as(ctx), r, key, d)
}

// Transact implements Transactor.
func (c *LocalClient) Transact(ctx context.Context, ops []Op, dryRun bool) ([]schema.Object, error) {
	named := make([]Op, len(ops))
	for i, op := range ops {
		if op.FieldManager == "" {
			op.FieldManager = c.manager
		}
		named[i] = op
	}
	return c.backend.Transact(c.as(ctx), named, dryRun)
}

// Cache implements Backend.
func (c *LocalClient) Cache() Cache { return c.backend.Cache() }
