package render

import (
	"fmt"
	"reflect"
	"strings"

	"sigs.k8s.io/kustomize/api/types"
)

// kustomizationType is what kustomize reads a kustomization into.
var kustomizationType = reflect.TypeFor[types.Kustomization]()

// misspelled refuses the fields below the top that kustomize would take for
// others: it reads keys without regard to case, as encoding/json does, and we
// by their letters. What such a field names we would not see, and kustomize
// would load it.
func (k *kustomization) misspelled() {
	if k.root == nil {
		return
	}
	for _, f := range k.root.fields {
		if t, ok := jsonFields(kustomizationType)[f.key]; ok {
			k.spelling(f.val, t, f.key)
		}
	}
}

func (k *kustomization) spelling(n *node, t reflect.Type, field string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch {
	case n.kind == listNode && t.Kind() == reflect.Slice:
		for i, item := range n.items {
			k.spelling(item, t.Elem(), fmt.Sprintf("%s[%d]", field, i))
		}
	case n.kind == mapNode && t.Kind() == reflect.Map:
		for _, f := range n.fields {
			k.spelling(f.val, t.Elem(), field+"."+f.key)
		}
	case n.kind == mapNode && t.Kind() == reflect.Struct:
		known := jsonFields(t)
		for _, f := range n.fields {
			if next, ok := known[f.key]; ok {
				k.spelling(f.val, next, field+"."+f.key)
				continue
			}
			for name := range known {
				if strings.EqualFold(name, f.key) {
					finding := at(f.pos, "UnknownField", fmt.Sprintf("%s has no field %s", field, f.key))
					finding.Field, finding.Hint = field+"."+f.key, "did you mean "+name+"?"
					k.findings = append(k.findings, finding)
				}
			}
		}
	}
}

// jsonFields are the fields of a struct as encoding/json names them.
func jsonFields(t reflect.Type) map[string]reflect.Type {
	out := map[string]reflect.Type{}
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case f.Anonymous && name == "":
			inner := f.Type
			if inner.Kind() == reflect.Pointer {
				inner = inner.Elem()
			}
			for name, t := range jsonFields(inner) {
				out[name] = t
			}
		case !f.IsExported() || name == "-":
		case name == "":
			out[f.Name] = f.Type
		default:
			out[name] = f.Type
		}
	}
	return out
}
