package registry

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
)

// pairWriter writes what the owners of fields after an update follow from: of
// the old and the new state which fields are set, the keys of their lists and
// maps, and which values are the same in both. The merge types say which lists
// have keys and which values are one.
type pairWriter struct {
	types *smd.Schema
	buf   []byte
	ok    bool // nothing was found of which this cannot be told
	below int  // objects around the one that is compared
}

// The states of a value.
const (
	stateAbsent = iota // what holds it is not there
	stateNil
	stateZero
	stateSet
)

func state(v reflect.Value) byte {
	if !v.IsValid() {
		return stateAbsent
	}
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if v.IsNil() {
			return stateNil
		}
		return stateSet
	case reflect.Slice, reflect.Map:
		switch {
		case v.IsNil():
			return stateNil
		case v.Len() == 0:
			return stateZero
		}
		return stateSet
	case reflect.Struct:
		if emptyStruct(v) {
			return stateZero
		}
		return stateSet
	}
	if v.IsZero() {
		return stateZero
	}
	return stateSet
}

// emptyStruct says whether JSON leaves a struct out, or writes null for it, if
// its field says so.
func emptyStruct(v reflect.Value) bool {
	switch x := v.Interface().(type) {
	case metav1.Time:
		return x.IsZero()
	case metav1.MicroTime:
		return x.IsZero()
	case resource.Quantity:
		return x.IsZero()
	}
	return v.IsZero()
}

// pair writes a value of which either state may be absent.
func (w *pairWriter) pair(t smd.TypeRef, a, b reflect.Value) {
	if !w.ok {
		return
	}
	w.buf = append(w.buf, state(a)<<2|state(b))
	a, b = behind(a), behind(b)
	if !a.IsValid() && !b.IsValid() {
		return
	}
	atom, ok := w.types.Resolve(t)
	if !ok {
		w.ok = false
		return
	}
	of := a
	if !of.IsValid() {
		of = b
	}
	switch goType := of.Type(); {
	case isLeaf(goType):
		w.leaf(a, b, plainLeaf(goType))
	case goType.Kind() == reflect.Slice && goType.Elem().Kind() == reflect.Uint8:
		w.leaf(a, b, true)
	case goType.Kind() == reflect.Struct && atom.Map != nil:
		if atom.Map.ElementRelationship == smd.Atomic {
			w.leaf(a, b, true)
			return
		}
		w.below++
		w.fields(atom.Map, a, b)
		w.below--
	case goType.Kind() == reflect.Map && atom.Map != nil:
		if atom.Map.ElementRelationship == smd.Atomic {
			w.leaf(a, b, true)
			return
		}
		w.entries(atom.Map, a, b)
	case goType.Kind() == reflect.Slice && atom.List != nil:
		if atom.List.ElementRelationship != smd.Associative {
			w.leaf(a, b, true)
			return
		}
		w.items(atom.List, a, b)
	case atom.Scalar != nil && goType.Kind() != reflect.Interface:
		w.leaf(a, b, true)
	default:
		w.ok = false
	}
}

// behind follows pointers; not valid where one is nil.
func behind(v reflect.Value) reflect.Value {
	for v.IsValid() && v.Kind() == reflect.Pointer {
		if v.IsNil() {
			return reflect.Value{}
		}
		v = v.Elem()
	}
	return v
}

// plainLeaf says of a type with its own JSON that it is always one value.
func plainLeaf(t reflect.Type) bool {
	switch t.String() {
	case "v1.Time", "v1.MicroTime", "v1.Duration", "resource.Quantity", "intstr.IntOrString":
		return true
	}
	return false
}

// leaf writes whether a value is the same in both. One that may be anything is
// not told.
func (w *pairWriter) leaf(a, b reflect.Value, plain bool) {
	if !plain {
		w.ok = false
		return
	}
	same := byte(0)
	if a.IsValid() && b.IsValid() && w.same(a, b) {
		same = 1
	}
	w.buf = append(w.buf, same)
}

func (w *pairWriter) same(a, b reflect.Value) bool {
	switch a.Kind() {
	case reflect.String:
		return a.String() == b.String()
	case reflect.Bool:
		return a.Bool() == b.Bool()
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64:
		return a.Int() == b.Int()
	}
	if a.Type() == reflect.TypeFor[metav1.Time]() {
		x, y := a.Interface().(metav1.Time), b.Interface().(metav1.Time)
		return x.IsZero() == y.IsZero() && x.Unix() == y.Unix()
	}
	if a.Kind() != reflect.Struct && reflect.DeepEqual(a.Interface(), b.Interface()) {
		return true
	}
	return bytes.Equal(w.json(a), w.json(b))
}

func (w *pairWriter) json(v reflect.Value) []byte {
	data, err := json.Marshal(v.Interface())
	if err != nil {
		w.ok = false
	}
	return data
}

// jsonField is a field of a struct by its JSON name.
type jsonField struct {
	index  int
	name   string
	inline bool
}

var jsonFieldsOf sync.Map // reflect.Type -> []jsonField

func namedFields(t reflect.Type) []jsonField {
	if f, ok := jsonFieldsOf.Load(t); ok {
		return f.([]jsonField)
	}
	var out []jsonField
	for _, p := range plainFields(t) {
		name, _, _ := strings.Cut(t.Field(p.index).Tag.Get("json"), ",")
		out = append(out, jsonField{p.index, name, p.inline})
	}
	jsonFieldsOf.Store(t, out)
	return out
}

// ownMeta is how deep the metadata of the object itself are.
const ownMeta = 2

func (w *pairWriter) fields(m *smd.Map, a, b reflect.Value) {
	t := a
	if !t.IsValid() {
		t = b
	}
	for _, f := range namedFields(t.Type()) {
		var fa, fb reflect.Value
		if a.IsValid() {
			fa = a.Field(f.index)
		}
		if b.IsValid() {
			fb = b.Field(f.index)
		}
		if f.inline {
			if fa.Kind() == reflect.Pointer || fb.Kind() == reflect.Pointer {
				w.ok = false
				return
			}
			w.fields(m, fa, fb)
			continue
		}
		// Those of a template are fields as any other.
		if f.name == "managedFields" && w.below == ownMeta && t.Type() == reflect.TypeFor[metav1.ObjectMeta]() {
			w.buf = append(w.buf, state(fa)) // the new state has none yet
			continue
		}
		field, known := m.FindField(f.name)
		if !known {
			field.Type = m.ElementType
		}
		if field.Type.NamedType == nil && field.Type.Inlined == (smd.Atom{}) {
			// Not in the merge types: an error, unless it is not set.
			w.ok = w.ok && state(fa) <= stateZero && state(fb) <= stateZero
			continue
		}
		w.pair(field.Type, fa, fb)
	}
}

func (w *pairWriter) entries(m *smd.Map, a, b reflect.Value) {
	var keys []string
	for _, v := range []reflect.Value{a, b} {
		if !v.IsValid() {
			continue
		}
		if v.Type().Key().Kind() != reflect.String {
			w.ok = false
			return
		}
		for _, k := range v.MapKeys() {
			keys = append(keys, k.String())
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	w.tag(len(keys))
	at := func(v reflect.Value, k string) reflect.Value {
		if !v.IsValid() {
			return v
		}
		return v.MapIndex(reflect.ValueOf(k).Convert(v.Type().Key()))
	}
	for _, k := range keys {
		w.text(k)
		w.pair(m.ElementType, at(a, k), at(b, k))
	}
}

// items writes the elements of a list that have keys, paired by them.
func (w *pairWriter) items(l *smd.List, a, b reflect.Value) {
	ka, kb := w.keys(l, a), w.keys(l, b)
	if !w.ok {
		return
	}
	w.tag(len(ka))
	w.tag(len(kb))
	for i, k := range ka {
		w.text(k)
		var other reflect.Value
		j := slices.Index(kb, k)
		if j >= 0 {
			other = b.Index(j)
		}
		w.pair(l.ElementType, a.Index(i), other)
	}
	for j, k := range kb {
		if !slices.Contains(ka, k) {
			w.text(k)
			w.pair(l.ElementType, reflect.Value{}, b.Index(j))
		}
	}
}

// keys are what tells the elements of a list apart. Elements without a key, and
// two with the same, are left to the field manager.
func (w *pairWriter) keys(l *smd.List, v reflect.Value) []string {
	if !v.IsValid() {
		return nil
	}
	out := make([]string, v.Len())
	for i := range out {
		e := behind(v.Index(i))
		if !e.IsValid() {
			w.ok = false
			return nil
		}
		if out[i] = w.key(l, e); out[i] == "" || slices.Contains(out[:i], out[i]) {
			w.ok = false
			return nil
		}
	}
	return out
}

func (w *pairWriter) key(l *smd.List, e reflect.Value) string {
	if len(l.Keys) == 0 {
		return string(w.json(e))
	}
	if e.Kind() != reflect.Struct {
		return ""
	}
	names := jsonFields(e.Type())
	if len(l.Keys) == 1 { // nearly all
		if i, ok := names[l.Keys[0]]; ok {
			if f := behind(e.FieldByIndex(i)); f.IsValid() && f.Kind() == reflect.String {
				return f.String()
			}
		}
	}
	var key []byte
	for _, name := range l.Keys {
		i, ok := names[name]
		if !ok {
			return ""
		}
		f := behind(e.FieldByIndex(i))
		if !f.IsValid() || f.IsZero() {
			return ""
		}
		key = append(append(key, w.json(f)...), ',')
	}
	return string(key)
}

func (w *pairWriter) tag(n int)     { w.buf = binary.AppendUvarint(w.buf, uint64(n)) }
func (w *pairWriter) text(s string) { w.tag(len(s)); w.buf = append(w.buf, s...) }
