package registry

import (
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"
	smd "sigs.k8s.io/structured-merge-diff/v6/schema"
	"sigs.k8s.io/structured-merge-diff/v6/value"

	"github.com/writ-os/writ/schema"
)

// Of a new object there is nothing to merge with: who applies it owns what it
// declares, and nobody else owns anything. That is written down in one walk over
// the declaration. Whatever is out of the ordinary, and what is wrong, is left
// to the field manager, whose answers and refusals count.

// declare makes a new object of what a manager declares; false where the field
// manager must be asked.
func (f *fieldManagers) declare(r *schema.Resource, patch *unstructured.Unstructured, manager string) (schema.Object, bool) {
	switch {
	case r.Custom != nil, r.Storage != nil, r == scaleRow: // other types, or two versions
		return nil, false
	case manager == "", manager == "kubectl": // has another name then; has an annotation written
		return nil, false
	case r.Kind == "CertificateSigningRequest": // resets more than its status
		return nil, false
	}
	if _, has := patch.Object["status"]; has && r.Status {
		return nil, false // it is nobody's by this door
	}
	if meta, _ := patch.Object["metadata"].(map[string]any); meta["managedFields"] != nil {
		return nil, false
	}
	root, ok := f.root(r)
	if !ok {
		return nil, false
	}
	set, ok := declaredSet(root, patch.Object)
	if !ok {
		return nil, false
	}
	made, err := versions{r, f.catalog}.typed(patch)
	if err != nil {
		return nil, false
	}
	own(r, made, manager, metav1.ManagedFieldsOperationApply, set)
	return made, true
}

// declaredSet returns the fields of a declaration as FieldsV1, nil for none;
// false where that cannot be told.
func declaredSet(root mergeRoot, object map[string]any) (set []byte, ok bool) {
	w := setWriter{types: root.types, buf: make([]byte, 0, 1024), ok: true}
	w.buf = append(w.buf, '{')
	w.value(root.ref, object, stripped)
	if !w.ok {
		return nil, false
	}
	if len(w.buf) == 1 {
		return nil, true
	}
	return append(w.buf, '}'), true
}

// strip are fields that are never owned, with those inside of them.
type strip map[string]strip

// stripped is what upstream's stripMetaManager takes out.
var stripped = strip{"apiVersion": {}, "kind": {}, "metadata": {
	"name": {}, "namespace": {}, "creationTimestamp": {}, "selfLink": {}, "uid": {}, "clusterName": {},
	"generation": {}, "managedFields": {}, "resourceVersion": {},
}}

// setWriter writes the set of a value's fields as typed.TypedValue.ToFieldSet
// finds it and fieldpath.Set.ToJSON writes it, and checks as AsTyped does.
type setWriter struct {
	types *smd.Schema
	buf   []byte
	quiet int // how many atomic values it is in, whose fields are not told
	ok    bool
}

// value writes the fields inside of a value, without braces, and says whether
// the value is a field itself.
func (w *setWriter) value(t smd.TypeRef, v any, but strip) (field bool) {
	atom, ok := w.types.Resolve(t)
	if !ok || !w.ok {
		w.ok = false
		return false
	}
	switch v := v.(type) {
	case nil: // a value of any type; whoever declares it owns it
		w.ok = atom.Map != nil || atom.List != nil || atom.Scalar != nil
		return false
	case map[string]any:
		if atom.Map == nil {
			w.ok = false
			return false
		}
		return w.fields(atom.Map, v, but)
	case []any:
		if atom.List == nil {
			w.ok = false
			return false
		}
		return w.items(atom.List, v)
	}
	w.ok = atom.Scalar != nil && fitsScalar(*atom.Scalar, v)
	return true
}

func fitsScalar(t smd.Scalar, v any) bool {
	switch v.(type) {
	case string:
		return t == smd.String || t == smd.Untyped
	case bool:
		return t == smd.Boolean || t == smd.Untyped
	case int64, float64:
		return t == smd.Numeric || t == smd.Untyped
	}
	return false
}

func (w *setWriter) fields(m *smd.Map, v map[string]any, but strip) (field bool) {
	atomic := m.ElementRelationship == smd.Atomic
	if atomic {
		w.quiet++
		defer func() { w.quiet-- }()
	}
	for _, name := range slices.Sorted(maps.Keys(v)) {
		f, known := m.FindField(name)
		if !known {
			f.Type = m.ElementType
			if f.Type == (smd.TypeRef{}) {
				w.ok = false // no such field
				return false
			}
		}
		inner, strips := but[name]
		inside, isMap := v[name].(map[string]any)
		own := !strips && (!known || v[name] == nil || isMap && len(inside) == 0)
		mark := w.begin()
		w.text("f:" + name)
		at := w.open(own)
		self := w.value(f.Type, v[name], inner) && !strips
		w.close(mark, at, own || self)
		if !w.ok {
			return false
		}
	}
	return atomic
}

// items writes the elements of a list that have keys, in the order of those.
func (w *setWriter) items(l *smd.List, v []any) (field bool) {
	if l.ElementRelationship == smd.Atomic {
		w.quiet++
		defer func() { w.quiet-- }()
		for _, e := range v {
			w.value(l.ElementType, e, nil)
		}
		return true
	}
	if l.ElementRelationship != smd.Associative {
		w.ok = false
		return false
	}
	elements := make([]element, len(v))
	for i, e := range v {
		if elements[i], w.ok = w.element(l, e); !w.ok {
			return false
		}
	}
	slices.SortFunc(elements, func(a, b element) int { return a.path.Compare(b.path) })
	for i, e := range elements {
		if i > 0 && elements[i-1].path.Compare(e.path) == 0 {
			w.ok = false // twice
			return false
		}
		mark := w.begin()
		w.text(e.key)
		at := w.open(true)
		w.value(l.ElementType, e.value, nil)
		w.close(mark, at, true)
		if !w.ok {
			return false
		}
	}
	return false
}

// element is an element of a list with what tells it apart.
type element struct {
	path  fieldpath.PathElement
	key   string
	value any
}

func (w *setWriter) element(l *smd.List, v any) (e element, ok bool) {
	e.value = v
	if len(l.Keys) == 0 {
		if !simple(v) {
			return e, false
		}
		of := value.NewValueInterface(v)
		e.path = fieldpath.PathElement{Value: &of}
	} else {
		m, isMap := v.(map[string]any)
		atom, known := w.types.Resolve(l.ElementType)
		if !isMap || !known || atom.Map == nil {
			return e, false
		}
		keys := make(value.FieldList, 0, len(l.Keys))
		for _, name := range l.Keys {
			of, has := m[name]
			if !has {
				f, _ := atom.Map.FindField(name)
				of, has = f.Default, f.Default != nil
			}
			if !has {
				continue
			}
			if !simple(of) {
				return e, false
			}
			keys = append(keys, value.Field{Name: name, Value: value.NewValueInterface(of)})
		}
		if len(keys) == 0 {
			return e, false
		}
		keys.Sort()
		e.path = fieldpath.PathElement{Key: &keys}
	}
	var err error
	e.key, err = fieldpath.SerializePathElement(e.path)
	return e, err == nil
}

// simple says whether a value can be a key.
func simple(v any) bool {
	switch v.(type) {
	case string, bool, int64:
		return true
	}
	return false
}

// begin starts a field; the mark is where nothing of it is written yet.
func (w *setWriter) begin() (mark int) {
	mark = len(w.buf)
	if w.quiet == 0 && w.buf[mark-1] != '{' {
		w.buf = append(w.buf, ',')
	}
	return mark
}

// open begins what is inside of a field; one that is owned itself says so
// first.
func (w *setWriter) open(own bool) (at int) {
	if w.quiet > 0 {
		return 0
	}
	w.buf = append(w.buf, ':', '{')
	at = len(w.buf)
	if own {
		w.buf = append(w.buf, `".":{}`...)
	}
	return at
}

// close ends a field. One that is not owned, with nothing inside, is not
// written at all, and one with nothing inside need not say that it is owned.
func (w *setWriter) close(mark, at int, own bool) {
	if w.quiet > 0 {
		return
	}
	const dot = len(`".":{}`)
	inside := len(w.buf) > at
	if own && len(w.buf) == at+dot && string(w.buf[at:]) == `".":{}` {
		w.buf, inside = w.buf[:at], false
	}
	if !own && !inside {
		w.buf = w.buf[:mark]
		return
	}
	w.buf = append(w.buf, '}')
}

// text writes a string as the JSON of field sets has it. Characters that are
// written in another way than they are read are left to others.
func (w *setWriter) text(s string) {
	if w.quiet > 0 {
		return
	}
	w.buf = append(w.buf, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c < 0x20 || c >= 0x7f:
			w.ok = false
			return
		case c == '"' || c == '\\':
			w.buf = append(w.buf, '\\', c)
		default:
			w.buf = append(w.buf, c)
		}
	}
	w.buf = append(w.buf, '"')
}
