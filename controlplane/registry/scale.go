package registry

import (
	"context"
	"fmt"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
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

func newScale(o schema.Object) *autoscalingv1.Scale {
	return &autoscalingv1.Scale{
		TypeMeta: metav1.TypeMeta{APIVersion: "autoscaling/v1", Kind: "Scale"},
		ObjectMeta: metav1.ObjectMeta{
			Name: o.GetName(), Namespace: o.GetNamespace(), UID: o.GetUID(),
			ResourceVersion: o.GetResourceVersion(), CreationTimestamp: o.GetCreationTimestamp(),
		},
	}
}

// scaleOf shows an object as its scale. set is false where a custom resource
// says nothing of its replicas.
func scaleOf(r *schema.Resource, o schema.Object) (s *autoscalingv1.Scale, set bool, err error) {
	if u, ok := o.(*unstructured.Unstructured); ok && r.Custom != nil {
		return scaleOfCustom(r, u)
	}
	spec, status, selector, ok := replicasOf(o)
	if !ok {
		return nil, false, fmt.Errorf("scale of %T: the kind has none", o)
	}
	sel, err := metav1.LabelSelectorAsSelector(selector)
	if err != nil {
		return nil, false, fmt.Errorf("read selector: %w", err)
	}
	if selector == nil {
		sel = labels.Nothing()
	}
	s = newScale(o)
	s.Status = autoscalingv1.ScaleStatus{Replicas: status, Selector: sel.String()}
	if *spec != nil {
		s.Spec.Replicas = **spec
	}
	return s, true, nil
}

// scaleOfCustom reads the scale of a custom resource at the paths that its
// definition names.
func scaleOfCustom(r *schema.Resource, u *unstructured.Unstructured) (s *autoscalingv1.Scale, set bool, err error) {
	spec, status, selector := r.Custom.ScalePaths()
	s = newScale(u)
	n, set, err := unstructured.NestedInt64(u.Object, steps(spec)...)
	if err != nil {
		return nil, false, err
	}
	s.Spec.Replicas = int32(n)
	if n, _, err = unstructured.NestedInt64(u.Object, steps(status)...); err != nil {
		return nil, false, err
	}
	s.Status.Replicas = int32(n)
	if selector != "" {
		s.Status.Selector, _, err = unstructured.NestedString(u.Object, steps(selector)...)
	}
	return s, set, err
}

// steps are the fields on the way of a path: ".spec.replicas".
func steps(path string) []string { return strings.Split(strings.TrimPrefix(path, "."), ".") }

// showScale is what GET on the scale subresource shows.
func showScale(r *schema.Resource, o schema.Object) (schema.Object, error) {
	s, set, err := scaleOf(r, o)
	if err != nil {
		return nil, err
	}
	if !set {
		spec, _, _ := r.Custom.ScalePaths()
		return nil, apierrors.NewInternalError(fmt.Errorf("the spec replicas field %q does not exist", spec))
	}
	return s, nil
}

// setReplicas writes the replicas of a scale into its object.
func setReplicas(r *schema.Resource, o schema.Object, n int32) error {
	if u, ok := o.(*unstructured.Unstructured); ok {
		spec, _, _ := r.Custom.ScalePaths()
		return unstructured.SetNestedField(u.Object, int64(n), steps(spec)...)
	}
	spec, _, _, _ := replicasOf(o)
	*spec = &n
	return nil
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
	return g.setScale(ctx, r, key, w, func(was *autoscalingv1.Scale, manager string) (*autoscalingv1.Scale, error) {
		return g.ownScale(ctx, was, s.DeepCopy(), manager)
	})
}

func (g *Registry) patchScale(ctx context.Context, r *schema.Resource, key schema.Key, t types.PatchType, data []byte, w client.WriteOptions) (schema.Object, error) {
	return g.setScale(ctx, r, key, w, func(was *autoscalingv1.Scale, manager string) (*autoscalingv1.Scale, error) {
		if t == types.ApplyPatchType {
			return g.applyScale(ctx, was, data, w)
		}
		s, err := patched(ctx, scaleRow, was, t, data, w.FieldValidation)
		if err != nil {
			return nil, err
		}
		return g.ownScale(ctx, was, s.(*autoscalingv1.Scale), manager)
	})
}

func checkScale(s *autoscalingv1.Scale) error {
	if s.Spec.Replicas >= 0 {
		return nil
	}
	return apierrors.NewInvalid(autoscalingv1.SchemeGroupVersion.WithKind("Scale").GroupKind(), s.Name, field.ErrorList{
		field.Invalid(field.NewPath("spec", "replicas"), s.Spec.Replicas, "must be greater than or equal to 0"),
	})
}
