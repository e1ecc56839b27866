package registry

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"

	"github.com/writ-os/writ/schema"
)

// fieldManagers keep metadata.managedFields: who set which field, by which
// operation. One for each resource and door, made when first used, because the
// types of all built-in kinds take a while to read.
type fieldManagers struct {
	log     *slog.Logger
	catalog *schema.Live
	types   func() managedfields.TypeConverter

	shapes shapes

	mu sync.Mutex
	of map[fieldDoor]*managedfields.FieldManager
}

type fieldDoor struct {
	r   *schema.Resource
	sub string
}

func newFieldManagers(log *slog.Logger, catalog *schema.Live) *fieldManagers {
	return &fieldManagers{
		log: log, catalog: catalog,
		types: sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(schema.Scheme) }),
		of:    map[fieldDoor]*managedfields.FieldManager{},
	}
}

// warm reads the types of all built-in kinds.
func (f *fieldManagers) warm() { f.types() }

func (f *fieldManagers) converter(r *schema.Resource) managedfields.TypeConverter {
	if r.Custom != nil {
		return r.Custom.Types()
	}
	if r == scaleRow || !r.HasProtobuf() {
		return managedfields.NewDeducedTypeConverter() // without merge keys: a scale, kinds of our own
	}
	return f.types()
}

func (f *fieldManagers) manager(r *schema.Resource, sub string) (*managedfields.FieldManager, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	door := fieldDoor{r, sub}
	if m := f.of[door]; m != nil {
		return m, nil
	}
	gvk, hub := r.GVK(), working(r).GVK().GroupVersion()
	make := managedfields.NewDefaultFieldManager
	if r.Custom != nil {
		make = managedfields.NewDefaultCRDFieldManager
		f.forget()
	}
	m, err := make(f.converter(r), versions{r, f.catalog}, setDefaults{}, maker{r}, gvk, hub, sub, resetFields(r, sub))
	if err != nil {
		return nil, fmt.Errorf("make field manager of %v: %w", r, err)
	}
	f.of[door] = m
	return m, nil
}

// forget drops the managers of custom resources that are served no longer, or
// by a newer definition.
func (f *fieldManagers) forget() {
	now := f.catalog.Load()
	for door := range f.of {
		if door.r.Custom != nil && now.ByGVR(door.r.GVR()) != door.r {
			delete(f.of, door)
		}
	}
}

// update records in o what a manager has changed since old; nil for a new
// object.
func (f *fieldManagers) update(ctx context.Context, r *schema.Resource, sub string, old, o schema.Object, manager string) error {
	if old != nil || sub != "" || r.Custom != nil || manager == "" || len(o.GetManagedFields()) > 0 {
		return f.record(ctx, r, sub, old, o, manager)
	}
	shape, ok := shapeOf(r, o)
	if !ok {
		return f.record(ctx, r, sub, nil, o, manager)
	}
	if set, ok := f.shapes.find(shape); ok {
		own(r, o, manager, set)
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
		f.shapes.keep(shape, e[0].FieldsV1.Raw)
	}
	return nil
}

// own makes a manager the owner of a set of fields of a new object.
func own(r *schema.Resource, o schema.Object, manager string, set []byte) {
	if set == nil {
		o.SetManagedFields(nil)
		return
	}
	at := metav1.NewTime(time.Now().UTC())
	o.SetManagedFields([]metav1.ManagedFieldsEntry{{
		Manager: manager, Operation: metav1.ManagedFieldsOperationUpdate, APIVersion: r.APIVersion(), Time: &at,
		FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{Raw: set},
	}})
}

// record asks the field manager.
func (f *fieldManagers) record(ctx context.Context, r *schema.Resource, sub string, old, o schema.Object, manager string) error {
	m, err := f.manager(r, sub)
	if err != nil {
		return err
	}
	if old == nil {
		old = empty(working(r))
	}
	if _, err := m.Update(old, o, manager); err != nil {
		// An object that the merge types cannot read is valid all the same: it
		// is stored without owners, as upstream does.
		f.log.WarnContext(ctx, "field owners cannot be told", "resource", r.String(), "key", schema.KeyOf(o).String(), "manager", manager, "err", err)
		o.SetManagedFields(nil)
	}
	return nil
}

// apply merges what a manager declares into old and records it.
func (f *fieldManagers) apply(_ context.Context, r *schema.Resource, sub string, old schema.Object, patch *unstructured.Unstructured, manager string, force bool) (schema.Object, error) {
	m, err := f.manager(r, sub)
	if err != nil {
		return nil, err
	}
	merged, err := m.Apply(old, patch, manager, force)
	if err != nil {
		return nil, err
	}
	o, ok := merged.(schema.Object)
	if !ok {
		return nil, fmt.Errorf("apply %v: merged into a %T", r, merged)
	}
	return o, nil
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
