package registry

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"

	"github.com/writ-os/writ/schema"
)

// fieldManagers keep metadata.managedFields: who set which field, by which
// operation. One for each resource and door, made when first used, because the
// types of all built-in kinds take a while to read.
type fieldManagers struct {
	log     *slog.Logger
	catalog *schema.Live

	shapes  shapes
	updates updates

	mu   sync.Mutex
	of   map[fieldDoor]*managedfields.FieldManager
	seen *schema.Catalog // when the managers were last looked through
}

type fieldDoor struct {
	r   *schema.Resource
	sub string
}

func newFieldManagers(log *slog.Logger, catalog *schema.Live) *fieldManagers {
	return &fieldManagers{
		log: log, catalog: catalog,
		of: map[fieldDoor]*managedfields.FieldManager{},
	}
}

func (f *fieldManagers) manager(r *schema.Resource, sub string) (*managedfields.FieldManager, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.forget()
	door := fieldDoor{r, sub}
	if m := f.of[door]; m != nil {
		return m, nil
	}
	gvk, hub := r.GVK(), working(r).GVK().GroupVersion()
	make := managedfields.NewDefaultFieldManager
	if r.Custom != nil {
		make = managedfields.NewDefaultCRDFieldManager
	}
	m, err := make(mergeTypes(r), versions{r, f.catalog}, setDefaults{}, maker{r}, gvk, hub, sub, resetFields(r, sub))
	if err != nil {
		return nil, fmt.Errorf("make field manager of %v: %w", r, err)
	}
	f.of[door] = m
	return m, nil
}

// forget drops the managers of custom resources that are served no longer, or
// by a newer definition, each time what is served has changed.
func (f *fieldManagers) forget() {
	now := f.catalog.Load()
	if now == f.seen {
		return
	}
	f.seen = now
	for door := range f.of {
		if door.r.Custom != nil && now.ByGVR(door.r.GVR()) != door.r {
			delete(f.of, door)
		}
	}
}

// update records in o what a manager has changed since old; nil for a new
// object.
func (f *fieldManagers) update(ctx context.Context, r *schema.Resource, sub string, old, o schema.Object, manager string) error {
	if old != nil {
		return f.updateOwners(ctx, r, sub, old, o, manager)
	}
	if sub != "" || r.Custom != nil || manager == "" || len(o.GetManagedFields()) > 0 {
		return f.record(ctx, r, sub, old, o, manager)
	}
	shape, ok := shapeOf(r, o)
	if !ok {
		return f.record(ctx, r, sub, nil, o, manager)
	}
	if set, ok := f.shapes.find(shape); ok {
		own(r, o, manager, metav1.ManagedFieldsOperationUpdate, set)
		return nil
	}
	if err := f.record(ctx, r, sub, nil, o, manager); err != nil {
		return err
	}
	// Of an object whose owners cannot be told there is none; that is so of
	// every object of this shape.
	switch e := o.GetManagedFields(); {
	case len(e) == 0:
		f.shapes.keep(shape, nil)
	case len(e) == 1 && e[0].FieldsV1 != nil:
		f.shapes.keep(shape, e[0].FieldsV1.GetRawBytes())
	}
	return nil
}

// own makes a manager the owner of a set of fields of a new object.
func own(r *schema.Resource, o schema.Object, manager string, by metav1.ManagedFieldsOperationType, set []byte) {
	if set == nil {
		o.SetManagedFields(nil)
		return
	}
	at := metav1.NewTime(time.Now().UTC())
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: by, APIVersion: r.APIVersion(), Time: &at,
		FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: set},
	}})
}

// updateOwners records an update, from memory where that is possible.
func (f *fieldManagers) updateOwners(ctx context.Context, r *schema.Resource, sub string, old, o schema.Object, manager string) error {
	k, ok := f.updateKey(r, sub, old, o, manager)
	if !ok {
		return f.record(ctx, r, sub, old, o, manager)
	}
	before := old.GetManagedFields()
	if sub == "" && len(o.GetManagedFields()) > 0 {
		before = o.GetManagedFields() // the same, with times of its own
	}
	if x, ok := f.updates.find(k); ok {
		o.SetManagedFields(x.owners(before))
		return nil
	}
	told, err := f.tell(ctx, r, sub, old, o, manager)
	if told {
		f.remember(k, before, o)
	}
	return err
}

// record asks the field manager.
func (f *fieldManagers) record(ctx context.Context, r *schema.Resource, sub string, old, o schema.Object, manager string) error {
	_, err := f.tell(ctx, r, sub, old, o, manager)
	return err
}

// tell is record that says whether the owners could be told.
func (f *fieldManagers) tell(ctx context.Context, r *schema.Resource, sub string, old, o schema.Object, manager string) (told bool, err error) {
	m, err := f.manager(r, sub)
	if err != nil {
		return false, err
	}
	if old == nil {
		old = empty(working(r))
	}
	if _, err := m.Update(old, o, manager); err != nil {
		// An object that the merge types cannot read is valid all the same: it
		// is stored without owners, as upstream does.
		f.log.WarnContext(ctx, "field owners cannot be told", "resource", r.String(), "key", schema.KeyOf(o).String(), "manager", manager, "err", err)
		o.SetManagedFields(nil)
		return false, nil
	}
	return true, nil
}

// applyNew makes a new object of what a manager declares and records it.
func (f *fieldManagers) applyNew(ctx context.Context, r *schema.Resource, patch *unstructured.Unstructured, manager string) (schema.Object, error) {
	if o, ok := f.declare(r, patch, manager); ok {
		return o, nil
	}
	return f.apply(ctx, r, "", empty(working(r)), patch, manager, false)
}

// apply merges what a manager declares into old and records it.
func (f *fieldManagers) apply(_ context.Context, r *schema.Resource, sub string, old schema.Object, patch *unstructured.Unstructured, manager string, force bool) (schema.Object, error) {
	m, err := f.manager(r, sub)
	if err != nil {
		return nil, err
	}
	merged, err := m.Apply(old, patch, manager, force)
	if err != nil {
		return nil, inOrder(err)
	}
	o, ok := merged.(schema.Object)
	if !ok {
		return nil, fmt.Errorf("apply %v: merged into a %T", r, merged)
	}
	return o, nil
}

// inOrder sorts the causes of a conflict by manager, as its message has them.
// They come in the order of a map.
func inOrder(err error) error {
	var status *apierrors.StatusError
	if errors.As(err, &status) && status.ErrStatus.Details != nil {
		slices.SortStableFunc(status.ErrStatus.Details.Causes, func(a, b metav1.StatusCause) int {
			return cmp.Or(cmp.Compare(a.Message, b.Message), cmp.Compare(a.Field, b.Field))
		})
	}
	return err
}

// sameFields says whether managedFields say the same; times do not count.
func sameFields(a, b []metav1.ManagedFieldsEntry) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, y := a[i], b[i]
		x.Time, y.Time = nil, nil
		if !reflect.DeepEqual(x, y) {
			return false
		}
	}
	return true
}
