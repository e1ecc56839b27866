package registry

import (
	"reflect"
	"strings"
	"sync"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/writ-os/writ/schema"
)

// part returns a top-level field of an object ("Spec", "Status"); not valid
// when the kind has none.
func part(o schema.Object, name string) reflect.Value {
	return reflect.ValueOf(o).Elem().FieldByName(name)
}

// takePart makes a top-level field of o what it is in from.
func takePart(o, from schema.Object, name string) {
	dst, src := part(o, name), part(from, name)
	if dst.IsValid() && src.IsValid() {
		dst.Set(src)
	}
}

// clearPart empties a top-level field.
func clearPart(o schema.Object, name string) {
	if f := part(o, name); f.IsValid() {
		f.SetZero()
	}
}

// samePart says whether a top-level field means the same in both.
func samePart(a, b schema.Object, name string) bool {
	fa, fb := part(a, name), part(b, name)
	if !fa.IsValid() || !fb.IsValid() {
		return true
	}
	return apiequality.Semantic.DeepEqual(fa.Interface(), fb.Interface())
}

// jsonPath finds the Go field behind a JSON path ("spec.csi.driver"). It is not
// valid where a pointer on the way is nil.
func jsonPath(o schema.Object, path string) reflect.Value {
	v := reflect.ValueOf(o).Elem()
	for name := range strings.SplitSeq(path, ".") {
		for v.Kind() == reflect.Pointer {
			if v.IsNil() {
				return reflect.Value{}
			}
			v = v.Elem()
		}
		if v.Kind() != reflect.Struct {
			return reflect.Value{}
		}
		i, ok := jsonFields(v.Type())[name]
		if !ok {
			return reflect.Value{}
		}
		v = v.FieldByIndex(i)
	}
	return v
}

var fieldsByType sync.Map // reflect.Type -> map[string][]int

// jsonFields returns the fields of a struct by their JSON names, those of
// embedded structs among them.
func jsonFields(t reflect.Type) map[string][]int {
	if m, ok := fieldsByType.Load(t); ok {
		return m.(map[string][]int)
	}
	m := map[string][]int{}
	for _, f := range reflect.VisibleFields(t) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if name != "" && name != "-" {
			m[name] = f.Index
		}
	}
	fieldsByType.Store(t, m)
	return m
}
