package registry

import (
	"context"
	"errors"
	"fmt"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/writ-os/writ/controlplane/store"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
)

// A request names a version of a kind, the store keeps another. The rules of
// built-in kinds work on what is stored; those of custom resources, which a
// definition states for each version, on the version of the request.
func working(r *schema.Resource) *schema.Resource {
	if r.Custom != nil {
		return r
	}
	return r.Stored()
}

// asAsked returns stored objects as the requested version shows them. The
// objects stay as they are, and come back themselves where nothing differs.
func asAsked(ctx context.Context, r *schema.Resource, stored []schema.Object) ([]schema.Object, error) {
	if r.Custom == nil && r.Storage == nil {
		return stored, nil
	}
	out := stored
	if r.Convert != nil {
		var err error
		if out, err = r.Convert(ctx, stored); err != nil {
			return nil, conversionError(err)
		}
		if len(out) != len(stored) {
			return nil, apierrors.NewInternalError(fmt.Errorf("convert %v: %d objects became %d", r, len(stored), len(out)))
		}
	}
	if r.Custom == nil {
		return out, nil
	}
	out = slices.Clone(out)
	for i, o := range out {
		if o != stored[i] {
			continue // a copy, defaulted in its own version and pruned in this one
		}
		u, ok := o.DeepCopyObject().(*unstructured.Unstructured)
		if !ok {
			return nil, apierrors.NewInternalError(fmt.Errorf("convert %v %v: into a %T", r, schema.KeyOf(o), o))
		}
		complete(r, u)
		out[i] = u
	}
	return out, nil
}

// complete brings a custom resource into the form that its definition wants:
// without fields that the schema does not know, with its defaults.
func complete(r *schema.Resource, u *unstructured.Unstructured) {
	u.SetGroupVersionKind(r.GVK())
	r.Custom.Prune(u.Object)
	r.Custom.Default(u.Object)
}

// asked is asAsked of one object.
func asked(ctx context.Context, r *schema.Resource, stored schema.Object) (schema.Object, error) {
	if stored == nil || r.Custom == nil && r.Storage == nil {
		return stored, nil
	}
	out, err := asAsked(ctx, r, []schema.Object{stored})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// intoWorking takes over an object of the requested version, or of the stored
// one, and returns what the rules work on.
func intoWorking(ctx context.Context, r *schema.Resource, o schema.Object) (schema.Object, error) {
	if u, ok := o.(*unstructured.Unstructured); ok && r.Custom != nil {
		if gvk := u.GroupVersionKind(); gvk != r.GVK() {
			return nil, apierrors.NewBadRequest(fmt.Sprintf(
				"the API version in the data (%s) does not match the expected API version (%s)", u.GetAPIVersion(), r.APIVersion()))
		}
		complete(r, u)
		return u, nil
	}
	s := r.Stored()
	if r.Custom != nil || s == r {
		return o, nil
	}
	defaults.Apply(o)
	out, err := s.Convert(ctx, []schema.Object{o})
	if err != nil {
		return nil, conversionError(err)
	}
	return out[0], nil
}

// intoStored returns an object that the rules have admitted as the store keeps
// it.
func intoStored(ctx context.Context, r *schema.Resource, o schema.Object) (schema.Object, error) {
	s := r.Stored()
	if r.Custom == nil || s.Convert == nil || o == nil {
		return o, nil
	}
	out, err := s.Convert(ctx, []schema.Object{o})
	if err != nil {
		return nil, conversionError(err)
	}
	return out[0], nil
}

// current returns the newest state of an object as the rules work on it; nil
// when there is none. Nobody may change it.
func current(ctx context.Context, ov *overlay, r *schema.Resource, key schema.Key) (schema.Object, error) {
	return asked(ctx, working(r), ov.get(r, key))
}

// decodeJSON reads an object of a resource. If strict, fields that the kind
// does not have come back as a strict decoding error with the object.
func decodeJSON(r *schema.Resource, data []byte, strict bool) (schema.Object, error) {
	if r.Custom == nil {
		return schema.Decode(r, schema.JSON, data, strict)
	}
	u := &unstructured.Unstructured{}
	if err := u.UnmarshalJSON(data); err != nil {
		return nil, err
	}
	unknown, err := decodeCustom(r, u.Object)
	if err != nil {
		return nil, err
	}
	if !strict || len(unknown) == 0 {
		return u, nil
	}
	errs := make([]error, len(unknown))
	for i, path := range unknown {
		errs[i] = fmt.Errorf("unknown field %q", path)
	}
	return u, runtime.NewStrictDecodingError(errs)
}

// decodeCustom drops the fields that a definition does not know and returns
// their paths. Metadata of the wrong type is an error.
func decodeCustom(r *schema.Resource, content map[string]any) (unknown []string, err error) {
	if d, ok := r.Custom.(interface {
		Decode(map[string]any) ([]string, error)
	}); ok {
		return d.Decode(content)
	}
	return r.Custom.Prune(content), nil
}

func conversionError(err error) error {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return apierrors.NewInternalError(err)
}

// Show returns items of the store as a version of their resource shows them, in
// order: converted in one call, and of custom resources without what the schema
// does not know and with its defaults. What it has shown is kept with the item,
// so that the next reader of the same version shares object and encodings.
func (g *Registry) Show(ctx context.Context, r *schema.Resource, items ...*store.Item) ([]*store.Item, error) {
	if r.Custom == nil && r.Storage == nil {
		return items, nil
	}
	out := make([]*store.Item, len(items))
	var missing []int
	var stored []schema.Object
	for i, it := range items {
		if out[i] = it.Shown(r); out[i] == nil {
			missing, stored = append(missing, i), append(stored, it.Object)
		}
	}
	if len(missing) == 0 {
		return out, nil
	}
	objects, err := asAsked(ctx, r, stored)
	if err != nil {
		return nil, err
	}
	for n, i := range missing {
		o := objects[n]
		if o == stored[n] { // the store's own, which nobody may change
			out[i] = items[i]
			continue
		}
		out[i] = items[i].Show(r, o)
	}
	return out, nil
}
