package registry

import (
	"context"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Update implements client.Writer. The key of the object is that of the
// options, if they name one, or else the object's own.
func (g *Registry) Update(ctx context.Context, r *schema.Resource, o schema.Object, w client.WriteOptions) (schema.Object, error) {
	updated, _, err := g.UpdateOrCreate(ctx, r, o, w)
	return updated, err
}

// UpdateOrCreate is Update that also says whether the object was created, which
// some kinds allow.
func (g *Registry) UpdateOrCreate(ctx context.Context, r *schema.Resource, o schema.Object, w client.WriteOptions) (updated schema.Object, created bool, err error) {
	if w.Subresource == "scale" {
		updated, err = g.updateScale(ctx, r, o, w)
		return updated, false, err
	}
	if err := checkDoor(r, w.Subresource, o.GetName()); err != nil {
		return nil, false, err
	}
	updated, err = g.one(ctx, r, w.DryRun, func(ov *overlay) (*entry, error) {
		e, isNew, err := g.update(ctx, ov, r, o.DeepCopyObject().(schema.Object), w)
		created = isNew
		return e, err
	})
	return updated, created, err
}

// checkDoor refuses a subresource through which the object cannot be written.
func checkDoor(r *schema.Resource, sub, name string) error {
	switch sub {
	case "":
		return nil
	case "status":
		if r.Status {
			return nil
		}
	case "finalize", "ephemeralcontainers", "resize", "approval":
		if slices.Contains(r.Subresources, sub) {
			return nil
		}
	}
	return subresourceNotFound(r, sub, name)
}

// update admits the new state of an object, which it owns, over an overlay.
func (g *Registry) update(ctx context.Context, ov *overlay, r *schema.Resource, o schema.Object, opt client.WriteOptions) (e *entry, created bool, err error) {
	key := opt.Key
	if key.Name == "" {
		key = schema.KeyOf(o)
	}
	if err := checkKey(r, o, key); err != nil {
		return nil, false, err
	}
	if o, err = intoWorking(ctx, r, o); err != nil {
		return nil, false, err
	}
	old, err := current(ctx, ov, r, key)
	if err != nil {
		return nil, false, err
	}
	if old != nil {
		e, err = g.newWrite(ctx, ov, "update", r, opt.Subresource, key, opt).update(ctx, o, old)
		return e, false, err
	}
	if !g.rule(r).CreateOnUpdate || opt.Subresource != "" {
		return nil, false, notFound(r, key.Name)
	}
	if v := o.GetResourceVersion(); v != "" && v != "0" {
		return nil, false, conflictError(r, key.Name)
	}
	if uid := o.GetUID(); uid != "" {
		return nil, false, apierrors.NewConflict(r.GroupResource(), key.Name, fmt.Errorf( //nolint:staticcheck // upstream's text
			"Precondition failed: UID in precondition: %v, UID in object meta: ", uid))
	}
	o.SetResourceVersion("")
	e, err = g.create(ctx, ov, r, o, opt)
	return e, true, err
}
