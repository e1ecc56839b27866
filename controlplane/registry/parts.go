package registry

import (
	"reflect"
	"strings"
	"sync"

	"github.com/writ-os/writ/schema"
)

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
