package registry

import (
	"context"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Get implements client.Reader.
func (g *Registry) Get(_ context.Context, r *schema.Resource, key schema.Key) (schema.Object, error) {
	it := g.store.Get(r, key)
	if it == nil {
		return nil, notFound(r, key.Name)
	}
	return it.Object, nil
}

// GetSubresource returns what GET on a subresource shows: "scale" an
// *autoscalingv1.Scale, those that are doors to the object the object.
func (g *Registry) GetSubresource(ctx context.Context, r *schema.Resource, key schema.Key, sub string) (schema.Object, error) {
	o, err := g.Get(ctx, r, key)
	if err != nil {
		return nil, err
	}
	switch {
	case sub == "scale" && r.Scale:
		return scaleOf(o)
	case sub == "status" && r.Status, sub == "ephemeralcontainers" || sub == "resize":
		return o, nil
	}
	return nil, subresourceNotFound(r, sub, key.Name)
}

// List implements client.Reader.
func (g *Registry) List(_ context.Context, r *schema.Resource, o client.ListOptions) (client.List, error) {
	if err := CheckFields(r, o.Fields); err != nil {
		return client.List{}, err
	}
	s := g.store.Snapshot(r)
	return client.List{Items: collect(Select(s, r, o)), ResourceVersion: s.Version().String()}, nil
}
