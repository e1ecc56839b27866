package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	"sigs.k8s.io/yaml"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/merge"
)

// Patch implements Writer.
func (f *Fake) Patch(_ context.Context, r *schema.Resource, key schema.Key, t types.PatchType, data []byte, w WriteOptions) (schema.Object, error) {
	verb := VerbUpdate
	if t == types.ApplyPatchType {
		verb = VerbApply
	}
	f.mu.Lock()
	live := f.objects[r][key]
	f.mu.Unlock()
	if err := f.reject(verb, r, w.Subresource, live); err != nil {
		return nil, err
	}
	return f.do(w.DryRun, func() (schema.Object, error) {
		if t == types.ApplyPatchType {
			return f.apply(r, key, data, w)
		}
		return f.patch(r, key, t, data, w)
	})
}

func (f *Fake) patch(r *schema.Resource, key schema.Key, t types.PatchType, data []byte, w WriteOptions) (schema.Object, error) {
	old, ok := f.objects[r][key]
	if !ok {
		return nil, apierrors.NewNotFound(r.GroupResource(), key.Name)
	}
	before, err := json.Marshal(old)
	if err != nil {
		return nil, fmt.Errorf("encode %s %s: %w", r, key, err)
	}
	after, err := patchJSON(r, before, t, data)
	if err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	next := r.New()
	if err := json.Unmarshal(after, next); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	if next, err = owned(r, old, next, w.Subresource, w.FieldManager); err != nil {
		return nil, err
	}
	return f.update(r, next, w.Subresource)
}

// owned records what a manager that gives its name has changed, as a server
// does of everyone.
func owned(r *schema.Resource, old, next schema.Object, sub, manager string) (schema.Object, error) {
	if manager == "" || sub != "" || r.Custom != nil || !equality.Semantic.DeepEqual(old.GetManagedFields(), next.GetManagedFields()) {
		return next, nil
	}
	fm, err := fieldManager(r, sub)
	if err != nil {
		return nil, fmt.Errorf("update %s %s: %w", r, schema.KeyOf(next), err)
	}
	out, err := fm.Update(deepCopy(old), deepCopy(next), manager)
	if err != nil {
		return nil, err
	}
	return out.(schema.Object), nil
}

func patchJSON(r *schema.Resource, before []byte, t types.PatchType, data []byte) ([]byte, error) {
	switch t {
	case types.JSONPatchType:
		p, err := jsonpatch.DecodePatch(data)
		if err != nil {
			return nil, err
		}
		return p.Apply(before)
	case types.MergePatchType:
		return jsonpatch.MergePatch(before, data)
	case types.StrategicMergePatchType:
		return strategicpatch.StrategicMergePatch(before, data, r.New())
	}
	return nil, errors.New("unknown patch type " + string(t))
}

// apply is server-side apply with upstream's own merge.
func (f *Fake) apply(r *schema.Resource, key schema.Key, data []byte, w WriteOptions) (schema.Object, error) {
	applied := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(data, &applied.Object); err != nil {
		return nil, apierrors.NewBadRequest(err.Error())
	}
	applied.SetGroupVersionKind(r.GVK())
	applied.SetNamespace(key.Namespace)
	applied.SetName(key.Name)
	fm, err := fieldManager(r, w.Subresource)
	if err != nil {
		return nil, fmt.Errorf("apply %s %s: %w", r, key, err)
	}
	old, exists := f.objects[r][key]
	live := old
	if !exists {
		live = r.New()
		live.SetNamespace(key.Namespace)
		live.SetName(key.Name)
		if ns, ok := live.(*corev1.Namespace); ok {
			ns.Spec.Finalizers = []corev1.FinalizerName{corev1.FinalizerKubernetes}
		}
	}
	out, err := fm.Apply(deepCopy(live), applied, w.FieldManager, w.Force)
	if err != nil {
		return nil, err
	}
	next := out.(schema.Object)
	next.GetObjectKind().SetGroupVersionKind(r.GVK())
	if !exists {
		stampNew(r, next)
		f.set(r, nil, next)
		return next, nil
	}
	return f.update(r, next, w.Subresource)
}

func fieldManager(r *schema.Resource, sub string) (*managedfields.FieldManager, error) {
	return managedfields.NewDefaultFieldManager(merge.Types(r), schema.Scheme, schema.Scheme, schema.Scheme, r.GVK(), r.GVK().GroupVersion(), sub, nil)
}

// Transact implements Transactor.
func (f *Fake) Transact(_ context.Context, ops []Op, dryRun bool) ([]schema.Object, error) {
	errs := map[int]error{}
	for i, op := range ops {
		if err := f.reject(op.Verb, op.Resource, op.Subresource, op.Object); err != nil {
			errs[i] = err
		}
	}
	var out []schema.Object
	_, err := f.do(dryRun, func() (schema.Object, error) {
		for i, op := range ops {
			o, err := f.one(op)
			if err != nil && errs[i] == nil {
				errs[i] = err
			}
			out = append(out, o)
		}
		if len(errs) > 0 {
			return nil, &TransactionError{Errs: errs}
		}
		return nil, nil
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

// one does an op of a transaction.
func (f *Fake) one(op Op) (schema.Object, error) {
	r, key := op.Resource, op.Key
	if key == (schema.Key{}) && op.Object != nil {
		key = schema.KeyOf(op.Object)
	}
	live, exists := f.objects[r][key]
	if want := op.ResourceVersion; want == "0" && exists {
		return nil, apierrors.NewAlreadyExists(r.GroupResource(), key.Name)
	} else if want != "" && want != "0" && (!exists || live.GetResourceVersion() != want) {
		return nil, apierrors.NewConflict(r.GroupResource(), key.Name, errors.New("the object has been modified; please apply your changes to the latest version and try again"))
	}
	switch op.Verb {
	case VerbCreate:
		if op.Subresource == "binding" {
			return f.bind(r, key, op.Object)
		}
		return f.create(r, op.Object)
	case VerbUpdate:
		return f.written(r, op.Object, op.Subresource, op.FieldManager)
	case VerbApply:
		data := op.Fields
		if data == nil {
			var err error
			if data, err = json.Marshal(op.Object); err != nil {
				return nil, fmt.Errorf("encode %s %s: %w", r, key, err)
			}
		}
		return f.apply(r, key, data, WriteOptions{Subresource: op.Subresource, FieldManager: op.FieldManager, Force: op.Force})
	case VerbDelete:
		return live, f.delete(r, key, DeleteOptions{})
	}
	return nil, apierrors.NewBadRequest("unknown verb " + string(op.Verb))
}
