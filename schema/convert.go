package schema

import (
	"context"
	"fmt"
)

// convert brings one object to another version of its kind. It leaves the
// object as it is and shares nothing with it.
type convert func(Object) (Object, error)

// converter returns what Resource.Convert is for r: a kind with two versions.
func converter(r *Resource) func(context.Context, []Object) ([]Object, error) {
	gvk := r.GVK()
	to := func(o Object) (Object, error) {
		switch gvk.Kind {
		case "Event":
			return convertEvent(o, gvk)
		case "HorizontalPodAutoscaler":
			return convertAutoscaler(o, gvk)
		}
		return nil, fmt.Errorf("convert %s: the kind has one version", gvk.Kind)
	}
	return func(_ context.Context, in []Object) ([]Object, error) { return convertAll(in, r, to) }
}

// convertAll converts the objects that have another version. Without any, it
// returns the slice that it was given.
func convertAll(in []Object, r *Resource, to convert) ([]Object, error) {
	var out []Object
	for i, o := range in {
		if ResourceOf(o) == r {
			if out != nil {
				out[i] = o
			}
			continue
		}
		if out == nil {
			out = make([]Object, len(in))
			copy(out, in[:i])
		}
		c, err := to(o)
		if err != nil {
			return nil, fmt.Errorf("convert %s %s to %s: %w", r.Kind, KeyOf(o), r.APIVersion(), err)
		}
		out[i] = c
	}
	if out == nil {
		return in, nil
	}
	return out, nil
}
