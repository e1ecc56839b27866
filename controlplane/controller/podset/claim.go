package podset

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	"github.com/writ-os/writ/controlplane/client"
	"github.com/writ-os/writ/schema"
)

// Claim returns the objects of a resource that belong to an owner. It adopts
// those without a controller that the selector matches, and releases those of
// the owner that it no longer matches. An owner that is being deleted keeps
// what it has. What Git declares is not adopted: the owner could delete it, and
// Git would make it anew, without end.
func Claim[T schema.Object](ctx context.Context, c client.Interface, cache client.Cache, owner schema.Object, sel labels.Selector) ([]T, error) {
	r := schema.ResourceFor[T]()
	var mine []T
	var errs []error
	canAdopt := liveCheck(ctx, c, owner)
	for _, o := range candidates(cache, r, owner) {
		switch claim(owner, o, sel) {
		case claimed:
			mine = append(mine, o.(T))
		case toRelease:
			if err := release(ctx, c, r, owner, o); err != nil {
				errs = append(errs, err)
			}
		case toAdopt:
			if err := canAdopt(); err != nil {
				errs = append(errs, fmt.Errorf("adopt %s %s: %w", r, schema.KeyOf(o), err))
				continue
			}
			got, err := adopt(ctx, c, r, owner, o)
			if err != nil {
				errs = append(errs, err)
			} else if got != nil {
				mine = append(mine, got.(T))
			}
		}
	}
	return mine, errors.Join(errs...)
}

// candidates are the objects of a resource that an owner has, or may adopt, by
// key. Those of other owners, which may be thousands, are not looked at.
func candidates(cache client.Cache, r *schema.Resource, owner schema.Object) []schema.Object {
	namespace := owner.GetNamespace()
	have := cache.Index(r, client.IndexOwner, string(owner.GetUID()))
	free := cache.Index(r, client.IndexOrphan, namespace)
	out := make([]schema.Object, 0, len(have)+len(free))
	for _, o := range have {
		if o.GetNamespace() == namespace { // an owner has nothing elsewhere, whatever a reference says
			out = append(out, o)
		}
	}
	out = append(out, free...)
	slices.SortFunc(out, func(a, b schema.Object) int { return strings.Compare(a.GetName(), b.GetName()) })
	return out
}

type decision int

const (
	ignored decision = iota
	claimed
	toRelease
	toAdopt
)

// claim decides what an object is to an owner.
func claim(owner, o schema.Object, sel labels.Selector) decision {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref != nil && ref.UID != owner.GetUID() {
		return ignored
	}
	matches := sel.Matches(labels.Set(o.GetLabels()))
	switch {
	case ref != nil && matches:
		return claimed
	case ref != nil && owner.GetDeletionTimestamp() == nil:
		return toRelease
	case ref == nil && matches && owner.GetDeletionTimestamp() == nil && o.GetDeletionTimestamp() == nil && !declared(o):
		return toAdopt
	}
	return ignored
}

// gitManager is the field manager of what Git declares.
const gitManager = "writ"

// declared says whether Git declares an object.
func declared(o schema.Object) bool {
	for _, m := range o.GetManagedFields() {
		if m.Manager == gitManager && m.Operation == metav1.ManagedFieldsOperationApply && m.Subresource == "" {
			return true
		}
	}
	return false
}

// liveCheck asks the server, not the cache, whether the owner still lives,
// once: adopting for a dead owner would hand its pods to garbage collection.
func liveCheck(ctx context.Context, c client.Reader, owner schema.Object) func() error {
	var asked bool
	var answer error
	return func() error {
		if asked {
			return answer
		}
		asked = true
		fresh, err := c.Get(ctx, schema.ResourceOf(owner), schema.KeyOf(owner))
		switch {
		case err != nil:
			answer = err
		case fresh.GetUID() != owner.GetUID():
			answer = fmt.Errorf("original %s is gone: got uid %v, wanted %v", schema.KeyOf(owner), fresh.GetUID(), owner.GetUID())
		case fresh.GetDeletionTimestamp() != nil:
			answer = fmt.Errorf("%s has just been deleted at %v", schema.KeyOf(owner), fresh.GetDeletionTimestamp())
		}
		return answer
	}
}

func adopt(ctx context.Context, c client.Writer, r *schema.Resource, owner, o schema.Object) (schema.Object, error) {
	ref := metav1.NewControllerRef(owner, schema.ResourceOf(owner).GVK())
	got, err := patchMeta(ctx, c, r, o, map[string]any{"ownerReferences": []any{ref}, "uid": o.GetUID()})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("adopt %s %s: %w", r, schema.KeyOf(o), err)
	}
	return got, nil
}

func release(ctx context.Context, c client.Writer, r *schema.Resource, owner, o schema.Object) error {
	gone := map[string]any{"$patch": "delete", "uid": owner.GetUID()}
	_, err := patchMeta(ctx, c, r, o, map[string]any{"ownerReferences": []any{gone}, "uid": o.GetUID()})
	// Invalid: the reference is gone already, or the name is another object's.
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsInvalid(err) {
		return nil
	}
	return fmt.Errorf("release %s %s: %w", r, schema.KeyOf(o), err)
}

func patchMeta(ctx context.Context, c client.Writer, r *schema.Resource, o schema.Object, meta map[string]any) (schema.Object, error) {
	data, err := json.Marshal(map[string]any{"metadata": meta})
	if err != nil {
		return nil, fmt.Errorf("encode patch: %w", err)
	}
	return c.Patch(ctx, r, schema.KeyOf(o), types.StrategicMergePatchType, data, client.WriteOptions{})
}

// WakeOwner maps events of owned objects to the keys of their owners. Those
// without a controller wake every owner that would adopt them.
func WakeOwner(cache client.Cache, owner *schema.Resource, selects func(owner, o schema.Object) bool) func(client.Event) []schema.Key {
	return func(ev client.Event) []schema.Key {
		keys := controllerKey(nil, ev.Object, owner)
		if ev.Old != nil {
			keys = controllerKey(keys, ev.Old, owner)
		}
		if metav1.GetControllerOfNoCopy(ev.Object) == nil && ev.Type != client.Deleted && selects != nil {
			for _, o := range cache.List(owner, ev.Object.GetNamespace()) {
				if selects(o, ev.Object) {
					keys = append(keys, schema.KeyOf(o))
				}
			}
		}
		return keys
	}
}

// controllerKey adds the key of the object's controller if it is of the kind.
func controllerKey(keys []schema.Key, o schema.Object, owner *schema.Resource) []schema.Key {
	ref := metav1.GetControllerOfNoCopy(o)
	if ref == nil || ref.Kind != owner.Kind || ref.APIVersion != owner.APIVersion() {
		return keys
	}
	key := schema.Key{Namespace: o.GetNamespace(), Name: ref.Name}
	for _, k := range keys {
		if k == key {
			return keys
		}
	}
	return append(keys, key)
}

// Selects says whether a label selector matches the labels of an object. One
// that is missing, empty or wrong matches nothing.
func Selects(s *metav1.LabelSelector, o schema.Object) bool {
	sel, err := metav1.LabelSelectorAsSelector(s)
	return err == nil && !sel.Empty() && sel.Matches(labels.Set(o.GetLabels()))
}

// PodsOf returns the cached pods whose controller has the UID.
func PodsOf(cache client.Cache, owner types.UID) []*corev1.Pod {
	return client.CachedIndex[*corev1.Pod](cache, client.IndexOwner, string(owner))
}
