package registry

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
)

// empty is an object of a resource with nothing in it.
func empty(r *schema.Resource) schema.Object {
	o := r.New()
	o.GetObjectKind().SetGroupVersionKind(r.GVK())
	return o
}

// versions converts between the versions of a kind, for the field managers:
// each owner's fields are of the version by which it wrote.
type versions struct {
	r       *schema.Resource
	catalog *schema.Live
}

// Convert implements runtime.ObjectConvertor.
func (versions) Convert(in, out, _ any) error {
	return fmt.Errorf("convert %T to %T: not by type", in, out)
}

// ConvertToVersion implements runtime.ObjectConvertor. It also makes the Go type
// of what a merge returns without one.
func (c versions) ConvertToVersion(in runtime.Object, target runtime.GroupVersioner) (runtime.Object, error) {
	gvk, ok := target.KindForGroupVersionKinds([]kschema.GroupVersionKind{in.GetObjectKind().GroupVersionKind()})
	if gv, is := target.(kschema.GroupVersion); !ok && is {
		gvk = gv.WithKind(in.GetObjectKind().GroupVersionKind().Kind) // another group has the same kind: events
	} else if !ok {
		gvk = in.GetObjectKind().GroupVersionKind()
	}
	o, err := c.typed(in)
	if err != nil || o.GetObjectKind().GroupVersionKind() == gvk {
		return o, err
	}
	to := c.row(gvk)
	if to == nil || to.Stored() != c.r.Stored() || to.Convert == nil {
		return nil, runtime.NewNotRegisteredErrForTarget("served", nil, gvk.GroupVersion())
	}
	out, err := to.Convert(context.Background(), []schema.Object{o})
	if err != nil {
		return nil, err
	}
	return out[0], nil
}

// row finds the version of the kind, or of another kind that a door speaks.
func (c versions) row(gvk kschema.GroupVersionKind) *schema.Resource {
	if gvk == c.r.GVK() {
		return c.r
	}
	return c.catalog.Load().ByGVK(gvk)
}

// typed makes the Go type of an object of a built-in kind.
func (c versions) typed(in runtime.Object) (schema.Object, error) {
	u, ok := in.(*unstructured.Unstructured)
	if !ok || c.r.Custom != nil {
		o, ok := in.(schema.Object)
		if !ok {
			return nil, fmt.Errorf("convert %T: it is no object of %v", in, c.r)
		}
		return o, nil
	}
	r := c.row(u.GroupVersionKind())
	if r == nil {
		r = c.r
	}
	o := r.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", r.Kind, r.Version, r.Kind, err))
	}
	return o, nil
}

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (versions) ConvertFieldLabel(_ kschema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// setDefaults implements runtime.ObjectDefaulter.
type setDefaults struct{}

// Default implements runtime.ObjectDefaulter.
func (setDefaults) Default(in runtime.Object) {
	if o, ok := in.(schema.Object); ok {
		defaults.Apply(o)
	}
}

// maker implements runtime.ObjectCreater.
type maker struct{ r *schema.Resource }

// New implements runtime.ObjectCreater.
func (m maker) New(gvk kschema.GroupVersionKind) (runtime.Object, error) {
	if m.r.Custom == nil {
		if r := schema.ByGVK(gvk); r != nil {
			return r.New(), nil
		}
	}
	return empty(m.r), nil
}
