package registry

import (
	"context"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/apiserver/pkg/warning"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
)

// applyPatch is server-side apply of a patch in YAML or JSON over an overlay.
func (g *Registry) applyPatch(ctx context.Context, ov *overlay, r *schema.Resource, key schema.Key, data []byte, w client.WriteOptions) (e *entry, created bool, err error) {
	patch, err := readApplied(data, w)
	if err != nil {
		return nil, false, err
	}
	return g.apply(ctx, ov, r, key, declaration{patch: patch, sent: data}, w)
}

// readApplied reads an apply patch. Whole numbers stay whole.
func readApplied(data []byte, w client.WriteOptions) (*unstructured.Unstructured, error) {
	if w.FieldManager == "" {
		return nil, apierrors.NewBadRequest("fieldManager is required for apply patch")
	}
	patch := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &patch.Object); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("error decoding YAML: %v", err))
	}
	if patch.Object == nil {
		return nil, apierrors.NewBadRequest("error decoding YAML: the patch is empty")
	}
	return patch, nil
}

// checkTwice refuses, or warns of, fields that a patch declares twice. That is
// asked once its fields have been merged, as upstream does.
func checkTwice(ctx context.Context, data []byte, validation string) error {
	if data == nil || validation != metav1.FieldValidationStrict && validation != metav1.FieldValidationWarn {
		return nil
	}
	err := yaml.UnmarshalStrict(data, &map[string]any{})
	if err == nil {
		return nil
	}
	if validation == metav1.FieldValidationStrict {
		return apierrors.NewBadRequest(fmt.Sprintf("error strict decoding YAML: %v", err))
	}
	text, ok := strings.CutPrefix(err.Error(), "error converting YAML to JSON: yaml: unmarshal errors:\n")
	if !ok {
		text = strings.TrimPrefix(err.Error(), "yaml: unmarshal errors:\n")
	}
	for line := range strings.SplitSeq(text, "\n") {
		warning.AddWarning(ctx, "", strings.TrimSpace(line))
	}
	return nil
}

// declaration is what a manager declares of an object.
type declaration struct {
	patch *unstructured.Unstructured
	sent  []byte        // the patch as it was sent; nil when it was not
	made  schema.Object // the object of it, if there is none yet and it was made ahead
}

// apply admits a declaration over an overlay.
func (g *Registry) apply(ctx context.Context, ov *overlay, r *schema.Resource, key schema.Key, d declaration, opt client.WriteOptions) (e *entry, created bool, err error) {
	patch, data := d.patch, d.sent
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
		e, err = g.applyNew(ctx, ov, r, key, d, opt)
		return e, true, err
	}
	o := old.DeepCopyObject().(schema.Object)
	// Of an object without owners the first apply would make everything owned.
	// For a part of a commit that says nothing but the name it is a write for
	// nothing; who applies over HTTP gets what upstream does.
	if data != nil || len(old.GetManagedFields()) > 0 || !declaresNothing(patch) {
		if o, err = g.fields.apply(ctx, r, opt.Subresource, old, patch, opt.FieldManager, opt.Force); err != nil {
			return nil, false, err
		}
	}
	if err := checkTwice(ctx, data, opt.FieldValidation); err != nil {
		return nil, false, err
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
func (g *Registry) applyNew(ctx context.Context, ov *overlay, r *schema.Resource, key schema.Key, d declaration, opt client.WriteOptions) (*entry, error) {
	patch, o := d.patch, d.made
	if o == nil {
		var err error
		if o, err = g.fields.applyNew(ctx, r, patch, opt.FieldManager); err != nil {
			return nil, err
		}
	}
	if err := checkTwice(ctx, d.sent, opt.FieldValidation); err != nil {
		return nil, err
	}
	if uid := patch.GetUID(); uid != "" {
		return nil, apierrors.NewConflict(r.GroupResource(), key.Name, fmt.Errorf(
			"uid mismatch: the provided object specified uid %s, and no existing object was found", uid))
	}
	if v := patch.GetResourceVersion(); v != "" && v != "0" {
		return nil, conflictError(r, key.Name)
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
	// What cannot be read as managedFields is refused as well: upstream fails at it.
	if owners, _, _ := unstructured.NestedFieldNoCopy(patch.Object, "metadata", "managedFields"); owners != nil {
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
