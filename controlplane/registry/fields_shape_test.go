package registry

import (
	"fmt"
	"log/slog"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/writ-os/writ/schema"
	"github.com/writ-os/writ/schema/defaults"
)

// TestShapesSayWhatTheManagerSays: what is remembered of a shape is what the
// field manager of Kubernetes finds, for random objects of every kind, and for
// objects that differ from them in values only.
func TestShapesSayWhatTheManagerSays(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	f := newFieldManagers(slog.New(slog.DiscardHandler), nil)
	hits, all := 0, 0
	for n, r := range schema.Resources {
		for round := range 12 {
			x := &filler{rnd: rand.New(rand.NewPCG(seed, uint64(n*100+round))), values: rand.New(rand.NewPCG(seed, 1))}
			for variant := range 3 {
				x.rnd = rand.New(rand.NewPCG(seed, uint64(n*100+round))) // the same fields, other values
				x.values = rand.New(rand.NewPCG(seed, uint64(variant)))
				o := r.New()
				x.fill(reflect.ValueOf(o).Elem(), 0)
				o.GetObjectKind().SetGroupVersionKind(r.GVK())
				o.SetManagedFields(nil)
				defaults.Apply(o)
				want := o.DeepCopyObject().(schema.Object)
				if err := f.record(t.Context(), r, "", nil, want, "m"); err != nil {
					t.Fatal(err)
				}
				shape, ok := shapeOf(r, o)
				if ok {
					all++
					if _, hit := f.shapes.find(shape); hit {
						hits++
					}
				}
				if err := f.update(t.Context(), r, "", nil, o, "m"); err != nil {
					t.Fatal(err)
				}
				if got, want := owners(o), owners(want); got != want {
					t.Fatalf("%v, round %d, variant %d:\n%s\nwant\n%s", r, round, variant, got, want)
				}
			}
		}
	}
	t.Logf("%d of %d were known shapes", hits, all)
	if hits < all/20 {
		t.Errorf("%d of %d objects had a known shape: nothing was tested", hits, all)
	}
}

// TestUpdatesSayWhatTheManagerSays: after sequences of updates by several
// managers through several doors, what is remembered is what the field manager
// of Kubernetes finds, times included.
func TestUpdatesSayWhatTheManagerSays(t *testing.T) {
	for _, seed := range []uint64{rand.Uint64(), 9634509115726538797} { // the second has managedFields in a template
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { updatesSayWhatTheManagerSays(t, seed) })
	}
}

func updatesSayWhatTheManagerSays(t *testing.T, seed uint64) {
	f := newFieldManagers(slog.New(slog.DiscardHandler), nil)
	hits, all := 0, 0
	for n, r := range schema.Resources {
		if _, own := r.New().(interface{ Size() int }); !own || r.Storage != nil {
			continue
		}
		for round := range 3 {
			for variant := range 4 {
				var was schema.Object
				for step := range 5 {
					// Each step has fields of its own and keeps some values of the one before.
					rnd := rand.New(rand.NewPCG(seed, uint64(n*1000+round*10+step/2)))
					values := rand.New(rand.NewPCG(seed, uint64(variant+step)))
					o := r.New()
					(&filler{rnd: rnd, values: values, keyed: true}).fill(reflect.ValueOf(o).Elem(), 0)
					o.GetObjectKind().SetGroupVersionKind(r.GVK())
					o.SetManagedFields(nil)
					o.SetUID("u")
					defaults.Apply(o)
					manager, sub := []string{"a", "b", "c"}[(step+round)%3], ""
					if step%2 == 1 && r.Status {
						sub = "status"
					}
					want := o.DeepCopyObject().(schema.Object)
					if was == nil {
						if err := f.record(t.Context(), r, "", nil, o, manager); err != nil {
							t.Fatal(err)
						}
						was = aged(o, step)
						continue
					}
					if err := f.record(t.Context(), r, sub, was, want, manager); err != nil {
						t.Fatal(err)
					}
					if k, ok := f.updateKey(r, sub, was, o, manager); ok {
						all++
						if _, hit := f.updates.find(k); hit {
							hits++
						}
					}
					if err := f.update(t.Context(), r, sub, was, o, manager); err != nil {
						t.Fatal(err)
					}
					if got, want := owners(o)+when(o), owners(want)+when(want); got != want {
						t.Fatalf("%v, round %d, variant %d, step %d by %s through %q:\n%s\nwant\n%s", r, round, variant, step, manager, sub, got, want)
					}
					was = aged(o, step)
				}
			}
		}
	}
	t.Logf("%d of %d updates were known", hits, all)
	if all < 500 || hits < all/20 {
		t.Errorf("%d of %d updates were known: nothing was tested", hits, all)
	}
}

// aged is a stored state: its owners are of some time ago.
func aged(o schema.Object, step int) schema.Object {
	fields := o.GetManagedFields()
	for i := range fields {
		at := metav1.NewTime(time.Unix(int64(1000*step+i%2), 0))
		fields[i].Time = &at
	}
	o.SetManagedFields(fields)
	return o
}

// when says which owners have a time of now.
func when(o schema.Object) string {
	var b strings.Builder
	for _, e := range o.GetManagedFields() {
		if time.Since(e.Time.Time) < time.Hour {
			b.WriteString(" now")
			continue
		}
		fmt.Fprint(&b, " ", e.Time.Unix())
	}
	return b.String()
}

// filler fills Go values: which fields are set follows from rnd, to what from
// values.
type filler struct {
	rnd, values *rand.Rand
	keyed       bool // names and types in lists tell their elements apart
}

func (x *filler) fill(v reflect.Value, depth int) {
	switch v.Interface().(type) {
	case metav1.Time:
		v.Set(reflect.ValueOf(metav1.NewTime(time.Unix(1+x.values.Int64N(1e9), 0))))
		return
	case metav1.MicroTime:
		v.Set(reflect.ValueOf(metav1.NewMicroTime(time.Unix(1+x.values.Int64N(1e9), 0))))
		return
	case resource.Quantity:
		v.Set(reflect.ValueOf(*resource.NewQuantity(x.values.Int64N(100), resource.DecimalSI)))
		return
	case intstr.IntOrString:
		v.Set(reflect.ValueOf(intstr.FromInt32(x.values.Int32N(100))))
		return
	}
	switch v.Kind() {
	case reflect.Struct:
		for _, f := range plainFields(v.Type()) {
			if f.object && depth == 0 || f.inline || x.rnd.IntN(2+depth) == 0 {
				x.fill(v.Field(f.index), depth+1)
			}
		}
	case reflect.Pointer:
		if depth < 8 {
			v.Set(reflect.New(v.Type().Elem()))
			x.fill(v.Elem(), depth)
		}
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), x.rnd.IntN(3), 3))
		for i := range v.Len() {
			x.fill(v.Index(i), depth+1)
			x.tell(v.Index(i), i)
		}
	case reflect.Map:
		v.Set(reflect.MakeMap(v.Type()))
		for i := range x.rnd.IntN(3) {
			e := reflect.New(v.Type().Elem()).Elem()
			x.fill(e, depth+1)
			v.SetMapIndex(reflect.ValueOf(fmt.Sprintf("k%d", i)).Convert(v.Type().Key()), e)
		}
	case reflect.String:
		v.SetString(fmt.Sprintf("s%d", x.values.IntN(4)))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int32, reflect.Int64, reflect.Int:
		v.SetInt(1 + x.values.Int64N(3))
	}
}

// tell gives the element of a list a key.
func (x *filler) tell(v reflect.Value, i int) {
	if !x.keyed || v.Kind() != reflect.Struct {
		return
	}
	for _, name := range []string{"Name", "Type", "MountPath", "DevicePath", "UID", "IP", "Driver", "TopologyKey", "Port", "ContainerPort"} {
		switch f := v.FieldByName(name); {
		case !f.IsValid():
		case f.Kind() == reflect.String:
			f.SetString(fmt.Sprintf("key%d", i))
		case f.Kind() == reflect.Int32:
			f.SetInt(int64(i + 1))
		}
	}
}
