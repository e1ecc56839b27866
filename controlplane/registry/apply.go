package registry

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apiserver/pkg/warning"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
)

// applyPatch is server-side apply of a patch in YAML or JSON over an overlay.
func (g *Registry) applyPatch(ctx context.Context, ov *overlay, r *schema.Resource, key schema.Key, data []byte, w client.WriteOptions) (e *entry, created bool, err error) {
	patch, err := readApplied(ctx, data, w)
	if err != nil {
		return nil, false, err
	}
	return g.apply(ctx, ov, r, key, patch, w)
}

// readApplied reads an apply patch.
func readApplied(ctx context.Context, data []byte, w client.WriteOptions) (*unstructured.Unstructured, error) {
	if w.FieldManager == "" {
		return nil, apierrors.NewBadRequest("fieldManager is required for apply patch")
	}
	patch := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &patch.Object); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	if strict := w.FieldValidation; strict == metav1.FieldValidationStrict || strict == metav1.FieldValidationWarn {
		if err := yaml.UnmarshalStrict(data, &map[string]any{}); err != nil {
			if strict == metav1.FieldValidationStrict {
				return nil, apierrors.NewBadRequest(fmt.Sprintf("error strict decoding YAML: %v", err))
			}
			warning.AddWarning(ctx, "", err.Error())
		}
	}
	if patch.Object == nil {
		return nil, apierrors.NewBadRequest("error decoding YAML: the patch is empty")
	}
	return patch, nil
}

// apply admits what a manager declares of an object over an overlay.
func (g *Registry) apply(ctx context.Context, ov *overlay, r *schema.Resource, key schema.Key, patch *unstructured.Unstructured, opt client.WriteOptions) (e *entry, created bool, err error) {
	if err := checkApplied(r, patch, key); err != nil {
		return nil, false, err
	}
	old, err := current(ctx, ov, r, key)
	if err != nil {
		return nil, false, err
	}
	if old == nil && opt.Subresource != "" {
		return nil, false, notFound(r, key.Name)
	}
	if old == nil {
		if uid := patch.GetUID(); uid != "" {
			return nil, false, apierrors.NewConflict(r.GroupResource(), key.Name, fmt.Errorf(
				"uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
		}
		e, err = g.applyNew(ctx, ov, r, key, patch, opt)
		return e, true, err
	}
	o := old.DeepCopyObject().(schema.Object)
	if len(old.GetManagedFields()) > 0 || !declaresNothing(patch) {
		// Of an object without owners the first apply would make everything
		// owned: for a patch that says nothing but the name, a write for nothing.
		if o, err = g.fields.apply(ctx, r, opt.Subresource, old, patch, opt.FieldManager, opt.Force); err != nil {
			return nil, false, err
		}
	}
	w := g.newWrite(ctx, ov, "update", r, opt.Subresource, key, opt)
	w.apply, w.patch = true, true
	if v := patch.GetResourceVersion(); v != "" {
		o.SetResourceVersion(v)
	}
	if uid := patch.GetUID(); uid != "" {
		o.SetUID(uid)
	}
	if r.Namespaced {
		o.SetNamespace(key.Namespace)
	}
	e, err = w.update(ctx, o, old)
	return e, false, err
}

// applyNew creates an object by apply: what is declared is the object.
func (g *Registry) applyNew(ctx context.Context, ov *overlay, r *schema.Resource, key schema.Key, patch *unstructured.Unstructured, opt client.WriteOptions) (*entry, error) {
	if v := patch.GetResourceVersion(); v != "" && v != "0" {
		return nil, conflictError(r, key.Name)
	}
	o, err := g.fields.apply(ctx, r, "", empty(working(r)), patch, opt.FieldManager, false)
	if err != nil {
		return nil, err
	}
	defaults.Apply(o)
	if u, ok := o.(*unstructured.Unstructured); ok && r.Custom != nil {
		complete(r, u)
	}
	if err := placeIn(r, o, key.Namespace); err != nil {
		return nil, err
	}
	fillMeta(o)
	w := g.newWrite(ctx, ov, "create", r, "", key, opt)
	w.apply = true
	return w.create(ctx, o)
}

// declaresNothing says whether a patch names its object and no more.
func declaresNothing(patch *unstructured.Unstructured) bool {
	for k := range patch.Object {
		if k != "apiVersion" && k != "kind" && k != "metadata" {
			return false
		}
	}
	meta, _ := patch.Object["metadata"].(map[string]any)
	for k := range meta {
		if k != "name" && k != "namespace" && k != "resourceVersion" && k != "uid" {
			return false
		}
	}
	return true
}

// checkApplied refuses a patch that is not of the object of the request, and
// fills in what it may leave out.
func checkApplied(r *schema.Resource, patch *unstructured.Unstructured, key schema.Key) error {
	if got := patch.GroupVersionKind(); got != r.GVK() {
		return apierrors.NewBadRequest(fmt.Sprintf("invalid object type: %v", got))
	}
	if patch.GetManagedFields() != nil {
		return apierrors.NewBadRequest("metadata.managedFields must be nil")
	}
	if patch.GetName() == "" {
		patch.SetName(key.Name)
	}
	if patch.GetName() != key.Name {
		return apierrors.NewBadRequest(fmt.Sprintf(
			"the name of the object (%s) does not match the name on the URL (%s)", patch.GetName(), key.Name))
	}
	// A namespace that the patch leaves out stays so: it is not declared.
	if ns := patch.GetNamespace(); r.Namespaced && ns != "" && ns != key.Namespace {
		return apierrors.NewBadRequest(namespaceDiffers)
	}
	return nil
}
