// Package fieldpath reads one value out of a typed object by its JSON path
// ("status.phase"). A path is compiled once for a Go type and costs a few
// field loads after that: no JSON, no maps. Columns of tables and field
// selectors use it.
//
// It owns nothing and is safe for concurrent use.
package fieldpath

import (
	"fmt"
	"reflect"
	"strings"
)

// Path finds a value in objects of one Go type.
type Path struct {
	steps []step
}

// step goes into a struct field, or, where key is set, into a map.
type step struct {
	index []int
	key   string
}

// Compile prepares a path like "spec.nodeName" for the type of sample, a
// pointer to a struct. A step into a map[string]T takes the rest of the path,
// up to the end, as its key: "metadata.labels.app.kubernetes.io/name".
func Compile(sample any, path string) (Path, error) {
	p := Path{}
	t := reflect.TypeOf(sample)
	rest := path
	for rest != "" {
		for t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		if t.Kind() == reflect.Map {
			p.steps = append(p.steps, step{key: rest})
			return p, nil
		}
		if t.Kind() != reflect.Struct {
			return Path{}, fmt.Errorf("compile path %q: %s has no fields", path, t)
		}
		var name string
		name, rest, _ = strings.Cut(rest, ".")
		f, ok := fieldByTag(t, name)
		if !ok {
			return Path{}, fmt.Errorf("compile path %q: %s has no field %q", path, t, name)
		}
		p.steps = append(p.steps, step{index: f.Index})
		t = f.Type
	}
	return p, nil
}

// fieldByTag finds the field with a JSON name, also in inlined structs.
func fieldByTag(t reflect.Type, name string) (reflect.StructField, bool) {
	for i := range t.NumField() {
		f := t.Field(i)
		tag, opts, _ := strings.Cut(f.Tag.Get("json"), ",")
		if tag == name && name != "" {
			return f, true
		}
		if tag != "" || !f.Anonymous && !strings.Contains(opts, "inline") {
			continue
		}
		inner := f.Type
		for inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() != reflect.Struct {
			continue
		}
		if in, ok := fieldByTag(inner, name); ok {
			in.Index = append(append([]int{}, f.Index...), in.Index...)
			return in, true
		}
	}
	return reflect.StructField{}, false
}

// Value returns the value in o; ok is false where a pointer on the way is nil
// or a map has no such key.
func (p Path) Value(o any) (v reflect.Value, ok bool) {
	v = reflect.ValueOf(o)
	for _, s := range p.steps {
		if v, ok = deref(v); !ok {
			return v, false
		}
		if s.index == nil {
			v = v.MapIndex(reflect.ValueOf(s.key).Convert(v.Type().Key()))
			if !v.IsValid() {
				return v, false
			}
			continue
		}
		for _, i := range s.index {
			if v, ok = deref(v); !ok {
				return v, false
			}
			v = v.Field(i)
		}
	}
	return deref(v)
}

func deref(v reflect.Value) (reflect.Value, bool) {
	for v.Kind() == reflect.Pointer || v.Kind() == reflect.Interface {
		if v.IsNil() {
			return v, false
		}
		v = v.Elem()
	}
	return v, true
}

// Text returns the value as a field selector compares it; "" where it is
// absent.
func (p Path) Text(o any) string {
	v, ok := p.Value(o)
	if !ok {
		return ""
	}
	switch v.Kind() {
	case reflect.String:
		return v.String()
	case reflect.Struct, reflect.Slice, reflect.Map:
		if s, ok := v.Interface().(fmt.Stringer); ok {
			return s.String()
		}
		if v.CanAddr() {
			if s, ok := v.Addr().Interface().(fmt.Stringer); ok {
				return s.String()
			}
		}
	}
	return fmt.Sprint(v.Interface())
}
