package registry

import (
	"context"
	"slices"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
)

// Get implements client.Reader.
func (g *Registry) Get(ctx context.Context, r *schema.Resource, key schema.Key) (schema.Object, error) {
	if err := g.current(ctx); err != nil {
		return nil, err
	}
	if err := g.Readable(r); err != nil {
		return nil, err
	}
	it := g.store.Get(r, key)
	if it == nil {
		return nil, notFound(r, key.Name)
	}
	shown, err := g.Show(ctx, r, it)
	if err != nil {
		return nil, err
	}
	return shown[0].Object, nil
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
		return showScale(r, o)
	case sub == "status" && r.Status, sub == "ephemeralcontainers" || sub == "resize":
		return o, nil
	}
	return nil, subresourceNotFound(r, sub, key.Name)
}

// List implements client.Reader.
func (g *Registry) List(ctx context.Context, r *schema.Resource, o client.ListOptions) (client.List, error) {
	if err := CheckFields(r, o.Fields); err != nil {
		return client.List{}, err
	}
	if err := g.current(ctx); err != nil {
		return client.List{}, err
	}
	if err := g.Readable(r); err != nil {
		return client.List{}, err
	}
	s := g.store.Snapshot(r)
	items, err := g.selected(ctx, s, r, o)
	if err != nil {
		return client.List{}, err
	}
	return client.List{Items: collect(slices.Values(items)), ResourceVersion: s.Version().String()}, nil
}

// selected returns what the options select, as the version of the request shows
// it.
func (g *Registry) selected(ctx context.Context, s store.Snapshot, r *schema.Resource, o client.ListOptions) ([]*store.Item, error) {
	if r.Custom == nil && r.Storage == nil {
		return slices.Collect(Select(s, r, o)), nil
	}
	items, err := g.Show(ctx, r, slices.Collect(candidates(s, o))...)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(items, func(it *store.Item) bool { return !Matches(r, it.Object, o) }), nil
}
