package registry

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apiserver/pkg/storage/names"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// generateTries is how many names are tried for metadata.generateName.
const generateTries = 8

// Create implements client.Writer. With the subresources "binding" and
// "eviction" it returns the pod.
func (g *Registry) Create(ctx context.Context, r *schema.Resource, o schema.Object, w client.WriteOptions) (schema.Object, error) {
	switch w.Subresource {
	case "":
	case "binding":
		return g.bind(ctx, r, w.Key, o, w)
	case "eviction":
		return g.evict(ctx, r, w.Key, o, w)
	default:
		return nil, subresourceNotFound(r, w.Subresource, w.Key.Name)
	}
	return g.one(ctx, r, w.DryRun, func(ov *overlay) (*entry, error) {
		return g.create(ctx, ov, r, o.DeepCopyObject().(schema.Object), w)
	})
}

// create admits a new object, which it owns, over an overlay.
func (g *Registry) create(ctx context.Context, ov *overlay, r *schema.Resource, o schema.Object, w client.WriteOptions) (*entry, error) {
	version := o.GetResourceVersion()
	o, err := intoWorking(ctx, r, o)
	if err != nil {
		return nil, err
	}
	if err := placeIn(r, o, w.Key.Namespace); err != nil {
		return nil, err
	}
	key, err := nameOf(ov, r, o)
	if err != nil {
		return nil, err
	}
	fillMeta(o)
	n := g.newWrite(ctx, ov, "create", r, "", key, w)
	n.version = version
	return n.create(ctx, o)
}

// placeIn makes the namespace of an object the one of the request, if the
// request names one.
func placeIn(r *schema.Resource, o schema.Object, namespace string) error {
	switch {
	case !r.Namespaced:
		o.SetNamespace("")
	case o.GetNamespace() == "":
		o.SetNamespace(namespace)
	case namespace != "" && namespace != o.GetNamespace():
		return apierrors.NewBadRequest(namespaceDiffers)
	}
	if r.Namespaced && o.GetNamespace() == "" {
		return apierrors.NewBadRequest("an empty namespace may not be set during creation")
	}
	return nil
}

// nameOf returns the key of a new object and makes up its name where it asks
// for that.
func nameOf(ov *overlay, r *schema.Resource, o schema.Object) (schema.Key, error) {
	if o.GetName() != "" || o.GetGenerateName() == "" {
		return schema.KeyOf(o), nil
	}
	prefix := o.GetGenerateName()
	for range generateTries {
		o.SetName(names.SimpleNameGenerator.GenerateName(prefix))
		if ov.get(r, schema.KeyOf(o)) == nil {
			return schema.KeyOf(o), nil
		}
	}
	return schema.Key{}, apierrors.NewGenerateNameConflict(r.GroupResource(), o.GetName(), 1)
}

// checkKey refuses an object whose name is not that of the request.
func checkKey(r *schema.Resource, o schema.Object, key schema.Key) error {
	if o.GetName() == "" {
		o.SetName(key.Name)
	}
	if o.GetName() != key.Name {
		return apierrors.NewBadRequest(fmt.Sprintf(
			"the name of the object (%s) does not match the name on the URL (%s)", o.GetName(), key.Name))
	}
	return placeIn(r, o, key.Namespace)
}
