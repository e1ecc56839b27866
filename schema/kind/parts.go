package kind

import (
	"reflect"

	apiequality "k8s.io/apimachinery/pkg/api/equality"

	"github.com/writ-os/writ/schema"
)

// Part returns a top-level field of an object ("Spec", "Status"); not valid
// when the kind has none.
func Part(o schema.Object, name string) reflect.Value {
	return reflect.ValueOf(o).Elem().FieldByName(name)
}

// TakePart makes a top-level field of o what it is in from.
func TakePart(o, from schema.Object, name string) {
	dst, src := Part(o, name), Part(from, name)
	if dst.IsValid() && src.IsValid() {
		dst.Set(src)
	}
}

// ClearPart empties a top-level field.
func ClearPart(o schema.Object, name string) {
	if f := Part(o, name); f.IsValid() {
		f.SetZero()
	}
}

// SamePart says whether a top-level field means the same in both.
func SamePart(a, b schema.Object, name string) bool {
	fa, fb := Part(a, name), Part(b, name)
	if !fa.IsValid() || !fb.IsValid() {
		return true
	}
	return apiequality.Semantic.DeepEqual(fa.Interface(), fb.Interface())
}
