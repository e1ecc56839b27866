package registry

import (
	"context"
	"encoding/json"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// replicasOf returns where a kind keeps what its scale subresource shows.
func replicasOf(o schema.Object) (spec **int32, status int32, selector *metav1.LabelSelector, ok bool) {
	switch t := o.(type) {
	case *appsv1.Deployment:
		return &t.Spec.Replicas, t.Status.Replicas, t.Spec.Selector, true
	case *appsv1.ReplicaSet:
		return &t.Spec.Replicas, t.Status.Replicas, t.Spec.Selector, true
	case *appsv1.StatefulSet:
		return &t.Spec.Replicas, t.Status.Replicas, t.Spec.Selector, true
	case *corev1.ReplicationController:
		return &t.Spec.Replicas, t.Status.Replicas, metav1.SetAsLabelSelector(t.Spec.Selector), true
	}
	return nil, 0, nil, false
}

// scaleOf shows an object as its scale.
func scaleOf(o schema.Object) (*autoscalingv1.Scale, error) {
	spec, status, selector, ok := replicasOf(o)
	if !ok {
		return nil, fmt.Errorf("scale of %T: the kind has none", o)
	}
	sel, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, fmt.Errorf("read selector: %w", err)
	}
	if selector == nil {
		sel = labels.Nothing()
	}
	s := &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{
			Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(),
			ResourceVersion: o.GetResourceVersion(), CreationTimestamp: o.GetCreationTimestamp(),
		},
		Status: autoscalingv1.ScaleStatus{Replicas: status, Selector: sel.String()},
	}
	if *spec != nil {
		s.Spec.Replicas = **spec
	}
	return s, nil
}

func (g *Registry) updateScale(ctx context.Context, r *schema.Resource, o schema.Object, w client.WriteOptions) (schema.Object, error) {
	s, ok := o.(*autoscalingv1.Scale)
	if !ok {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("expected input object type to be Scale, but %T", o))
	}
	key := w.Key
	if key.Name == "" {
		key = schema.KeyOf(o)
	}
	return g.setScale(ctx, r, key, "update", w, func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error) { return s, nil })
}

func (g *Registry) patchScale(ctx context.Context, r *schema.Resource, key schema.Key, t types.PatchType, data []byte, w client.WriteOptions) (schema.Object, error) {
	if t == types.ApplyPatchType {
		t = types.MergePatchType // replicas is all that can be declared
	}
	return g.setScale(ctx, r, key, "patch", w, func(old *autoscalingv1.Scale) (*autoscalingv1.Scale, error) {
		before, err := json.Marshal(old)
		if err != nil {
			return nil, err
		}
		after, _, err := patchJSON(old, t, before, data, w.FieldValidation)
		if err != nil {
			return nil, err
		}
		s := &autoscalingv1.Scale{}
		if err := json.Unmarshal(after, s); err != nil {
			return nil, apierrors.NewBadRequest(err.Error())
		}
		return s, nil
	})
}

// setScale writes the replicas of a new scale into its object.
func (g *Registry) setScale(ctx context.Context, r *schema.Resource, key schema.Key, verb string, opt client.WriteOptions, change func(*autoscalingv1.Scale) (*autoscalingv1.Scale, error)) (schema.Object, error) {
	if !r.Scale {
		return nil, subresourceNotFound(r, "scale", key.Name)
	}
	o, err := g.one(ctx, opt.DryRun, func(ov *overlay) (*entry, error) {
		old := ov.get(r, key)
		if old == nil {
			return nil, notFound(r, key.Name)
		}
		was, err := scaleOf(old)
		if err != nil {
			return nil, err
		}
		s, err := change(was)
		if err != nil {
			return nil, err
		}
		if err := checkScale(s); err != nil {
			return nil, err
		}
		o := old.DeepCopyObject().(schema.Object)
		spec, _, _, _ := replicasOf(o)
		*spec = &s.Spec.Replicas
		o.SetResourceVersion(s.ResourceVersion)
		return g.newWrite(ctx, ov, verb, r, "scale", key, opt.FieldManager, opt.DryRun).update(ctx, o, old)
	})
	if err != nil {
		return nil, err
	}
	return scaleOf(o)
}

func checkScale(s *autoscalingv1.Scale) error {
	if s.Spec.Replicas >= 0 {
		return nil
	}
	return apierrors.NewInvalid(autoscalingv1.SchemeGroupVersion.WithKind("Scale").GroupKind(), s.Name, field.ErrorList{
		field.Invalid(field.NewPath("spec", "replicas"), s.Spec.Replicas, "must be greater than or equal to 0"),
	})
}
