package registry

import (
	"context"
	"fmt"
	"math"

	autoscalingv1 "k8s.io/api/autoscaling/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/merge"
)

// scaleRow stands for the kind that the scale subresources speak. No store has
// it.
var scaleRow = &schema.Resource{
	Group: "autoscaling", Version: "v1", Kind: "Scale", Plural: "scales", Namespaced: true,
	New: func() schema.Object {
		s := &autoscalingv1.Scale{}
		s.SetGroupVersionKind(autoscalingv1.SchemeGroupVersion.WithKind("Scale"))
		return s
	},
}

// unset stands for the replicas of a custom resource that has none.
const unset = math.MinInt32

// setScale writes a new scale into its object. The owners of replicas are those
// of the scale's own field, and the other way round.
func (g *Registry) setScale(ctx context.Context, r *schema.Resource, key schema.Key, opt client.WriteOptions, change func(was *autoscalingv1.Scale, manager string) (*autoscalingv1.Scale, error)) (schema.Object, error) {
	if !r.Scale {
		return nil, subresourceNotFound(r, "scale", key.Name)
	}
	o, err := g.one(ctx, r, opt.DryRun, func(ov *overlay) (*entry, error) {
		old, err := current(ctx, ov, r, key)
		if err != nil {
			return nil, err
		}
		if old == nil {
			return nil, notFound(r, key.Name)
		}
		return g.newWrite(ctx, ov, "update", r, "scale", key, opt).scale(ctx, old, change)
	})
	if err != nil {
		return nil, err
	}
	return showScale(r, o)
}

func (w *write) scale(ctx context.Context, old schema.Object, change func(*autoscalingv1.Scale, string) (*autoscalingv1.Scale, error)) (*entry, error) {
	was, set, err := scaleOf(w.r, old)
	if err != nil {
		return nil, err
	}
	if !set {
		was.Spec.Replicas = unset
	}
	owners := managedfields.NewScaleHandler(old.GetManagedFields(), w.req.GVK().GroupVersion(), w.g.replicasPaths(w.req))
	if was.ManagedFields, err = owners.ToSubresource(); err != nil {
		return nil, err
	}
	s, err := change(was.DeepCopy(), w.manager)
	if err != nil {
		return nil, err
	}
	if s.Name != "" && s.Name != w.key.Name {
		return nil, apierrors.NewBadRequest(fmt.Sprintf(
			"the name of the object (%s) does not match the name on the URL (%s)", s.Name, w.key.Name))
	}
	a := w.attributes(s, was)
	if err := w.g.mutate(ctx, a); err != nil {
		return nil, err
	}
	s, ok := a.Object.(*autoscalingv1.Scale)
	if !ok {
		return nil, apierrors.NewInternalError(fmt.Errorf("admission made a %T of a scale", a.Object))
	}
	if s.Spec.Replicas == unset {
		spec, _, _ := w.r.Custom.ScalePaths()
		return nil, apierrors.NewBadRequest(fmt.Sprintf("the spec replicas field %q cannot be empty", spec))
	}
	if w.r.Custom == nil { // the definition of a custom resource says it in its own words
		if err := checkScale(s); err != nil {
			return nil, err
		}
	}
	o := old.DeepCopyObject().(schema.Object)
	if err := setReplicas(w.r, o, s.Spec.Replicas); err != nil {
		return nil, err
	}
	fields, err := owners.ToParent(s.ManagedFields)
	if err != nil {
		return nil, err
	}
	o.SetManagedFields(fields)
	o.SetResourceVersion(s.ResourceVersion)
	if w.r.Custom != nil && s.ResourceVersion == "" {
		o.SetResourceVersion(old.GetResourceVersion()) // a scale may be written without
	}
	w.apply, w.scaled = true, true
	return w.update(ctx, o, old)
}

// replicasPaths says of each version of a kind where it keeps its replicas; no
// path where it has no scale.
func (g *Registry) replicasPaths(r *schema.Resource) managedfields.ResourcePathMappings {
	paths := managedfields.ResourcePathMappings{r.APIVersion(): replicasPath(r)}
	for _, v := range g.cfg.Catalog.Load().All() {
		if v.Stored() == r.Stored() && v.Version != "" {
			paths[v.APIVersion()] = replicasPath(v)
		}
	}
	return paths
}

func replicasPath(r *schema.Resource) fieldpath.Path {
	if r.Custom == nil {
		return fieldpath.MakePathOrDie("spec", "replicas")
	}
	spec, _, _ := r.Custom.ScalePaths()
	if spec == "" {
		return nil
	}
	var parts []any
	for _, s := range steps(spec) {
		parts = append(parts, s)
	}
	p, err := fieldpath.MakePath(parts...)
	if err != nil {
		return nil
	}
	return p
}

// ownScale records in a scale what its manager has changed.
func (g *Registry) ownScale(ctx context.Context, was, s *autoscalingv1.Scale, manager string) (*autoscalingv1.Scale, error) {
	s.SetGroupVersionKind(scaleRow.GVK())
	return s, g.fields.update(ctx, scaleRow, "scale", was, s, manager)
}

// applyScale merges what a manager declares of a scale.
func (g *Registry) applyScale(ctx context.Context, was *autoscalingv1.Scale, data []byte, opt client.WriteOptions) (*autoscalingv1.Scale, error) {
	patch, err := readApplied(data, opt)
	if err != nil {
		return nil, err
	}
	if err := checkApplied(scaleRow, patch, schema.KeyOf(was)); err != nil {
		return nil, err
	}
	o, err := g.fields.apply(ctx, scaleRow, "scale", was, patch, opt.FieldManager, opt.Force)
	if err != nil {
		return nil, err
	}
	if err := checkTwice(ctx, data, opt.FieldValidation); err != nil {
		return nil, err
	}
	return o.(*autoscalingv1.Scale), nil
}

// mergeTypes are the types of a resource; those of the scale are told by its
// values.
func mergeTypes(r *schema.Resource) managedfields.TypeConverter {
	if r == scaleRow {
		return managedfields.NewDeducedTypeConverter()
	}
	return merge.Types(r)
}
