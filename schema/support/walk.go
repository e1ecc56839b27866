package support

import (
	"reflect"
	"slices"
	"strings"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// node is a type of which some field, or some field below, may not be honoured.
type node struct{ steps []step }

// step is one field of such a type.
type step struct {
	index int
	name  string // "" of an embedded field
	rows  []keyed
	next  *node // of what is below; nil where nothing is of interest
}

// keyed is a row of a field, or of one key of a map.
type keyed struct {
	key string
	row *Row
}

// nodes are those of the types in the table.
var nodes = sync.OnceValue(func() map[reflect.Type]*node { return compile(tables) })

// compile keeps of the table what may have something to say.
func compile(tables map[reflect.Type]*table) map[reflect.Type]*node {
	done := map[reflect.Type]*node{}
	var of func(t reflect.Type) *node
	of = func(t reflect.Type) *node {
		if n, ok := done[t]; ok {
			return n
		}
		tab := tables[t]
		if tab == nil {
			return nil
		}
		n := &node{}
		for i := range t.NumField() {
			f := t.Field(i)
			s := step{index: i, name: jsonName(f)}
			for _, e := range tab.rows[tableName(f)] {
				if e.row.Verdict == Lacking {
					s.rows = append(s.rows, e)
				}
			}
			if tab.descends(f) {
				s.next = of(below(f.Type))
			}
			if len(s.rows) > 0 || s.next != nil {
				n.steps = append(n.steps, s)
			}
		}
		if len(n.steps) == 0 {
			n = nil
		}
		done[t] = n
		return n
	}
	for t := range tables {
		of(t)
	}
	return done
}

// below is the type of the items of a field.
func below(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		t = t.Elem()
	}
	return t
}

func jsonName(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// tableName is how the table names a field: as JSON does, an embedded one as Go.
func tableName(f reflect.StructField) string {
	if name := jsonName(f); name != "" {
		return name
	}
	return f.Name
}

// applies says whether a row has something to say of a value.
func (r *Row) applies(v reflect.Value) bool {
	if r.When != nil {
		return r.When(v)
	}
	return !v.IsZero() && !((v.Kind() == reflect.Slice || v.Kind() == reflect.Map) && v.Len() == 0)
}

// valueOf is the value that a row is about; false where there is none.
func (k *keyed) valueOf(v reflect.Value) (reflect.Value, bool) {
	if k.key == "" {
		return v, true
	}
	v = v.MapIndex(reflect.ValueOf(k.key).Convert(v.Type().Key()))
	return v, v.IsValid()
}

// hits says whether there is anything to find.
func (n *node) hits(v reflect.Value) bool {
	for i := range n.steps {
		s := &n.steps[i]
		f := v.Field(s.index)
		for j := range s.rows {
			if fv, ok := s.rows[j].valueOf(f); ok && s.rows[j].row.applies(fv) {
				return true
			}
		}
		if s.next != nil && s.next.hitsBelow(f) {
			return true
		}
	}
	return false
}

func (n *node) hitsBelow(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Pointer:
		return !v.IsNil() && n.hitsBelow(v.Elem())
	case reflect.Slice:
		for i := range v.Len() {
			if n.hitsBelow(v.Index(i)) {
				return true
			}
		}
	case reflect.Struct:
		return n.hits(v)
	}
	return false
}

// walker collects what hits has seen, with its places.
type walker struct{ found []Finding }

func (w *walker) node(v reflect.Value, n *node, at *field.Path, key string) {
	for i := range n.steps {
		s := &n.steps[i]
		f, at, key := v.Field(s.index), at, key
		if s.name != "" {
			at, key = at.Child(s.name), key+"."+s.name
		}
		for j := range s.rows {
			r := &s.rows[j]
			fv, ok := r.valueOf(f)
			if !ok || !r.row.applies(fv) {
				continue
			}
			out := Finding{Row: r.row, Path: at, Value: words(fv), key: key + "[" + r.key + "]=" + words(fv)}
			if r.key != "" {
				out.Path = at.Key(r.key)
			}
			w.found = append(w.found, out)
		}
		if s.next != nil {
			w.below(f, s.next, at, key)
		}
	}
}

func (w *walker) below(v reflect.Value, n *node, at *field.Path, key string) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			w.below(v.Elem(), n, at, key)
		}
	case reflect.Slice:
		for i := range v.Len() {
			w.below(v.Index(i), n, at.Index(i), key)
		}
	case reflect.Struct:
		w.node(v, n, at, key)
	}
}

// annotationFindings adds what annotations ask for of an object, and of the
// pods of its template.
func annotationFindings(o any, found []Finding) []Finding {
	meta, ok := o.(metav1.Object)
	if !ok {
		return found
	}
	add := func(annotations map[string]string, at *field.Path) {
		first := len(found)
		defer func() {
			slices.SortFunc(found[first:], func(a, b Finding) int { return strings.Compare(a.key, b.key) })
		}()
		for name, value := range annotations {
			for i := range annotationRows {
				a := &annotationRows[i]
				if (name == a.name || strings.HasSuffix(a.name, "/") && strings.HasPrefix(name, a.name)) && value != a.fine {
					found = append(found, Finding{Row: &a.row, Path: at.Key(name), Value: value, key: name + "=" + value})
				}
			}
		}
	}
	add(meta.GetAnnotations(), field.NewPath("metadata", "annotations"))
	if t, at := TemplateOf(o); t != nil {
		add(t.Annotations, at.Child("metadata", "annotations"))
	}
	return found
}
