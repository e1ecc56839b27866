package registry

import (
	"fmt"
	"log/slog"
	"reflect"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	kschema "k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"k8s.io/client-go/applyconfigurations"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
)

// fieldManagers keep metadata.managedFields: who set which field, by which
// operation. One for each resource and door, made when first used, because the
// types of all built-in kinds take a while to read.
type fieldManagers struct {
	log   *slog.Logger
	types func() managedfields.TypeConverter

	mu sync.Mutex
	of map[fieldDoor]*managedfields.FieldManager
}

type fieldDoor struct {
	r   *schema.Resource
	sub string
}

func newFieldManagers(log *slog.Logger) *fieldManagers {
	return &fieldManagers{
		log:   log,
		types: sync.OnceValue(func() managedfields.TypeConverter { return applyconfigurations.NewTypeConverter(schema.Scheme) }),
		of:    map[fieldDoor]*managedfields.FieldManager{},
	}
}

// warm reads the types of all built-in kinds.
func (f *fieldManagers) warm() { f.types() }

func (f *fieldManagers) converter(r *schema.Resource) managedfields.TypeConverter {
	if !r.HasProtobuf() {
		return managedfields.NewDeducedTypeConverter() // kinds of our own have no merge keys, as custom resources
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
	gvk := r.GVK()
	m, err := managedfields.NewDefaultFieldManager(f.converter(r), sameVersion{r}, setDefaults{}, maker{r},
		gvk, gvk.GroupVersion(), sub, resetFields(r, sub))
	if err != nil {
		return nil, fmt.Errorf("make field manager of %v: %w", r, err)
	}
	f.of[door] = m
	return m, nil
}

// resetFields are the fields that a door does not let through, which nobody can
// therefore own by it.
func resetFields(r *schema.Resource, sub string) map[fieldpath.APIVersion]fieldpath.Filter {
	var set *fieldpath.Set
	switch {
	case sub == "status":
		set = fieldpath.NewSet(fieldpath.MakePathOrDie("spec"))
	case sub == "" && r.Status:
		set = fieldpath.NewSet(fieldpath.MakePathOrDie("status"))
	default:
		return nil
	}
	return map[fieldpath.APIVersion]fieldpath.Filter{fieldpath.APIVersion(r.APIVersion()): fieldpath.NewExcludeSetFilter(set)}
}

// update records in o what a manager has changed since old; nil for a new
// object.
func (f *fieldManagers) update(r *schema.Resource, sub string, old, o schema.Object, manager string) error {
	m, err := f.manager(r, sub)
	if err != nil {
		return err
	}
	if old == nil {
		old = r.New()
	}
	if _, err := m.Update(old, o, manager); err != nil {
		// An object that the merge types cannot read is valid all the same: it
		// is stored without owners, as upstream does.
		f.log.Warn("field owners cannot be told", "resource", r.String(), "key", schema.KeyOf(o).String(), "manager", manager, "err", err)
		o.SetManagedFields(nil)
	}
	return nil
}

// apply merges what a manager declares into old and records it.
func (f *fieldManagers) apply(r *schema.Resource, sub string, old schema.Object, patch *unstructured.Unstructured, manager string, force bool) (schema.Object, error) {
	m, err := f.manager(r, sub)
	if err != nil {
		return nil, err
	}
	merged, err := m.Apply(old, patch, manager, force)
	if err != nil {
		return nil, applyError(err)
	}
	o, ok := merged.(schema.Object)
	if !ok {
		return nil, fmt.Errorf("apply %v: merged into a %T", r, merged)
	}
	return o, nil
}

// applyError makes a bad request of what is not a conflict: the patch does not
// fit the types.
func applyError(err error) error {
	if _, ok := err.(apierrors.APIStatus); ok {
		return err
	}
	return apierrors.NewBadRequest(err.Error())
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

// sameVersion converts between the one version that a kind has and itself.
type sameVersion struct{ r *schema.Resource }

// Convert implements runtime.ObjectConvertor.
func (sameVersion) Convert(in, out, _ any) error {
	return fmt.Errorf("convert %T to %T: there is one version", in, out)
}

// ConvertToVersion implements runtime.ObjectConvertor. It makes the Go type of
// what the merge returns without one.
func (c sameVersion) ConvertToVersion(in runtime.Object, _ runtime.GroupVersioner) (runtime.Object, error) {
	u, ok := in.(*unstructured.Unstructured)
	if !ok {
		return in, nil
	}
	o := c.r.New()
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(u.Object, o); err != nil {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("%s in version %q cannot be handled as a %s: %v", c.r.Kind, c.r.Version, c.r.Kind, err))
	}
	return o, nil
}

// ConvertFieldLabel implements runtime.ObjectConvertor.
func (sameVersion) ConvertFieldLabel(_ kschema.GroupVersionKind, label, value string) (string, string, error) {
	return label, value, nil
}

// setDefaults implements runtime.ObjectDefaulter.
type setDefaults struct{}

// Default implements runtime.ObjectDefaulter.
func (setDefaults) Default(in runtime.Object) {
	if o, ok := in.(schema.Object); ok {
		defaults.Apply(o)
	}
}

// maker implements runtime.ObjectCreater.
type maker struct{ r *schema.Resource }

// New implements runtime.ObjectCreater.
func (m maker) New(kschema.GroupVersionKind) (runtime.Object, error) { return m.r.New(), nil }
