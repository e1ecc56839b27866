package registry

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/writ-os/writ/schema"
)

// Which fields the creator of an object owns follows from its shape alone: from
// which fields are set, the keys of maps, and in lists from what may be the key
// of an element. Objects are made by the thousand in a few shapes (the pods of a
// ReplicaSet), so what the field manager has found for one shape is kept.

// shapesMost bounds how many shapes are kept. All are dropped at once: those in
// use are back at the next object.
const shapesMost = 4096

type shapeKey struct {
	r   *schema.Resource
	sum [sha256.Size]byte
}

// shapes knows the fields of new objects by their shape.
type shapes struct {
	mu   sync.RWMutex
	sets map[shapeKey][]byte // FieldsV1; nil for none
}

func (s *shapes) find(k shapeKey) (set []byte, ok bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	set, ok = s.sets[k]
	return set, ok
}

func (s *shapes) keep(k shapeKey, set []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sets == nil || len(s.sets) >= shapesMost {
		s.sets = map[shapeKey][]byte{}
	}
	s.sets[k] = set
}

// shapeOf returns the shape of a new object of a Go type. ok is false where it
// holds something whose shape cannot be told.
func shapeOf(r *schema.Resource, o schema.Object) (k shapeKey, ok bool) {
	v := reflect.ValueOf(o)
	if v.Kind() != reflect.Pointer || v.Elem().Kind() != reflect.Struct {
		return k, false
	}
	w := shapeWriter{buf: make([]byte, 0, 2048), ok: true, whole: wholeLists(o)}
	v = v.Elem()
	for i, f := range plainFields(v.Type()) {
		if f.object { // apiVersion, kind and most of metadata are nobody's
			continue
		}
		w.tag(i)
		w.value(v.Field(f.index), false)
	}
	w.meta(o)
	return shapeKey{r, sha256.Sum256(w.buf)}, w.ok
}

// wholeLists says whether the lists of an object have no keys, and are one
// value: those of kinds that are told by their values (merge.Types).
func wholeLists(o schema.Object) bool {
	_, upstream := o.(interface{ Size() int })
	return !upstream
}

// meta writes the metadata that can be owned.
func (w *shapeWriter) meta(o metav1.Object) {
	m := metav1.ObjectMeta{
		GenerateName: o.GetGenerateName(), Labels: o.GetLabels(), Annotations: o.GetAnnotations(),
		OwnerReferences: o.GetOwnerReferences(), Finalizers: o.GetFinalizers(),
		DeletionTimestamp: o.GetDeletionTimestamp(), DeletionGracePeriodSeconds: o.GetDeletionGracePeriodSeconds(),
	}
	w.value(reflect.ValueOf(m), false)
}

// plainField is a field of a struct as JSON has it.
type plainField struct {
	index  int
	inline bool
	object bool // of the object as a whole: TypeMeta, ObjectMeta
}

var plainFieldsOf sync.Map // reflect.Type -> []plainField

func plainFields(t reflect.Type) []plainField {
	if f, ok := plainFieldsOf.Load(t); ok {
		return f.([]plainField)
	}
	var out []plainField
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name == "-" || !f.IsExported() {
			continue
		}
		out = append(out, plainField{
			index: i, inline: f.Anonymous && name == "",
			object: f.Type == reflect.TypeFor[metav1.TypeMeta]() || f.Type == reflect.TypeFor[metav1.ObjectMeta](),
		})
	}
	plainFieldsOf.Store(t, out)
	return out
}

type shapeWriter struct {
	buf   []byte
	ok    bool
	whole bool // lists are one value
}

func (w *shapeWriter) tag(n int)     { w.buf = binary.AppendUvarint(w.buf, uint64(n)) }
func (w *shapeWriter) text(s string) { w.tag(len(s)); w.buf = append(w.buf, s...) }

func (w *shapeWriter) flag(zero bool) {
	b := byte('v')
	if zero {
		b = 'z'
	}
	w.buf = append(w.buf, b)
}

// value writes the shape of a value. With exact it is a direct field of the
// element of a list, which may be its key, and is written out.
func (w *shapeWriter) value(v reflect.Value, exact bool) {
	if w.leaf(v, exact) {
		return
	}
	switch v.Kind() {
	case reflect.Pointer:
		w.flag(v.IsNil())
		if !v.IsNil() {
			w.value(v.Elem(), exact)
		}
	case reflect.Struct:
		for i, f := range plainFields(v.Type()) {
			w.tag(i)
			w.field(v.Field(f.index), f.inline, exact)
		}
	case reflect.Map:
		w.entries(v)
	case reflect.Slice, reflect.Array:
		w.flag(v.Kind() == reflect.Slice && v.IsNil())
		if w.whole {
			w.flag(v.Len() == 0)
			return
		}
		w.tag(v.Len())
		for i := range v.Len() {
			w.value(v.Index(i), true)
		}
	case reflect.String:
		w.flag(v.Len() == 0)
		if exact {
			w.text(v.String())
		}
	case reflect.Bool, reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		w.flag(v.IsZero())
		if exact {
			w.json(v)
		}
	default: // anything may be in an interface
		w.ok = false
	}
}

// field writes a field of a struct. Only those that JSON shows as fields of the
// element itself stay exact.
func (w *shapeWriter) field(v reflect.Value, inline, exact bool) {
	if exact && !inline {
		switch k := v.Kind(); {
		case k == reflect.Struct && !isLeaf(v.Type()), k == reflect.Pointer && v.Type().Elem().Kind() == reflect.Struct && !isLeaf(v.Type().Elem()):
			exact = false
		}
	}
	w.value(v, exact)
}

func (w *shapeWriter) entries(v reflect.Value) {
	w.flag(v.IsNil())
	w.tag(v.Len())
	if v.Type().Key().Kind() != reflect.String {
		w.ok = false
		return
	}
	keys := v.MapKeys()
	slices.SortFunc(keys, func(a, b reflect.Value) int { return strings.Compare(a.String(), b.String()) })
	for _, k := range keys {
		w.text(k.String())
		w.value(v.MapIndex(k), false)
	}
}

func (w *shapeWriter) json(v reflect.Value) {
	b, err := json.Marshal(v.Interface())
	if err != nil {
		w.ok = false
		return
	}
	w.text(string(b))
}

// isLeaf says whether a struct is one value in JSON.
func isLeaf(t reflect.Type) bool {
	switch t {
	case reflect.TypeFor[metav1.Time](), reflect.TypeFor[metav1.MicroTime](), reflect.TypeFor[metav1.Duration](),
		reflect.TypeFor[resource.Quantity](), reflect.TypeFor[intstr.IntOrString]():
		return true
	}
	return t.Implements(marshaler) || reflect.PointerTo(t).Implements(marshaler)
}

var marshaler = reflect.TypeFor[json.Marshaler]()

// leaf writes a value that writes its own JSON, and bytes.
func (w *shapeWriter) leaf(v reflect.Value, exact bool) bool {
	t := v.Type()
	if t.Kind() == reflect.Slice && t.Elem().Kind() == reflect.Uint8 {
		w.flag(v.Len() == 0)
		w.flag(v.IsNil())
		if exact {
			w.text(string(v.Bytes()))
		}
		return true
	}
	if t.Kind() != reflect.Struct || !isLeaf(t) {
		return false
	}
	switch x := v.Interface().(type) {
	case metav1.Time:
		w.flag(x.IsZero())
	case metav1.MicroTime:
		w.flag(x.IsZero())
	case metav1.Duration:
		w.flag(x.Duration == time.Duration(0))
	case resource.Quantity, intstr.IntOrString:
	default: // it may be anything, an object with fields too
		exact = true
	}
	if exact {
		w.json(v)
	}
	return true
}
